//! What an operator can choose about the engine, with defaults that need no choice.

/// When an answer to a write is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// When it would survive a power cut: one sync for all that waits.
    #[default]
    Sync,
    /// When the operating system has it; a sync follows within this many milliseconds. A crash of
    /// the program loses nothing, a power cut may lose the writes of that time.
    Interval(u64),
}

/// Options of the engine.
#[derive(Debug, Clone)]
pub struct Options {
    /// When an answer to a write is given.
    pub durability: Durability,
    /// The size in bytes at which a log file is closed and its events go to a segment.
    pub log_file_bytes_max: u32,
    /// How many bytes of zeros are written ahead of the log's end, so that a commit changes no
    /// file's length.
    pub log_allocation_bytes: u32,
    /// The number of events in memory at which the log file is closed early.
    pub memory_events_max: u32,
    /// How many closed log files may wait for their segment before writes wait too.
    pub waiting_flushes_max: usize,
    /// A log file with a smaller share of living events than this, in percent, is rewritten.
    pub live_percent_min: u32,
    /// How many seconds after a purge (NIP-62, an operator's delete) its events are rewritten out
    /// of the log at the latest, counted by the times given to `sweep`.
    pub purge_seconds_max: u64,
    /// Random bytes for the secret key of the index; used when a store is made, ignored later.
    pub term_key: [u8; 16],
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Sync,
            log_file_bytes_max: 64 << 20,
            log_allocation_bytes: 4 << 20,
            memory_events_max: 64 * 1024,
            waiting_flushes_max: 2,
            live_percent_min: 50,
            purge_seconds_max: 3600,
            term_key: [0; 16],
        }
    }
}
