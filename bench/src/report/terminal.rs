//! A report as text for the terminal.

use std::{collections::BTreeMap, fmt::Write};

use crate::{
    load::{Counts, Kind, Latencies, Limit, Measured, Pace},
    report::{
        model::{Outcome, Report},
        table::{Cell, Table},
    },
};

const BY_OPERATION: &[&str] = &[
    "operation",
    "at",
    "done",
    "failed",
    "p50 ms",
    "p90 ms",
    "p99 ms",
    "p99.9 ms",
    "max ms",
];

/// Ratios that the table has room for; all are in the JSON.
const ROUNDS_SHOWN: usize = 7;

const BY_PART: &[&str] = &[
    "part",
    "at",
    "offered/s",
    "achieved/s",
    "dropped",
    "failed",
    "MB out",
    "MB in",
    "cpu s",
    "cpu µs each",
    "peak MB",
    "limit",
];

/// Writes the whole report.
pub(crate) fn text(report: &Report) -> String {
    let mut text = String::new();
    for table in tables(report) {
        let _ = write!(text, "{table}");
    }
    text.push('\n');
    for line in sentences(report) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Returns what the report says in tables.
pub(crate) fn tables(report: &Report) -> Vec<Table> {
    let mut tables = Vec::new();
    for part in report.parts() {
        tables.push(by_operation(report, part));
    }
    tables.push(by_part(report));
    if let Some(table) = comparisons(report) {
        tables.push(table);
    }
    // Copies: a report is written in several ways.
    tables.extend(report.tables.iter().cloned());
    tables.extend(failures(report));
    tables.retain(|table| !table.is_empty());
    tables
}

/// Returns what the report says in sentences: the verdict last.
pub(crate) fn sentences(report: &Report) -> Vec<String> {
    let mut sentences: Vec<String> = report
        .notes
        .iter()
        .map(|note| format!("note: {note}"))
        .collect();
    for part in report.parts() {
        for (place, target) in report.targets.iter().enumerate() {
            let rounds: Vec<_> = report.rounds(part, place).collect();
            if let Some((limit, of)) = prevailing(&rounds) {
                let name = target.name;
                let with = rounds.iter().rfind(|round| round.limit() == limit);
                let said = with.map_or_else(String::new, |round| verdict(round));
                let share = match rounds.len() {
                    all if all == of => String::new(),
                    all => format!(" (so in {of} of {all} rounds)"),
                };
                sentences.push(format!("{part}, {name}: {said}{share}"));
            }
        }
    }
    sentences.push(match &report.outcome {
        Outcome::Passed => match report.records.iter().map(|it| it.measured.failures()).sum() {
            0_u64 => "passed: every answer was right".to_owned(),
            failed => format!("passed: every answer was right; {failed} operations failed"),
        },
        Outcome::Failed(reason) => format!("FAILED, without a score: {reason}"),
        Outcome::Interrupted => "interrupted: this is what was measured until then".to_owned(),
    });
    sentences
}

/// Returns the limit that most rounds met, and how many these are. Of equally many it is the one that
/// says less of the server.
fn prevailing(rounds: &[&Measured]) -> Option<(Limit, usize)> {
    let count = |limit| rounds.iter().filter(|round| round.limit() == limit).count();
    [Limit::Server, Limit::Load, Limit::Client]
        .map(|limit| (limit, count(limit)))
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .filter(|(_, count)| *count > 0)
}

fn limits(rounds: &[&Measured]) -> String {
    let Some((limit, of)) = prevailing(rounds) else {
        return String::new();
    };
    let name = match limit {
        Limit::Load => "load",
        Limit::Client => "client",
        Limit::Server => "server",
    };
    match rounds.len() {
        all if all == of => name.to_owned(),
        all => format!("{name} in {of} of {all}"),
    }
}

/// Says which side was the limit.
pub(crate) fn verdict(measured: &Measured) -> String {
    let (offered, achieved) = (measured.offered_rate(), measured.rate());
    match (measured.limit(), measured.pace) {
        (Limit::Load, _) => format!(
            "the load is the cap: {offered:.1}/s offered, {achieved:.1}/s achieved; the server can do more"
        ),
        (Limit::Client, _) => format!(
            "the measuring client is the cap ({:.0} % of a core): {offered:.1}/s offered, {achieved:.1}/s \
             achieved; the server may do more",
            measured.client_share() * 100.0
        ),
        (Limit::Server, Pace::Open { .. }) => format!(
            "the server is the cap: {offered:.1}/s offered, {achieved:.1}/s achieved, {} never sent",
            measured.dropped
        ),
        (Limit::Server, Pace::Closed { window }) => {
            format!(
                "{achieved:.1}/s with {window} under way on each connection: the server sets the pace"
            )
        }
    }
}

fn by_operation(report: &Report, part: &str) -> Table {
    let mut table = Table::new(part, BY_OPERATION);
    let operations = report
        .rounds(part, 0)
        .next()
        .map(|first| first.counts.as_slice());
    for (place, operation) in operations.unwrap_or_default().iter().enumerate() {
        for (target, named) in report.targets.iter().enumerate() {
            let rounds: Vec<&Counts> = report
                .rounds(part, target)
                .filter_map(|round| round.counts.get(place))
                .collect();
            let mut latencies = Latencies::default();
            for counts in &rounds {
                latencies.add(&counts.latencies);
            }
            let done: u64 = rounds.iter().map(|counts| counts.done).sum();
            let failed: u64 = rounds.iter().map(|counts| counts.failures()).sum();
            if done + failed == 0 {
                continue;
            }
            let summary = latencies.summary();
            let figures = [
                summary.p50_ms,
                summary.p90_ms,
                summary.p99_ms,
                summary.p999_ms,
                summary.max_ms,
            ];
            let mut cells: Vec<Cell> = vec![
                operation.class.name.as_str().into(),
                named.name.into(),
                done.into(),
                failed.into(),
            ];
            // Requests without answers have no latency.
            let shown = |ms| {
                if latencies.is_empty() {
                    "-".into()
                } else {
                    Cell::Number(ms, 3)
                }
            };
            cells.extend(figures.map(shown));
            table.row(cells);
        }
    }
    table
}

fn by_part(report: &Report) -> Table {
    let mut table = Table::new("load", BY_PART);
    for part in report.parts() {
        for (place, target) in report.targets.iter().enumerate() {
            let rounds: Vec<_> = report.rounds(part, place).collect();
            if rounds.is_empty() {
                continue;
            }
            let sum = |of: fn(&Measured) -> f64| rounds.iter().map(|round| of(round)).sum::<f64>();
            let mean = |of: fn(&Measured) -> f64| sum(of) / rounds.len() as f64;
            let cpu: Option<f64> = rounds.iter().map(|round| round.server_cpu).sum();
            let memory = rounds
                .iter()
                .filter_map(|round| round.server_memory_max)
                .max();
            let achieved = sum(|round| round.achieved() as f64);
            let known = |figure: Option<f64>, decimals| {
                figure.map_or_else(|| "-".into(), |figure| Cell::Number(figure, decimals))
            };
            table.row(vec![
                part.into(),
                target.name.into(),
                Cell::Number(mean(Measured::offered_rate), 1),
                Cell::Number(mean(Measured::rate), 1),
                Cell::Number(sum(|round| round.dropped as f64), 0),
                Cell::Number(sum(|round| round.failures() as f64), 0),
                Cell::Number(sum(|round| round.bytes_sent as f64) / 1e6, 1),
                Cell::Number(sum(|round| round.bytes_received as f64) / 1e6, 1),
                known(cpu, 2),
                known(cpu.map(|cpu| cpu * 1e6 / achieved.max(1.0)), 1),
                known(memory.map(|bytes| bytes as f64 / 1e6), 1),
                limits(&rounds).into(),
            ]);
        }
    }
    table
}

fn comparisons(report: &Report) -> Option<Table> {
    let mut table = Table::new(
        "A divided by B, round by round",
        &[
            "part",
            "figure",
            "rounds",
            "median",
            "spread",
            "each round",
            "said plainly",
        ],
    );
    for comparison in &report.comparisons {
        table.row(vec![
            comparison.part.as_str().into(),
            comparison.figure.into(),
            comparison.ratios.len().into(),
            Cell::Number(comparison.median, 2),
            format!("{:.2} to {:.2}", comparison.lowest, comparison.highest).into(),
            each_round(&comparison.ratios).into(),
            comparison.statement.as_str().into(),
        ]);
    }
    (!table.is_empty()).then_some(table)
}

/// Writes the ratios one after the other, as far as they fit on a line.
fn each_round(ratios: &[f64]) -> String {
    let shown = ratios.iter().take(ROUNDS_SHOWN);
    let mut text: Vec<_> = shown.map(|ratio| format!("{ratio:.2}")).collect();
    if ratios.len() > ROUNDS_SHOWN {
        text.push("...".to_owned());
    }
    text.join(" ")
}

fn failures(report: &Report) -> Vec<Table> {
    let mut reasons: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for record in &report.records {
        let target = report
            .targets
            .get(record.target)
            .map_or("", |target| target.name);
        for counts in &record.measured.counts {
            let kind = match counts.class.kind {
                Kind::Read => "read",
                Kind::Write => "write",
                Kind::Delivery => "delivery",
            };
            for (reason, count) in &counts.failed {
                *reasons.entry((kind, target, reason)).or_default() += count;
            }
        }
    }
    let mut table = Table::new("failures by reason", &["kind", "at", "count", "reason"]);
    for ((kind, target, reason), count) in reasons {
        table.row(vec![
            kind.into(),
            target.into(),
            count.into(),
            reason.into(),
        ]);
    }
    let scores = report.scores.iter().map(super::score::Score::table);
    std::iter::once(table).chain(scores).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A round of an open loop in which the server or the client was at its end.
    fn round(client_seconds: u64) -> Measured {
        let mut round = Measured::new(Pace::Open { per_second: 1.0 }, &[]);
        (round.offered, round.elapsed) = (10, Duration::from_secs(10));
        round.client_cpu = Duration::from_secs(client_seconds);
        round
    }

    #[test]
    fn the_limit_of_most_rounds_is_told_and_in_how_many() {
        let (client, server) = (round(10), round(0));
        assert_eq!(limits(&[&client, &client]), "client");
        let rounds = [&client, &client, &client, &client, &server];
        assert_eq!(limits(&rounds), "client in 4 of 5");
        assert_eq!(limits(&[&client, &server]), "client in 1 of 2");
    }
}
