//! A report as JSON: everything that was measured, round by round.

use serde_json::{Value, json};

use crate::{
    load::{Counts, Measured, Pace},
    report::{
        model::{Record, Report},
        score::Score,
        table::Table,
        terminal::verdict,
    },
};

/// Returns the whole report.
pub(crate) fn value(report: &Report) -> Value {
    json!({
        "measurement": report.measurement,
        "version": env!("CARGO_PKG_VERSION"),
        "command": report.command,
        "begun": report.begun,
        "machine": report.machine,
        "end": report.outcome,
        "servers": report.targets.iter().map(|target| json!({
            "name": target.name,
            "address": target.address.as_str(),
            "program": target.process.as_ref().and_then(crate::load::Process::name),
            "durability": target.durability,
        })).collect::<Vec<_>>(),
        "notes": report.notes,
        "loads": report.records.iter().map(|it| record(report, it)).collect::<Vec<_>>(),
        "comparisons": report.comparisons,
        "scores": report.scores.iter().map(score).collect::<Vec<_>>(),
        "tables": report.tables.iter().map(table).collect::<Vec<_>>(),
    })
}

fn record(report: &Report, record: &Record) -> Value {
    let measured = &record.measured;
    json!({
        "part": record.part,
        "at": report.targets.get(record.target).map(|target| target.name),
        "round": record.round,
        "connections": record.connections,
        "pace": match measured.pace {
            Pace::Open { per_second } => json!({ "per_second": per_second }),
            Pace::Closed { window } => json!({ "window": window }),
        },
        "seconds": measured.elapsed.as_secs_f64(),
        "offered": measured.offered,
        "offered_per_second": measured.offered_rate(),
        "achieved": measured.achieved(),
        "achieved_per_second": measured.rate(),
        "dropped": measured.dropped,
        "failed": measured.failures(),
        "limit": measured.limit(),
        "verdict": verdict(measured),
        "bytes_sent": measured.bytes_sent,
        "bytes_received": measured.bytes_received,
        "client_core_share": measured.client_share(),
        "client_lateness_p99_ms": measured.lateness.quantile_ms(0.99),
        "server_cpu_seconds": measured.server_cpu,
        "server_memory_bytes_max": measured.server_memory_max,
        "done_by_second": measured.timeline,
        "operations": operations(measured),
    })
}

fn operations(measured: &Measured) -> Vec<Value> {
    let operation = |counts: &Counts| {
        json!({
            "operation": counts.class.name,
            "kind": counts.class.kind,
            "done": counts.done,
            "failed": counts.failed,
            "latency": counts.latencies.summary(),
        })
    };
    measured.counts.iter().map(operation).collect()
}

fn score(score: &Score) -> Value {
    json!({
        "at": score.target,
        "load": score.load,
        "points": score.points,
        "verdict": score.verdict,
        "operations": score.table().objects(),
    })
}

fn table(table: &Table) -> Value {
    json!({ "title": table.title(), "rows": table.objects() })
}
