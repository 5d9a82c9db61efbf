//! What can be chosen about the update log, and places in it.

use std::time::Duration;

/// A place in the log: the number of entries before it, counted from the log's very beginning. It
/// does not depend on files and stays the same for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition(pub u64);

/// Sizes, times and the server's number.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// This server's number, from 1: updates that were first made here carry it, and others never
    /// ship them back.
    pub server: u32,
    /// Bytes of updates that may wait for the log's thread; who comes with more waits until there is
    /// room. As much again may be on its way to the disk.
    pub queue_bytes_max: usize,
    /// How long the log's thread collects, unless somebody waits for the disk or much is collected
    /// already. With nobody waiting (asynchronous), a power cut takes the updates of the last
    /// `linger` and of the write and the sync that were under way.
    pub linger: Duration,
    /// Whether who updates waits for the disk. Then what is allocated ahead is written, for the sake of
    /// short syncs; if not, for the sake of the processor, it is not.
    pub waited_for: bool,
    /// The length in bytes at which a file is full, at most 1 GiB. One batch may pass it.
    pub file_bytes_max: u32,
    /// Bytes of files that are kept for followers and restores. The oldest file goes as a whole, and
    /// never one that a recovery needs.
    pub retain_bytes: u64,
    /// Files whose last update is older than this, by the newest update's time, go too.
    pub retain_us: Option<u64>,
}

impl LogOptions {
    /// Returns the defaults. 4 MiB of waiting updates: some 100,000 small ones, or what a slow disk
    /// writes in 50 ms. 10 ms of collecting: a hundred wake-ups a second at most. Files of 64 MiB
    /// that are kept up to 1 GiB.
    pub const fn new(server: u32) -> Self {
        Self {
            server,
            queue_bytes_max: 4 << 20,
            linger: Duration::from_millis(10),
            waited_for: true,
            file_bytes_max: 64 << 20,
            retain_bytes: 1 << 30,
            retain_us: None,
        }
    }

    /// From so many waiting bytes on there is nothing to wait for.
    pub(super) fn flush_bytes(&self) -> usize {
        self.queue_bytes_max / 4
    }
}
