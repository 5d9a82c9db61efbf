//! What can be chosen about a set of tables.

use crate::LogOptions;

/// Whether updates are taken down, and who waits for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Logging {
    /// There is no log: after a power cut tables have what was synced, each kind as it promises.
    /// Nothing can be followed or restored.
    #[default]
    None,
    /// Updates are logged, and their answers wait until they are durable in the log
    /// ([`crate::Tables::settled`]). After a power cut a record whose last update was not answered has
    /// its old value or its new one.
    Sync,
    /// Updates are logged, and nobody waits. The end of the process (`kill -9`) takes nothing; a power
    /// cut takes what was logged during the last [`LogOptions::linger`] and during the write and sync
    /// under way, always the newest updates, and at most twice [`LogOptions::queue_bytes_max`] (and
    /// one update that is larger). Only when so much waits does an update wait, for room.
    Async,
}

/// How a set of tables is opened.
#[derive(Debug, Clone)]
pub struct TablesOptions {
    /// Whether updates are taken down.
    pub logging: Logging,
    /// The log's sizes, and this server's number.
    pub log: LogOptions,
    /// After so many bytes of log all tables are synced, so that a recovery has no more than about
    /// that to carry out again, and older files can go.
    pub checkpoint_bytes: u64,
    /// Whether opening is refused if the log has updates, still to be carried out again, of tables that
    /// are not among those to open: theirs would be passed over.
    pub needs_all: bool,
}

impl TablesOptions {
    /// Returns the defaults for a server of this number: no log; with one, a checkpoint after each
    /// 256 MiB of it, which a recovery carries out again in some seconds.
    pub const fn new(server: u32) -> Self {
        Self {
            logging: Logging::None,
            log: LogOptions::new(server),
            checkpoint_bytes: 256 << 20,
            needs_all: false,
        }
    }
}
