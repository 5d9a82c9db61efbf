//! What the running server knows of itself.

use super::finding::{Finding, Findings, Level, rising};
use crate::operations::ConditionReport;

/// Fewer clients show nothing.
const CLIENTS_MIN: usize = 20;

pub(super) fn examine(condition: &ConditionReport, findings: &mut Findings) {
    findings.push(Finding::ok(
        "server",
        format!(
            "running (process {}, {} workers)",
            condition.process, condition.workers
        ),
    ));
    connections(condition, findings);
    proxy(condition, findings);
    refusals(condition, findings);
    let Some(requests) = &condition.requests else {
        return;
    };
    if let Some(nested) = requests.nested.first() {
        findings.push(Finding::bad(
            "handlers",
            format!(
                "{} asks for a second connection while it holds one, at {} ({} requests)",
                nested.shape, nested.site, nested.requests
            ),
            "give the first back before, or use it for both: when all connections are held so, every \
             request waits for ever",
        ));
    }
    if let Some(worst) = requests.repeats.first() {
        findings.push(Finding::warn(
            "statements",
            format!(
                "{} makes the same statement up to {} times in a request, at {}",
                worst.shape, worst.most, worst.site
            ),
            "make it one statement for all (`= ANY($1)`, unnest, a join); `hikyaku slow` says what it \
             would save",
        ));
    }
}

fn connections(condition: &ConditionReport, findings: &mut Findings) {
    let open = condition.metric("connections").unwrap_or(0.0);
    let max = condition.connections_max;
    let seen = format!("{open} of {max} open");
    let advice =
        "raise limits.connections_max, or start another node: from there on clients are refused";
    let level = rising(open / max.max(1) as f64, 0.7, 0.9);
    findings.push(Finding::new("connections", level, seen, advice));
}

fn proxy(condition: &ConditionReport, findings: &mut Findings) {
    let enough = condition.clients >= CLIENTS_MIN;
    let share = |count: usize| count as f64 / condition.clients.max(1) as f64;
    match (condition.speaking_for_others, condition.commonest) {
        (Some((address, count)), _) if enough && share(count) > 0.5 => {
            findings.push(Finding::bad(
                "proxy",
                format!(
                    "{count} of the last {} clients came through {address}, which says for whom it \
                     speaks (X-Forwarded-For) and is not believed",
                    condition.clients
                ),
                format!(
                    "if that is your proxy, set trusted_proxies = [\"{address}\"]: until then all its \
                     clients share one address's limits"
                ),
            ));
        }
        (_, Some((address, count))) if enough && share(count) > 0.9 => {
            findings.push(Finding::warn(
                "proxy",
                format!(
                    "{count} of the last {} clients have the one address {address}",
                    condition.clients
                ),
                "if that is a proxy, have it send X-Forwarded-For and name it in trusted_proxies",
            ));
        }
        _ => findings.push(Finding::ok(
            "proxy",
            format!(
                "nothing speaks for one between ({} clients looked at)",
                condition.clients
            ),
        )),
    }
}

/// What clients were refused because of limits.
fn refusals(condition: &ConditionReport, findings: &mut Findings) {
    let count = |name: &str| condition.metric(name).unwrap_or(0.0);
    let all: f64 = [
        "stored",
        "duplicate",
        "superseded",
        "refused",
        "rate_limited",
    ]
    .iter()
    .map(|outcome| count(&format!("events_total{{outcome=\"{outcome}\"}}")))
    .sum();
    let queries = count("queries_total{outcome=\"ended\"}");
    let mut told = Vec::new();
    let mut within = Vec::new();
    let mut level = Level::Ok;
    for (what, refused, of, advice) in [
        (
            "events refused by rate",
            count("events_total{outcome=\"rate_limited\"}"),
            all,
            "rates.events_per_address",
        ),
        (
            "queries refused by rate",
            count("queries_total{outcome=\"rate_limited\"}"),
            queries,
            "rates.queries_per_address",
        ),
        (
            "connections refused",
            count("connections_refused_total"),
            count("connections_opened_total"),
            "limits.connections_max and limits.connections_per_address_max",
        ),
        (
            "clients closed that did not read",
            count("slow_readers_closed_total"),
            count("connections_opened_total"),
            "limits.queued_bytes_max",
        ),
    ] {
        if refused > 0.0 && refused >= of * 0.05 {
            level = Level::Warn;
            told.push(format!("{refused} {what} ({advice})"));
        }
        within.push(format!("{refused} {what} of {of}"));
    }
    let dropped = count("observations_dropped_total");
    if dropped > 0.0 {
        level = Level::Warn;
        told.push(format!(
            "{dropped} sightings of members lost: the disk is behind"
        ));
    }
    let seen = if told.is_empty() {
        format!("clients keep within the limits: {}", within.join(", "))
    } else {
        told.join("; ")
    };
    let advice = "one in twenty or more: look who it is (`hikyaku top`, the log), and raise the limit if \
                  they are welcome";
    findings.push(Finding::new("limits", level, seen, advice));
}
