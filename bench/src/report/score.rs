//! Points, as in the contest: what a server did for its users, and what it failed to do.

use crate::{
    load::{Kind, Measured},
    report::table::{Cell, Table},
};

const READ: i64 = 1;
const WRITE: i64 = 5;
const FAILED_READ: i64 = -5;
const FAILED_WRITE: i64 = -25;

/// The points of one server for one load.
#[derive(Debug, Clone)]
pub(crate) struct Score {
    pub(crate) target: &'static str,
    /// What was run, and in which round: scores of the same are compared.
    pub(crate) part: &'static str,
    pub(crate) round: usize,
    pub(crate) load: String,
    pub(crate) points: i64,
    pub(crate) verdict: String,
    pub(crate) lines: Vec<Line>,
}

/// The points of one kind of operation.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) operation: String,
    pub(crate) done: u64,
    pub(crate) failed: u64,
    pub(crate) points: i64,
}

impl Score {
    pub(crate) fn new(
        target: &'static str,
        (part, round): (&'static str, usize),
        load: String,
        measured: &Measured,
        verdict: String,
    ) -> Self {
        let counts = measured.counts.iter();
        let lines: Vec<_> = counts
            .filter_map(|counts| {
                let (right, wrong) = match counts.class.kind {
                    Kind::Read => (READ, FAILED_READ),
                    Kind::Write => (WRITE, FAILED_WRITE),
                    Kind::Delivery => return None,
                };
                let (done, failed) = (counts.done, counts.failures());
                Some(Line {
                    operation: counts.class.name.clone(),
                    done,
                    failed,
                    points: right * done.cast_signed() + wrong * failed.cast_signed(),
                })
            })
            .collect();
        Self {
            target,
            part,
            round,
            load,
            points: lines.iter().map(|line| line.points).sum(),
            verdict,
            lines,
        }
    }

    pub(crate) fn table(&self) -> Table {
        let title = format!("score of {}, {}: {}", self.target, self.load, self.points);
        let mut table = Table::new(title, &["operation", "done", "failed", "points"]);
        for line in &self.lines {
            table.row(vec![
                line.operation.as_str().into(),
                line.done.into(),
                line.failed.into(),
                Cell::Number(line.points as f64, 0),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::{Class, Done, Pace};

    #[test]
    fn a_failure_costs_five_times_what_a_success_brings() {
        let classes = [
            Class::new("ask", Kind::Read),
            Class::new("publish", Kind::Write),
            Class::new("delivery", Kind::Delivery),
        ];
        let mut measured = Measured::new(Pace::Closed { window: 1 }, &classes);
        for (class, done, failed) in [(0, 100, 2), (1, 10, 1), (2, 1_000, 0)] {
            for _ in 0..done {
                measured.record(Done::of(0), class, Duration::ZERO, Duration::ZERO);
            }
            for _ in 0..failed {
                measured.record(Done::failed(0, ""), class, Duration::ZERO, Duration::ZERO);
            }
        }
        let score = Score::new("A", ("level 1", 0), String::new(), &measured, String::new());
        let points: Vec<_> = score.lines.iter().map(|line| line.points).collect();
        assert_eq!(points, [100 - 10, 50 - 25]);
        assert_eq!(score.points, 115);
    }
}
