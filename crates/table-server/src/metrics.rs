//! What the server counts. Each worker has cells of its own that only its thread writes; a reader
//! adds them up.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

macro_rules! counts {
    ($($(#[$doc:meta])* $count:ident: $name:literal,)*) => {
        /// What only grows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Count { $($(#[$doc])* $count,)* }

        impl Count {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$count,)*];

            /// Returns the name by which `stats` shows it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$count => $name,)* }
            }
        }
    };
}

counts!(
    /// Connections opened.
    ConnectionsOpened: "total_connections",
    /// Connections that have ended.
    ConnectionsClosed: "closed_connections",
    /// Connections refused because there were too many.
    ConnectionsRefused: "rejected_connections",
    /// Connections closed because they sent half a request, or nothing, or read nothing for too long.
    ConnectionsOverdue: "overdue_connections",
    /// Keys asked for.
    Get: "cmd_get",
    /// Values sent to be stored.
    Set: "cmd_set",
    /// Commands that remove everything.
    Flush: "cmd_flush",
    /// Expiries changed, reads that do so included.
    Touch: "cmd_touch",
    /// Meta commands.
    Meta: "cmd_meta",
    /// Keys found.
    GetHits: "get_hits",
    /// Keys not found.
    GetMisses: "get_misses",
    /// Records removed.
    DeleteHits: "delete_hits",
    /// Records to remove that were not there.
    DeleteMisses: "delete_misses",
    /// Numbers added to.
    IncrementHits: "incr_hits",
    /// Numbers to add to that were not there.
    IncrementMisses: "incr_misses",
    /// Numbers subtracted from.
    DecrementHits: "decr_hits",
    /// Numbers to subtract from that were not there.
    DecrementMisses: "decr_misses",
    /// Conditional stores that were carried out.
    CasHits: "cas_hits",
    /// Conditional stores of records that were not there.
    CasMisses: "cas_misses",
    /// Conditional stores of records that had changed.
    CasDiffers: "cas_badval",
    /// Expiries changed.
    TouchHits: "touch_hits",
    /// Expiries to change of records that were not there.
    TouchMisses: "touch_misses",
    /// Values sent to be stored, in Tokyo Tyrant's protocol as all that follow.
    TyrantPut: "cnt_put",
    /// Records to be removed.
    TyrantOut: "cnt_out",
    /// Keys asked for.
    TyrantGet: "cnt_get",
    /// Keys not found.
    TyrantGetMiss: "cnt_get_miss",
    /// Numbers added to.
    TyrantAdd: "cnt_add",
    /// Other commands.
    TyrantOther: "cnt_other",
    /// Tokens presented.
    Auth: "auth_cmds",
    /// Tokens that were wrong.
    AuthErrors: "auth_errors",
    /// Requests that were not understood, or refused.
    Refused: "refused_requests",
    /// Bytes received.
    BytesRead: "bytes_read",
    /// Bytes sent.
    BytesWritten: "bytes_written",
    /// System calls that received bytes.
    Reads: "socket_reads",
    /// System calls that sent bytes.
    Writes: "socket_writes",
);

/// One worker's cells. Written by its thread alone, read by any.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct WorkerMetrics([AtomicU64; Count::ALL.len()]);

impl Default for WorkerMetrics {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl WorkerMetrics {
    /// Adds to a count.
    pub(crate) fn add(&self, count: Count, by: u64) {
        if let Some(cell) = self.0.get(count as usize) {
            cell.store(cell.load(Relaxed).wrapping_add(by), Relaxed);
        }
    }

    fn get(&self, count: Count) -> u64 {
        self.0
            .get(count as usize)
            .map_or(0, |cell| cell.load(Relaxed))
    }
}

/// The figures of a table server, of all its workers together.
#[derive(Debug, Clone)]
pub struct Metrics {
    workers: Arc<[Arc<WorkerMetrics>]>,
    /// What they were when a client last reset its statistics.
    reset: Arc<WorkerMetrics>,
}

impl Metrics {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers: (0..workers).map(|_| Arc::default()).collect(),
            reset: Arc::default(),
        }
    }

    pub(crate) fn worker(&self, index: usize) -> Arc<WorkerMetrics> {
        self.workers.get(index).cloned().unwrap_or_default()
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Returns a count.
    pub fn get(&self, count: Count) -> u64 {
        self.workers.iter().map(|worker| worker.get(count)).sum()
    }

    /// Begins to count anew, for those who ask by `stats` alone.
    pub(crate) fn begin_anew(&self) {
        for &count in Count::ALL {
            if let Some(cell) = self.reset.0.get(count as usize) {
                cell.store(self.get(count), Relaxed);
            }
        }
    }

    /// Returns a count as `stats` tells it.
    pub(crate) fn since_reset(&self, count: Count) -> u64 {
        self.get(count).wrapping_sub(self.reset.get(count))
    }

    /// Returns how many connections are open.
    pub fn connections(&self) -> u64 {
        self.get(Count::ConnectionsOpened)
            .saturating_sub(self.get(Count::ConnectionsClosed))
    }
}
