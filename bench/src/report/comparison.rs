//! A beside B: the ratio of each round, and whether it says anything.

use serde::Serialize;

use crate::{
    load::{Kind, Latencies, Measured, Pace},
    report::{model::Record, score::Score},
};

/// One figure of one part, compared.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Comparison {
    pub(crate) part: String,
    pub(crate) figure: &'static str,
    /// A divided by B, a round each.
    pub(crate) ratios: Vec<f64>,
    pub(crate) median: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
    pub(crate) statement: String,
}

/// So many rounds of two equal servers favour the same one in one run of sixteen.
const ROUNDS_MIN: usize = 5;

type Figure = (&'static str, fn(&Measured) -> Option<f64>);

const FIGURES: [Figure; 5] = [
    ("operations a second", |measured| {
        matches!(measured.pace, Pace::Closed { .. }).then(|| measured.rate())
    }),
    ("p50", |measured| latency(measured, 0.5)),
    ("p99", |measured| latency(measured, 0.99)),
    ("p50 of deliveries", |measured| {
        let of = |kind| kind == Kind::Delivery;
        merged(measured, of).map(|latencies| latencies.quantile_ms(0.5))
    }),
    ("server's CPU for an operation", |measured| {
        let each = measured.server_cpu? / measured.achieved().max(1) as f64;
        (each > 0.0).then_some(each)
    }),
];

fn latency(measured: &Measured, quantile: f64) -> Option<f64> {
    let merged = merged(measured, |kind| kind != Kind::Delivery);
    merged.map(|latencies| latencies.quantile_ms(quantile))
}

fn merged(measured: &Measured, wanted: impl Fn(Kind) -> bool) -> Option<Latencies> {
    let counts = measured.counts.iter();
    let mut counts =
        counts.filter(|counts| wanted(counts.class.kind) && !counts.latencies.is_empty());
    let mut all = counts.next()?.latencies.clone();
    for counts in counts {
        all.add(&counts.latencies);
    }
    Some(all)
}

/// Compares the first server with the second, round by round.
pub(crate) fn compare(records: &[Record], scores: &[Score]) -> Vec<Comparison> {
    let mut comparisons: Vec<Comparison> = Vec::new();
    for first in records.iter().filter(|record| record.target == 0) {
        let part = &first.part;
        if comparisons.iter().any(|known| known.part == *part) {
            continue;
        }
        for (figure, of) in FIGURES {
            let rounds = |target| {
                let mine = move |it: &&Record| it.part == *part && it.target == target;
                records.iter().filter(mine)
            };
            let ratios: Vec<f64> = rounds(0)
                .filter_map(|ours| {
                    let theirs = rounds(1).find(|theirs| theirs.round == ours.round)?;
                    Some(of(&ours.measured)? / of(&theirs.measured)?)
                })
                .filter(|ratio| ratio.is_finite())
                .collect();
            if !ratios.is_empty() {
                comparisons.push(Comparison::new(part, figure, ratios));
            }
        }
    }
    comparisons.extend(points(scores));
    comparisons
}

/// Compares the points of each part that has a score.
fn points(scores: &[Score]) -> Vec<Comparison> {
    let mut comparisons: Vec<Comparison> = Vec::new();
    for first in scores {
        let part = first.part;
        if comparisons.iter().any(|known| known.part == part) {
            continue;
        }
        let of = |target| {
            let mine = move |it: &&Score| it.part == part && it.target == target;
            scores.iter().filter(mine)
        };
        let ratios: Vec<f64> = of("A")
            .filter_map(|ours| {
                let theirs = of("B").find(|theirs| theirs.round == ours.round)?;
                // Points below zero have no ratio.
                let both = ours.points > 0 && theirs.points > 0;
                both.then(|| ours.points as f64 / theirs.points as f64)
            })
            .collect();
        if !ratios.is_empty() {
            comparisons.push(Comparison::new(part, "points", ratios));
        }
    }
    comparisons
}

impl Comparison {
    fn new(part: &str, figure: &'static str, ratios: Vec<f64>) -> Self {
        let mut sorted = ratios.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let median = median(&sorted);
        let lowest = sorted.first().copied().unwrap_or(f64::NAN);
        let highest = sorted.last().copied().unwrap_or(f64::NAN);
        let noise = (highest - lowest) / 2.0;
        let difference = (median - 1.0).abs();
        let statement = if (lowest <= 1.0 && highest >= 1.0) || noise > difference {
            "the noise is larger than the difference: no difference is shown".to_owned()
        } else if ratios.len() < ROUNDS_MIN {
            format!("A is {median:.2} times B; so few rounds may say that by chance")
        } else {
            format!("A is {median:.2} times B in the median round")
        };
        Self {
            part: part.to_owned(),
            figure,
            ratios,
            median,
            lowest,
            highest,
            statement,
        }
    }
}

/// Returns the middle of sorted values; of an even number the mean of the two.
fn median(sorted: &[f64]) -> f64 {
    let value = |place: usize| sorted.get(place).copied().unwrap_or(f64::NAN);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        value(middle)
    } else {
        f64::midpoint(value(middle.saturating_sub(1)), value(middle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(ratios: &[f64]) -> String {
        Comparison::new("part", "figure", ratios.to_vec()).statement
    }

    fn score(target: &'static str, round: usize, points: i64) -> Score {
        let pace = Pace::Closed { window: 1 };
        let measured = Measured::new(pace, &[]);
        let part = ("level 1", round);
        let mut score = Score::new(target, part, String::new(), &measured, String::new());
        score.points = points;
        score
    }

    #[test]
    fn points_are_compared_round_by_round() {
        let scores = [
            score("A", 0, 300),
            score("B", 0, 100),
            score("A", 1, 100),
            score("B", 1, 100),
            score("A", 2, -5),
            score("B", 2, 100),
            score("A", 3, 100),
        ];
        let compared = compare(&[], &scores);
        assert_eq!(compared.len(), 1);
        assert_eq!((compared[0].figure, compared[0].median), ("points", 2.0));
        assert_eq!(compared[0].ratios, [3.0, 1.0]);
    }

    #[test]
    fn noise_larger_than_the_difference_is_called_that() {
        assert!(statement(&[0.9, 1.2, 1.1]).contains("no difference is shown"));
        assert!(statement(&[1.01, 1.4, 1.1]).contains("no difference is shown"));
        assert_eq!(
            statement(&[2.0, 2.2, 2.1, 2.0, 2.2]),
            "A is 2.10 times B in the median round"
        );
        assert!(statement(&[0.5, 0.52]).contains("0.51 times B; so few"));
        assert!(statement(&[3.0]).contains("so few"));
    }
}
