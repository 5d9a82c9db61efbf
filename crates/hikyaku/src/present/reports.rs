//! Reports as text.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{
    bans::{ban, bans},
    figures::{bytes, grouped},
    members::{footprints, members},
    sessions::{revocation, revocations},
};
use crate::{
    configuration::Effective,
    operations::{
        DatabaseReport, ImportEnd, ImportReport, RepairReport, Report, StatisticsReport,
        VerifyReport,
    },
};

/// Writes a report for people. Ends with a line's end, or is empty.
pub(crate) fn report(report: &Report) -> String {
    match report {
        Report::Imported(report) => imported(report),
        Report::Counted { count } => format!("{count}\n"),
        Report::Deleted {
            removed, absent, ..
        } => {
            let mut text = format!("{} events deleted\n", grouped(*removed));
            if *absent > 0 {
                let _ = writeln!(text, "{} had gone meanwhile", grouped(*absent));
            }
            text
        }
        Report::Statistics(report) => statistics(report),
        Report::DatabaseStatistics(report) => database(report),
        Report::Verified(report) => verified(report),
        Report::Repaired(report) => repaired(report),
        Report::Compacted => "compacted\n".to_owned(),
        // Nothing is left to say, or a command of their own says it.
        Report::Sent { .. }
        | Report::Requests(_)
        | Report::Condition(_)
        | Report::TablesCopied { .. } => String::new(),
        Report::Members(report) => members(report),
        Report::Footprints(report) => footprints(report),
        Report::Banned(one) => ban(one),
        Report::Unbanned { who } => format!("{who} is not banned any more\n"),
        Report::Bans { bans: listed } => bans(listed),
        Report::SessionsRevoked(one) => format!("revoked {}", revocation(one)),
        Report::RevokedSessions { sessions } => revocations(sessions),
    }
}

/// Lines of names and numbers, the numbers below each other. Those that do not count are left out.
fn table(lines: &[(&str, u64)]) -> String {
    let shown: Vec<_> = lines
        .iter()
        .map(|(name, number)| (*name, grouped(*number)))
        .collect();
    let names = shown.iter().map(|(name, _)| name.len()).max();
    let numbers = shown.iter().map(|(_, number)| number.len()).max();
    let (names, numbers) = (names.unwrap_or_default(), numbers.unwrap_or_default());
    let mut text = String::new();
    for (name, number) in shown {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:names$}  {number:>numbers$}");
    }
    text
}

fn imported(report: &ImportReport) -> String {
    let mut lines = vec![
        ("events", report.events),
        ("stored", report.stored),
        ("duplicates", report.duplicates),
        ("superseded by a newer version", report.superseded),
        ("refused", report.refused.total()),
    ];
    let some = |lines: &mut Vec<_>, name, number| {
        if number > 0 {
            lines.push((name, number));
        }
    };
    some(
        &mut lines,
        "  deleted by the author",
        report.refused.deleted,
    );
    some(
        &mut lines,
        "  the author has vanished",
        report.refused.vanished,
    );
    some(&mut lines, "  expired", report.refused.expired);
    some(
        &mut lines,
        "  of an ephemeral kind",
        report.refused.ephemeral,
    );
    some(&mut lines, "deleted at the source", report.left_out);
    lines.push(("invalid", report.invalid.total()));
    some(&mut lines, "  not an event", report.invalid.malformed);
    some(&mut lines, "  wrong id", report.invalid.wrong_id);
    some(
        &mut lines,
        "  wrong signature",
        report.invalid.wrong_signature,
    );
    some(&mut lines, "  not readable", report.invalid.unreadable);
    some(&mut lines, "  too long", report.invalid.too_long);
    let mut text = table(&lines);
    for bad in &report.first_invalid {
        let _ = writeln!(text, "line {}: {}", bad.line, bad.reason);
    }
    let more = report.invalid.total() - report.first_invalid.len() as u64;
    if more > 0 {
        let _ = writeln!(text, "and {} more invalid lines", grouped(more));
    }
    match report.end {
        ImportEnd::Complete => {}
        ImportEnd::Interrupted => text += "interrupted: what is counted as stored is stored\n",
        ImportEnd::InputLost => {
            let _ = writeln!(
                text,
                "the input broke off: {}\nwhat is counted as stored is stored; the same command again \
                 does the rest",
                report.input_error.as_deref().unwrap_or_default()
            );
        }
        ImportEnd::InvalidLine => text += "stopped at the first invalid line (--strict)\n",
    }
    text
}

fn database(report: &DatabaseReport) -> String {
    let mut text = table(&[
        ("events, about", report.events_estimated),
        ("  hidden", report.hidden),
        ("indexed tags, about", report.tags_estimated),
        ("last number given", report.position),
        ("connections of the server", report.connections),
        ("  allowed", report.connections_max),
    ]);
    let _ = writeln!(
        text,
        "{} of tables, {} of indexes",
        bytes(report.table_bytes),
        bytes(report.index_bytes)
    );
    let _ = writeln!(
        text,
        "PostgreSQL {}, schema version {}",
        report.server_version, report.schema_version
    );
    text
}

fn statistics(report: &StatisticsReport) -> String {
    let mut text = table(&[
        ("events", report.events),
        ("  hidden", report.hidden),
        ("  in memory", report.in_memory),
        ("removed, still in segments", report.removed),
        ("segments", report.segments),
        ("closed log files", report.log_files),
        ("log files waiting for a segment", report.waiting_flushes),
    ]);
    let _ = writeln!(
        text,
        "{} of segments, {} of closed log files, {} of the open one",
        bytes(report.segment_bytes),
        bytes(report.log_bytes),
        bytes(report.open_log_bytes)
    );
    let _ = writeln!(
        text,
        "since the store was opened: {} commits, {} events stored, {} removed, {} merges; {} events \
         read back from the log",
        grouped(report.commits),
        grouped(report.stored_since_opening),
        grouped(report.removed_since_opening),
        grouped(report.merges),
        grouped(report.replayed)
    );
    if let Some(torn) = &report.torn_tail {
        let _ = writeln!(text, "{torn}");
    }
    if let Some(stopped) = &report.stopped {
        let _ = writeln!(text, "the store refuses writes: {stopped}");
    }
    text
}

fn verified(report: &VerifyReport) -> String {
    let mut text = table(&[
        ("log files read", report.log_files),
        ("log records read", report.records),
        ("segments read", report.segments),
        ("events compared with their index", report.events),
    ]);
    for finding in &report.findings {
        let _ = writeln!(text, "{finding}");
    }
    if report.more_findings > 0 {
        let _ = writeln!(text, "and {} more findings", grouped(report.more_findings));
    }
    text += if report.sound {
        "everything is sound\n"
    } else {
        "the store is damaged; stop the server and run `hikyaku repair`\n"
    };
    text
}

fn repaired(report: &RepairReport) -> String {
    let mut text = table(&[
        ("events in the log", report.events),
        ("segments written", report.segments),
    ]);
    for damage in &report.damage {
        let _ = writeln!(text, "{damage}");
    }
    if let Some(kept) = &report.kept_in {
        let _ = writeln!(text, "the damaged files are kept in {}", kept.display());
    }
    text
}

/// Writes the configuration: as TOML with the origins beside it, or as JSON.
pub(crate) fn configuration(effective: &Effective, as_json: bool) -> String {
    if as_json {
        let keys: Vec<Value> = effective
            .entries()
            .map(|entry| {
                // The values that keys have are written alike in TOML and JSON.
                let value = entry
                    .value
                    .and_then(|value| serde_json::from_str(&value).ok());
                json!({
                    "key": entry.name,
                    "value": value.unwrap_or(Value::Null),
                    "origin": entry.origin.to_string(),
                })
            })
            .collect();
        return format!("{}\n", Value::from(keys));
    }
    let lines: Vec<_> = effective
        .entries()
        .map(|entry| {
            let value = entry.value.map_or_else(
                || format!("# {} is unset", entry.name),
                |value| format!("{} = {value}", entry.name),
            );
            (value, entry.origin)
        })
        .collect();
    let width = lines.iter().map(|(value, _)| value.chars().count()).max();
    // A long value must not push the origins out of sight.
    let width = width.unwrap_or_default().min(56);
    let mut text = String::new();
    for (value, origin) in lines {
        let _ = writeln!(text, "{value:width$}  # {origin}");
    }
    text
}
