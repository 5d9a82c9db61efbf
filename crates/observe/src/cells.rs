//! One shape's cells: written by one thread with plain stores, read by any.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{
    histogram::{BUCKETS, Histogram, bucket_of},
    ledger::{Cost, Ending, PHASES},
    snapshot::ShapeFigures,
    statements::nanoseconds,
};

pub(crate) struct Cells {
    calls: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    total_ns: AtomicU64,
    max_ns: AtomicU64,
    phases_ns: [AtomicU64; PHASES],
    examined: AtomicU64,
    returned: AtomicU64,
    bytes: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Cells {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            calls: zero(),
            failed: zero(),
            cancelled: zero(),
            total_ns: zero(),
            max_ns: zero(),
            phases_ns: std::array::from_fn(|_| zero()),
            examined: zero(),
            returned: zero(),
            bytes: zero(),
            buckets: std::array::from_fn(|_| zero()),
        }
    }
}

/// Adds without a locked instruction: only one thread writes.
fn add(cell: &AtomicU64, by: u64) {
    if by > 0 {
        cell.store(cell.load(Relaxed).wrapping_add(by), Relaxed);
    }
}

fn take(cell: &AtomicU64) -> u64 {
    let value = cell.load(Relaxed);
    cell.store(0, Relaxed);
    value
}

impl Cells {
    /// Adds `calls` requests that took `cost` together. Tells whether one took longer than any before.
    pub(crate) fn add(&self, cost: &Cost, calls: u64) -> bool {
        let ns = nanoseconds(cost.total);
        let each = ns / calls.max(1);
        add(&self.calls, calls);
        match cost.ending {
            Ending::Done => {}
            Ending::Failed => add(&self.failed, calls),
            Ending::Cancelled => add(&self.cancelled, calls),
        }
        add(&self.total_ns, ns);
        for (cell, ns) in self.phases_ns.iter().zip(cost.phases_ns) {
            add(cell, ns);
        }
        add(&self.examined, cost.examined);
        add(&self.returned, cost.returned);
        add(&self.bytes, cost.bytes);
        if let Some(bucket) = self.buckets.get(bucket_of(each)) {
            add(bucket, calls);
        }
        let longest = each > self.max_ns.load(Relaxed);
        if longest {
            self.max_ns.store(each, Relaxed);
        }
        longest
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    pub(crate) fn total_ns(&self) -> u64 {
        self.total_ns.load(Relaxed)
    }

    /// Moves all counts over to `other`.
    pub(crate) fn give_to(&self, other: &Self) {
        let max = take(&self.max_ns).max(other.max_ns.load(Relaxed));
        other.max_ns.store(max, Relaxed);
        let pairs = self.all().zip(other.all());
        for (from, to) in pairs {
            add(to, take(from));
        }
    }

    /// All that are added up: each but the maximum.
    fn all(&self) -> impl Iterator<Item = &AtomicU64> {
        [
            &self.calls,
            &self.failed,
            &self.cancelled,
            &self.total_ns,
            &self.examined,
            &self.returned,
            &self.bytes,
        ]
        .into_iter()
        .chain(&self.phases_ns)
        .chain(&self.buckets)
    }

    pub(crate) fn figures(&self, shape: String) -> ShapeFigures {
        let read = |cell: &AtomicU64| cell.load(Relaxed);
        let phase = |phase: usize| self.phases_ns.get(phase).map_or(0, read);
        ShapeFigures {
            shape,
            calls: read(&self.calls),
            failed: read(&self.failed),
            cancelled: read(&self.cancelled),
            total_ns: read(&self.total_ns),
            max_ns: read(&self.max_ns),
            phases_ns: crate::PhaseTimes {
                wait: phase(0),
                query: phase(1),
                decode: phase(2),
                handler: phase(3),
                write: phase(4),
            },
            examined: read(&self.examined),
            returned: read(&self.returned),
            bytes: read(&self.bytes),
            histogram: Histogram::from_counts(self.buckets.iter().map(read)),
            example: None,
            example_ns: 0,
        }
    }
}
