//! Requests by shape as a table.

use std::fmt::Write;

use clap::ValueEnum;
use hikyaku_observe::{ShapeFigures, Snapshot};

use crate::present::{bytes, duration, grouped, short};

/// What the shapes are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// Time of all requests together
    Time,
    /// Number of requests
    Calls,
    /// What 19 of 20 do not exceed
    P95,
    /// The slowest
    Max,
    /// Events examined for each one answered
    Examined,
}

impl Sort {
    /// Orders the shapes, most first.
    pub(crate) fn apply(self, snapshot: &mut Snapshot) {
        let key = |shape: &ShapeFigures| match self {
            Self::Time => shape.total_ns as f64,
            Self::Calls => shape.calls as f64,
            Self::P95 => shape.quantile_ns(0.95) as f64,
            Self::Max => shape.max_ns as f64,
            Self::Examined => shape.examined_per_returned().unwrap_or(0.0),
        };
        snapshot.shapes.sort_by(|a, b| key(b).total_cmp(&key(a)));
    }

    /// Returns the one that comes after it, in a circle.
    pub(super) fn next(self) -> Self {
        let all = Self::value_variants();
        let at = all.iter().position(|sort| *sort == self).unwrap_or(0);
        all.get((at + 1) % all.len()).copied().unwrap_or(Self::Time)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Calls => "calls",
            Self::P95 => "p95",
            Self::Max => "max",
            Self::Examined => "examined",
        }
    }
}

/// Returns the parts of a shape's time. What is in none of the others was the turn of other requests:
/// of one that is alone hardly anything is left.
pub(super) fn phases(shape: &ShapeFigures) -> [(&'static str, u64); 6] {
    let times = shape.phases_ns;
    let own = times.wait + times.query + times.decode + times.handler + times.write;
    [
        ("wait", times.wait),
        ("query", times.query),
        ("decode", times.decode),
        ("handler", times.handler),
        ("write", times.write),
        ("turn", shape.total_ns.saturating_sub(own)),
    ]
}

/// Writes the head of the table.
pub(super) fn head() -> String {
    format!(
        "{:>6} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9}  shape",
        "share", "calls", "/s", "p50", "p95", "p99", "max", "exam/ret", "bytes"
    )
}

/// Writes a shape's line.
pub(super) fn row(shape: &ShapeFigures, total_ns: u64, seconds: f64) -> String {
    let ratio = match shape.examined_per_returned() {
        Some(ratio) if ratio < 100.0 => format!("{ratio:.2}"),
        Some(ratio) => format!("{ratio:.0}"),
        None => "-".to_owned(),
    };
    format!(
        "{:>5.1}% {:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9}  {}",
        shape.total_ns as f64 * 100.0 / total_ns.max(1) as f64,
        grouped(shape.calls),
        rate(shape.calls as f64 / seconds.max(1e-6)),
        short(shape.quantile_ns(0.5)),
        short(shape.quantile_ns(0.95)),
        short(shape.quantile_ns(0.99)),
        short(shape.max_ns),
        ratio,
        bytes(shape.bytes),
        shape.shape,
    )
}

/// Writes a rate: with decimals where it is small.
pub(super) fn rate(rate: f64) -> String {
    match rate {
        0.0..10.0 => format!("{rate:.2}"),
        _ => format!("{rate:.0}"),
    }
}

/// Writes all that is known, the first `limit` shapes of it.
pub(super) fn page(shown: &Snapshot, earlier: Option<&Snapshot>, limit: usize) -> String {
    let seconds = shown.seconds();
    let calls: u64 = shown.shapes.iter().map(|shape| shape.calls).sum();
    let total: u64 = shown.shapes.iter().map(|shape| shape.total_ns).sum();
    let mut text = format!(
        "{} requests in {}, {}/s\n",
        grouped(calls),
        duration(std::time::Duration::from_secs_f64(seconds)),
        rate(calls as f64 / seconds.max(1e-6)),
    );
    if calls == 0 {
        return text;
    }
    // Writing to a string does not fail.
    let _ = writeln!(text, "\n{}", head());
    for shape in shown.shapes.iter().take(limit) {
        let _ = writeln!(text, "{}", row(shape, total, seconds));
        details(&mut text, shape, earlier);
    }
    if shown.shapes.len() > limit {
        let _ = writeln!(text, "and {} shapes more", shown.shapes.len() - limit);
    }
    statements(&mut text, shown, limit);
    text
}

fn details(text: &mut String, shape: &ShapeFigures, earlier: Option<&Snapshot>) {
    let mut told = Vec::new();
    for (name, ns) in phases(shape) {
        let share = ns as f64 * 100.0 / shape.total_ns.max(1) as f64;
        // What is hardly anything is not worth its word.
        if share < 0.5 {
            continue;
        }
        told.push(format!("{name} {share:.0}%"));
    }
    if shape.failed > 0 {
        told.push(format!("failed {}", grouped(shape.failed)));
    }
    if shape.cancelled > 0 {
        told.push(format!("cancelled {}", grouped(shape.cancelled)));
    }
    if let Some(earlier) = earlier {
        let before = earlier.shapes.iter().find(|s| s.shape == shape.shape);
        told.push(before.map_or_else(
            || "not seen before".to_owned(),
            |before| {
                format!(
                    "before: p50 {}, p95 {}, p99 {}",
                    short(before.quantile_ns(0.5)),
                    short(before.quantile_ns(0.95)),
                    short(before.quantile_ns(0.99))
                )
            },
        ));
    }
    if let Some(example) = &shape.example {
        told.push(format!("slowest ({}): {example}", short(shape.example_ns)));
    }
    if !told.is_empty() {
        let _ = writeln!(text, "        {}", told.join("  "));
    }
}

fn statements(text: &mut String, shown: &Snapshot, limit: usize) {
    if !shown.repeats.is_empty() {
        text.push_str("\nThe same statement again and again in one request (N+1):\n");
    }
    for repeat in shown.repeats.iter().take(limit) {
        let _ = writeln!(
            text,
            "  {}: {} times in a request ({} at most; {} requests), {}\n    {}\n    one statement \
             for all would save up to {} of {} a request",
            repeat.shape,
            repeat.statements / repeat.requests.max(1),
            repeat.most,
            grouped(repeat.requests),
            repeat.site,
            repeat.statement,
            short(repeat.saved_ns / repeat.requests.max(1)),
            short(repeat.total_ns / repeat.requests.max(1)),
        );
    }
    if !shown.nested.is_empty() {
        text.push_str("\nA second connection asked for while one was held (waits for ever when all are taken):\n");
    }
    for nested in &shown.nested {
        let _ = writeln!(
            text,
            "  {}: {} ({} requests)",
            nested.shape,
            nested.site,
            grouped(nested.requests)
        );
    }
    if !shown.statements.is_empty() {
        let _ = writeln!(
            text,
            "\n{:>10} {:>8} {:>8}  statement",
            "calls", "mean", "least"
        );
    }
    for statement in shown.statements.iter().take(limit) {
        let _ = writeln!(
            text,
            "{:>10} {:>8} {:>8}  {}\n{:30}{}",
            grouped(statement.calls),
            short(statement.total_ns / statement.calls.max(1)),
            short(statement.shortest_ns),
            statement.site,
            "",
            statement.statement
        );
    }
}

#[cfg(test)]
mod tests {
    use hikyaku_observe::PhaseTimes;

    use super::*;

    #[test]
    fn time_that_is_in_no_part_was_the_turn_of_others() {
        let mut shape = ShapeFigures {
            calls: 1,
            total_ns: 1_000,
            phases_ns: PhaseTimes {
                query: 400,
                write: 100,
                ..PhaseTimes::default()
            },
            ..ShapeFigures::default()
        };
        assert_eq!(phases(&shape).last(), Some(&("turn", 500)));
        let mut text = String::new();
        details(&mut text, &shape, None);
        assert!(text.contains("query 40%  write 10%  turn 50%"), "{text}");
        // Statements in flight together count each.
        shape.phases_ns.query = 2_000;
        assert_eq!(phases(&shape).last(), Some(&("turn", 0)));
    }
}
