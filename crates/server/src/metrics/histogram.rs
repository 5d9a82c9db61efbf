//! A histogram of durations in buckets that grow with the value: four per doubling, from one
//! microsecond to a minute, so that every quantile is known within a fifth.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Doublings covered: 2^26 microseconds are 67 seconds.
const DOUBLINGS: usize = 26;
const BUCKETS: usize = DOUBLINGS * 4;

/// Durations, counted by bucket. Written by one thread, read by any.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_us: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    pub(crate) fn record(&self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let last = BUCKETS - 1;
        if let Some(bucket) = self.buckets.get(bucket_of(us).min(last)) {
            add(bucket, 1);
        }
        add(&self.sum_us, us);
    }

    /// Adds the counts to a sum over workers.
    pub(super) fn add_to(&self, total: &mut Totals) {
        for (bucket, sum) in self.buckets.iter().zip(&mut total.buckets) {
            *sum += bucket.load(Relaxed);
        }
        total.sum_us += self.sum_us.load(Relaxed);
    }
}

/// The counts of several histograms together.
#[derive(Debug)]
pub(super) struct Totals {
    buckets: [u64; BUCKETS],
    sum_us: u64,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            buckets: [0; BUCKETS],
            sum_us: 0,
        }
    }
}

impl Totals {
    /// Returns each bucket's upper bound in seconds with the number of durations up to it. The last
    /// bucket has no bound: it is left to [`Totals::count`].
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut below = 0;
        self.buckets
            .iter()
            .enumerate()
            .take(BUCKETS - 1)
            .map(move |(index, count)| {
                below += count;
                (upper_bound_us(index) as f64 / 1e6, below)
            })
    }

    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the upper bound, in seconds, of the bucket that this share of the durations ends in.
    pub(super) fn quantile_seconds(&self, share: f64) -> f64 {
        let wanted = share * self.count() as f64;
        self.cumulative()
            .find(|(_, below)| *below as f64 >= wanted)
            .map_or(f64::INFINITY, |(bound, _)| bound)
    }

    pub(super) fn sum_seconds(&self) -> f64 {
        self.sum_us as f64 / 1e6
    }
}

/// Adds without a locked instruction: only one thread writes.
fn add(cell: &AtomicU64, by: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(by), Relaxed);
}

/// The first four buckets hold 0, 1, 2 and 3 microseconds; after them come four to each doubling.
fn bucket_of(us: u64) -> usize {
    if us < 4 {
        return us as usize;
    }
    let doubling = us.ilog2();
    let quarter = (us >> (doubling - 2)) & 3;
    (doubling as usize - 1) * 4 + quarter as usize
}

/// The lowest value that is above the bucket.
fn upper_bound_us(index: usize) -> u64 {
    let next = index as u64 + 1;
    if next < 4 {
        return next;
    }
    (4 + next % 4) << (next / 4 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gap() {
        for index in 0..BUCKETS - 1 {
            let bound = upper_bound_us(index);
            assert_eq!(bucket_of(bound - 1), index, "below {bound}");
            assert_eq!(bucket_of(bound), index + 1, "at {bound}");
        }
    }

    #[test]
    fn no_duration_is_lost() {
        let histogram = Histogram::default();
        for duration in [Duration::ZERO, Duration::from_millis(3), Duration::MAX] {
            histogram.record(duration);
        }
        let mut totals = Totals::default();
        histogram.add_to(&mut totals);
        assert_eq!(totals.count(), 3);
        assert_eq!(totals.cumulative().last().map(|(_, count)| count), Some(2));
    }
}
