//! Durations in buckets that grow with the value: four per doubling, from 64 nanoseconds to over a
//! minute, so that every quantile is known within a fifth.

use serde::{Deserialize, Serialize};

/// Durations below this share the first bucket.
const FIRST_BITS: u32 = 6;
/// Doublings covered: 2^36 nanoseconds are 68 seconds.
const DOUBLINGS: usize = 30;
/// How many buckets there are.
pub(crate) const BUCKETS: usize = 1 + DOUBLINGS * 4;

/// Returns the bucket of a duration.
pub(crate) fn bucket_of(ns: u64) -> usize {
    if ns < 1 << FIRST_BITS {
        return 0;
    }
    let doubling = ns.ilog2();
    let quarter = (ns >> (doubling - 2)) & 3;
    let bucket = 1 + (doubling - FIRST_BITS) as usize * 4 + quarter as usize;
    bucket.min(BUCKETS - 1)
}

/// Returns the lowest duration above the bucket.
fn upper_bound_ns(bucket: usize) -> u64 {
    (4 + bucket as u64 % 4) << (bucket as u64 / 4 + u64::from(FIRST_BITS) - 2)
}

/// Durations, counted by bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Histogram {
    /// Buckets that are not empty, ascending, with their counts.
    buckets: Vec<(u16, u64)>,
}

impl Histogram {
    pub(crate) fn from_counts(counts: impl Iterator<Item = u64>) -> Self {
        let buckets = counts
            .enumerate()
            .filter(|(_, count)| *count > 0)
            .map(|(bucket, count)| (bucket as u16, count))
            .collect();
        Self { buckets }
    }

    /// Returns how many durations there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// Returns the duration in nanoseconds that this share of all (0 to 1) does not exceed, within a
    /// fifth; 0 if there is none.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let wanted = (share * self.count() as f64).ceil().max(1.0);
        let mut below = 0;
        for (bucket, count) in &self.buckets {
            below += count;
            if below as f64 >= wanted {
                return upper_bound_ns(usize::from(*bucket));
            }
        }
        0
    }

    /// Adds another's durations.
    pub(crate) fn add(&mut self, other: &Self) {
        for (bucket, count) in &other.buckets {
            match self.buckets.binary_search_by_key(bucket, |(b, _)| *b) {
                Ok(at) => {
                    if let Some((_, sum)) = self.buckets.get_mut(at) {
                        *sum += count;
                    }
                }
                Err(at) => self.buckets.insert(at, (*bucket, *count)),
            }
        }
    }

    /// Returns what has come since an earlier state of the same.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let before = |bucket: u16| {
            let found = earlier.buckets.iter().find(|(b, _)| *b == bucket);
            found.map_or(0, |(_, count)| *count)
        };
        let buckets = self.buckets.iter();
        let buckets = buckets
            .map(|(bucket, count)| (*bucket, count.saturating_sub(before(*bucket))))
            .filter(|(_, count)| *count > 0);
        Self {
            buckets: buckets.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gap() {
        for bucket in 0..BUCKETS - 1 {
            let bound = upper_bound_ns(bucket);
            assert_eq!(bucket_of(bound - 1), bucket, "below {bound}");
            assert_eq!(bucket_of(bound), bucket + 1, "at {bound}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_known_within_a_fifth() {
        let mut counts = [0; BUCKETS];
        for us in 1..=1000_u64 {
            counts[bucket_of(us * 1000)] += 1;
        }
        let histogram = Histogram::from_counts(counts.into_iter());
        for (share, ns) in [(0.5, 500_000.0), (0.95, 950_000.0), (0.99, 990_000.0)] {
            let found = histogram.quantile_ns(share) as f64;
            assert!((0.99..1.25).contains(&(found / ns)), "{share}: {found}");
        }
        assert_eq!(Histogram::default().quantile_ns(0.5), 0);
    }

    #[test]
    fn what_came_since_is_the_difference() {
        let of = |counts: &[u64]| Histogram::from_counts(counts.iter().copied());
        let mut sum = of(&[1, 0, 2]);
        sum.add(&of(&[0, 4, 1]));
        assert_eq!(sum, of(&[1, 4, 3]));
        assert_eq!(sum.since(&of(&[1, 0, 2])), of(&[0, 4, 1]));
    }
}
