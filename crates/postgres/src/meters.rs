//! What the store counts of itself, for those who watch it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::BackfillStatus;

/// What the store has at hand about itself, without asking the database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PostgresMeters {
    /// Open connections: those for reading, the writer's, the listener's, a backfill's.
    pub connections: u64,
    /// Reads that use a connection now.
    pub reads_under_way: u64,
    /// Statements sent since the start.
    pub statements: u64,
    /// Transactions of the writer that were committed since the start.
    pub batches: u64,
    /// Events stored by them.
    pub events_written: u64,
    /// Tries of the writer that failed since the start.
    pub failures: u64,
    /// Numbers that other nodes have committed and that this one has not told its subscribers of.
    pub feed_lag: u64,
    /// The backfill as it was a few seconds ago, whichever node does it.
    pub backfill: Option<BackfillStatus>,
}

/// What is counted where it happens.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    pub(crate) connections: AtomicU64,
    pub(crate) reads_under_way: AtomicU64,
    pub(crate) statements: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) events_written: AtomicU64,
    pub(crate) failures: AtomicU64,
}

impl Meters {
    /// Returns what was counted, beside what the feed knows.
    pub(crate) fn read(&self, feed_lag: u64, backfill: Option<BackfillStatus>) -> PostgresMeters {
        PostgresMeters {
            connections: self.connections.load(Relaxed),
            reads_under_way: self.reads_under_way.load(Relaxed),
            statements: self.statements.load(Relaxed),
            batches: self.batches.load(Relaxed),
            events_written: self.events_written.load(Relaxed),
            failures: self.failures.load(Relaxed),
            feed_lag,
            backfill,
        }
    }
}

/// Counts so many more.
pub(crate) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Relaxed);
}
