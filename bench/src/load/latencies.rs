//! Latencies, and what is said of them.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// The finest difference that is kept, in nanoseconds; a call to the kernel takes longer.
const FINEST_NS: u64 = 128;
/// The longest that is told apart, in nanoseconds: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Decimal digits that are kept of each.
const DIGITS: u8 = 3;
/// The shares of the curve in a report: each step is a fifth of the way to the next nine.
const CURVE_STEPS: u32 = 25;

/// A histogram of durations (`HdrHistogram`: every one is counted, to three digits).
#[derive(Debug, Clone)]
pub(crate) struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        #[expect(clippy::expect_used, reason = "the bounds are constants that fit")]
        let histogram = Histogram::new_with_bounds(FINEST_NS, LONGEST_NS, DIGITS)
            .expect("the bounds of the histogram are in order");
        Self(histogram)
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        self.record_many(latency, 1);
    }

    /// Records a latency that so many operations had.
    pub(crate) fn record_many(&mut self, latency: Duration, count: u64) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(LONGEST_NS);
        self.0.saturating_record_n(ns, count);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        #[expect(clippy::expect_used, reason = "both have the same constant bounds")]
        self.0.add(&other.0).expect("equal bounds");
    }

    /// Returns a quantile in milliseconds; 0.5 is the median.
    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1e6
    }

    pub(crate) fn summary(&self) -> Summary {
        let quantile = |quantile| self.quantile_ms(quantile);
        Summary {
            count: self.0.len(),
            mean_ms: self.0.mean() / 1e6,
            p50_ms: quantile(0.5),
            p90_ms: quantile(0.9),
            p99_ms: quantile(0.99),
            p999_ms: quantile(0.999),
            max_ms: self.0.max() as f64 / 1e6,
            curve: self.curve(),
        }
    }

    /// Returns (share, milliseconds) from the lowest to as many nines as the count supports.
    fn curve(&self) -> Vec<(f64, f64)> {
        let mut curve = Vec::new();
        if self.0.is_empty() {
            return curve;
        }
        for step in 0..=CURVE_STEPS {
            let beyond = 10_f64.powf(-f64::from(step) / 5.0);
            if beyond * (self.0.len() as f64) < 1.0 {
                break;
            }
            curve.push((1.0 - beyond, self.quantile_ms(1.0 - beyond)));
        }
        curve.push((1.0, self.0.max() as f64 / 1e6));
        curve
    }
}

/// What a report says of many latencies.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) mean_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) max_ms: f64,
    /// (share of all, milliseconds that it took at most)
    pub(crate) curve: Vec<(f64, f64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_all_latencies() {
        let mut first = Latencies::default();
        let mut second = Latencies::default();
        for ms in 1..=500 {
            first.record(Duration::from_millis(ms));
            second.record(Duration::from_millis(500 + ms));
        }
        first.add(&second);
        let summary = first.summary();
        assert_eq!(summary.count, 1_000);
        for (found, right) in [
            (summary.p50_ms, 500.0),
            (summary.p90_ms, 900.0),
            (summary.p99_ms, 990.0),
            (summary.p999_ms, 999.0),
            (summary.max_ms, 1_000.0),
        ] {
            assert!((found / right - 1.0).abs() < 0.002, "{found} for {right}");
        }
        assert!(summary.curve.is_sorted_by(|a, b| a.1 <= b.1));
    }

    #[test]
    fn no_latency_at_all_has_a_summary() {
        let summary = Latencies::default().summary();
        assert_eq!((summary.count, summary.curve.len()), (0, 0));
    }
}
