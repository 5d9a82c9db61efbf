//! The store in PostgreSQL: the server's settings, its indexes, its housekeeping.

use std::{num::NonZeroUsize, thread};

use hikyaku_observe::Snapshot;
use hikyaku_postgres::{
    CONNECTIONS_BESIDE, Connections, Examination, ReplicaExamination, TableExamination,
};

use super::finding::{Finding, Findings, Level, rising};
use crate::{
    configuration::Settings,
    operations::ConditionReport,
    present::{bytes, grouped},
    waiting::unix_now_us,
};

/// Smaller tables need no statistics and no cleaning to be fast.
const ROWS_MIN: u64 = 1_000;
/// From this mean time on a statement is slow: each is made to read a bounded number of entries.
const STATEMENT_MS: f64 = 20.0;

/// Bytes of the write-ahead log that a replica may lack.
const BEHIND_WARN: f64 = 64.0 * 1024.0 * 1024.0;
const BEHIND_BAD: f64 = 1024.0 * 1024.0 * 1024.0;

pub(super) fn examine(
    settings: &Settings,
    condition: Option<&ConditionReport>,
    findings: &mut Findings,
) {
    let Some(options) = settings.postgres_options() else {
        return;
    };
    let asked_us = unix_now_us();
    let found = match Examination::of(&options) {
        Ok(found) => found,
        Err(error) => {
            return findings.push(Finding::bad(
                "database",
                format!("can't be asked: {error}"),
                "see that it runs, that store.url names it, and that it lets this machine in (pg_hba.conf)",
            ));
        }
    };
    let seen = format!(
        "PostgreSQL {}, {}",
        found.server_version,
        bytes(found.database_bytes)
    );
    findings.push(Finding::ok("database", seen));
    skew(asked_us, unix_now_us(), &found, findings);
    connections(settings, condition, &found, findings);
    if found.schema_exists {
        indexes(&found, findings);
        statistics(&found, findings);
        autovacuum(&found, findings);
    } else {
        findings.push(Finding::ok(
            "indexes",
            format!("there is no schema {} yet", options.schema),
        ));
    }
    match &found.replica {
        Some(Ok(replica)) => follower(replica, findings),
        Some(Err(error)) => findings.push(Finding::warn(
            "replica",
            format!("can't be asked: {error}; everything is read from store.url"),
            "see that it runs, that store.read_url names it, and that it lets this machine in",
        )),
        None => {}
    }
    memory(&found, findings);
    durability(&found, findings);
    transactions(&found, findings);
    statements(&found, findings);
}

/// The server to read from.
fn follower(replica: &ReplicaExamination, findings: &mut Findings) {
    if replica.is_of_another {
        return findings.push(Finding::bad(
            "replica",
            "store.read_url is a copy of another server than store.url: its answers are another relay's",
            "name a replica of store.url, or leave store.read_url out",
        ));
    }
    if !replica.follows {
        return findings.push(Finding::warn(
            "replica",
            "store.read_url follows no other server: it is the one to write to, or was made one",
            "name a replica, or leave store.read_url out",
        ));
    }
    let by_time = rising(replica.seconds_behind as f64, 5.0, 300.0);
    let by_size = rising(replica.bytes_behind as f64, BEHIND_WARN, BEHIND_BAD);
    let behind = bytes(replica.bytes_behind);
    let level = by_time.max(by_size);
    findings.push(if replica.receives || replica.bytes_behind == 0 {
        let seconds = replica.seconds_behind;
        Finding::new(
            "replica",
            level,
            format!("{behind} and {seconds} s behind; what it lacks is read from store.url"),
            "it is too slow for what is written, or a long query on it holds it up: see \
             pg_stat_replication on the server that is written to",
        )
    } else {
        // One that is cut off does not know how old what it lacks is.
        Finding::new(
            "replica",
            level.max(Level::Warn),
            format!(
                "it receives nothing, and is {behind} behind; everything is read from store.url"
            ),
            "its log says why: the address in primary_conninfo, the password, or a part of the \
             write-ahead log that is there no longer (then make it anew with pg_basebackup)",
        )
    });
}

fn skew(before_us: u64, after_us: u64, found: &Examination, findings: &mut Findings) {
    let here_ms = u64::midpoint(before_us, after_us) / 1000;
    let off = here_ms.abs_diff(found.clock_ms);
    // Half of the time that asking took is not known.
    let off = off.saturating_sub((after_us - before_us) / 2000);
    findings.push(Finding::new(
        "database clock",
        rising(off as f64, 2_000.0, 60_000.0),
        format!("{:.1} s from this machine's", off as f64 / 1000.0),
        "one of the two is wrong: have both kept by NTP",
    ));
}

/// Both ways: more than the server allows, and too few for those that wait.
fn connections(
    settings: &Settings,
    condition: Option<&ConditionReport>,
    found: &Examination,
    findings: &mut Findings,
) {
    let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let workers = match condition {
        Some(condition) => condition.workers,
        None => settings
            .server
            .workers
            .map_or_else(cores, NonZeroUsize::get),
    };
    let each = settings.store_connections_per_worker;
    let is_running = condition.is_some();
    let beside = CONNECTIONS_BESIDE;
    let needs = format!("{workers} workers x {each} + {beside}");
    let node = workers * each + beside;
    let check = "database connections";
    findings.push(fitting(check, node, &needs, found.connections, is_running));
    if let Some(Ok(replica)) = &found.replica {
        let needs = format!("{workers} workers x {each} + 1");
        let (check, node) = ("replica connections", workers * each + 1);
        findings.push(fitting(
            check,
            node,
            &needs,
            replica.connections,
            is_running,
        ));
    }
    let Some(requests) = condition.and_then(|condition| condition.requests.as_ref()) else {
        return;
    };
    let share = waiting(requests);
    findings.push(Finding::new(
        "database waiters",
        rising(share, 0.1, 0.4),
        format!(
            "{:.1}% of the requests' time is waiting for a connection",
            share * 100.0
        ),
        format!(
            "raise store.connections_per_worker (now {each}); the server has {} left",
            found
                .connections
                .allowed
                .saturating_sub(found.connections.open)
        ),
    ));
}

/// Whether all nodes' connections to a server fit into what it allows.
fn fitting(
    check: &'static str,
    node: usize,
    needs: &str,
    connections: Connections,
    is_running: bool,
) -> Finding {
    let Connections {
        allowed,
        nodes,
        of_nodes,
        others,
        open,
    } = connections;
    // A node that runs is among the server's.
    let node = node as u64;
    let all = others + of_nodes + if is_running { 0 } else { node };
    let level = if node > allowed {
        Level::Bad
    } else if all > allowed {
        Level::Warn
    } else {
        rising(open as f64 / allowed.max(1) as f64, 0.8, 0.95)
    };
    Finding::new(
        check,
        level,
        format!(
            "this node may use {node} ({needs}); {nodes} nodes that run may use {of_nodes}, and {others} are \
             open beside theirs; {open} are open, everybody's; the server allows {allowed}"
        ),
        format!(
            "raise max_connections, or lower store.connections_per_worker: the sum over all nodes and \
             programs must stay below {allowed}"
        ),
    )
}

/// Returns the share of time that requests to the database wait for a connection: with far too few it
/// is most of it.
fn waiting(requests: &Snapshot) -> f64 {
    let sums = requests.shapes.iter().fold((0, 0), |(wait, all), shape| {
        match shape.phases_ns.query + shape.phases_ns.decode {
            0 => (wait, all),
            _ => (wait + shape.phases_ns.wait, all + shape.total_ns),
        }
    });
    sums.0 as f64 / sums.1.max(1) as f64
}

fn indexes(found: &Examination, findings: &mut Findings) {
    let (missing, invalid) = (&found.missing_indexes, &found.invalid_indexes);
    if missing.is_empty() && invalid.is_empty() {
        return findings.push(Finding::ok("indexes", "all there"));
    }
    if !missing.is_empty() {
        findings.push(Finding::bad(
            "indexes",
            format!("missing: {}", missing.join(", ")),
            "a node that serves makes them again meanwhile, if its role owns the tables; its log says so. By \
             hand: as `hikyaku postgres schema` prints them, with CREATE INDEX CONCURRENTLY",
        ));
    }
    if !invalid.is_empty() {
        findings.push(Finding::bad(
            "indexes",
            format!("not valid: {}", invalid.join(", ")),
            "they are being made, or that was broken off: a node that serves makes them anew",
        ));
    }
}

fn statistics(found: &Examination, findings: &mut Findings) {
    let is_off = |table: &&TableExamination| {
        let rows = table.live_rows.max(table.estimated_rows);
        let changed = table.changed_rows as f64 > rows as f64 * 0.25;
        let estimate = table.estimated_rows as f64 / table.live_rows.max(1) as f64;
        rows >= ROWS_MIN && (!table.analyzed || changed || !(0.5..=2.0).contains(&estimate))
    };
    let off: Vec<_> = found.tables.iter().filter(is_off).collect();
    let told = off.iter().map(|table| {
        if !table.analyzed {
            return format!("{} has none", table.name);
        }
        format!(
            "{}: {} of {} rows changed since, {} expected",
            table.name,
            grouped(table.changed_rows),
            grouped(table.live_rows),
            grouped(table.estimated_rows)
        )
    });
    let seen = if off.is_empty() {
        "up to date".to_owned()
    } else {
        told.collect::<Vec<_>>().join("; ")
    };
    let names: Vec<_> = off.iter().map(|table| table.name.as_str()).collect();
    findings.push(Finding::new(
        "statistics",
        if off.is_empty() {
            Level::Ok
        } else {
            Level::Warn
        },
        seen,
        format!("ANALYZE {}; and see that autovacuum runs", names.join(", ")),
    ));
}

fn autovacuum(found: &Examination, findings: &mut Findings) {
    let check = "autovacuum";
    if !found.autovacuum {
        return findings.push(Finding::bad(
            check,
            "switched off",
            "set autovacuum = on: without it every query reads what was deleted, and the server stops \
             some day to be saved from wraparound",
        ));
    }
    let share = |table: &TableExamination| table.dead_rows as f64 / table.live_rows.max(1) as f64;
    let worst = (found.tables.iter())
        .filter(|table| table.dead_rows >= ROWS_MIN)
        .max_by(|a, b| share(a).total_cmp(&share(b)));
    let level = worst.map_or(Level::Ok, |table| rising(share(table), 0.2, 0.6));
    let age = found.unfrozen_transactions;
    let level = level.max(rising(age as f64, 5e8, 1.5e9));
    let seen = worst.map_or("nothing to clean".to_owned(), |table| {
        format!(
            "{} has {} dead rows beside {}",
            table.name,
            grouped(table.dead_rows),
            grouped(table.live_rows)
        )
    });
    findings.push(Finding::new(
        check,
        level,
        format!("{seen}; the oldest unfrozen transaction is {} back", grouped(age)),
        "VACUUM (ANALYZE) it now; raise autovacuum_max_workers or lower autovacuum_vacuum_cost_delay, and \
         look for old transactions that hold it up",
    ));
}

fn memory(found: &Examination, findings: &mut Findings) {
    let (buffers, size) = (found.shared_buffers_bytes, found.database_bytes);
    let hits = found.pages_found as f64 / (found.pages_found + found.pages_read).max(1) as f64;
    // Small databases fit into the default, and what is rarely missed is large enough.
    let small = size > 4 * buffers && buffers < 1 << 30 && hits < 0.99;
    findings.push(Finding::new(
        "shared_buffers",
        if small { Level::Warn } else { Level::Ok },
        format!(
            "{} for a database of {}; {:.1}% of the pages were found there",
            bytes(buffers),
            bytes(size),
            hits * 100.0
        ),
        "raise shared_buffers to a quarter of the server's memory",
    ));
}

fn durability(found: &Examination, findings: &mut Findings) {
    findings.push(match (found.crash_safe, found.synchronous_commit) {
        (true, true) => Finding::ok("durability", "what is answered OK survives a power cut"),
        (false, _) => Finding::bad(
            "durability",
            "fsync or full_page_writes is off: a power cut may destroy the database",
            "set both on",
        ),
        (true, false) => Finding::warn(
            "durability",
            "synchronous_commit is off: a power cut may take the last moments' events, although they \
             were answered OK",
            "if that is not meant, set it on",
        ),
    });
}

fn transactions(found: &Examination, findings: &mut Findings) {
    findings.push(Finding::new(
        "transactions",
        rising(found.oldest_transaction_seconds as f64, 300.0, 3600.0)
            .max(rising(found.waiting_for_locks as f64, 10.0, 100.0)),
        format!(
            "the oldest is open for {} s; {} wait for locks",
            found.oldest_transaction_seconds, found.waiting_for_locks
        ),
        "see pg_stat_activity: an old transaction keeps what is deleted from being cleaned, and new events \
         from being seen by other nodes",
    ));
}

fn statements(found: &Examination, findings: &mut Findings) {
    let check = "slow statements";
    let Some(statements) = &found.slow_statements else {
        return findings.push(Finding::ok(
            check,
            "not known: pg_stat_statements is not installed",
        ));
    };
    let slow: Vec<_> = statements
        .iter()
        .filter(|statement| statement.mean_ms >= STATEMENT_MS)
        .collect();
    let Some(worst) = slow.first() else {
        return findings.push(Finding::ok(check, format!("none above {STATEMENT_MS} ms")));
    };
    findings.push(Finding::warn(
        check,
        format!(
            "{} above {STATEMENT_MS} ms; the slowest takes {:.1} ms ({} times, {:.1} ms at most): {}",
            slow.len(),
            worst.mean_ms,
            grouped(worst.calls),
            worst.max_ms,
            worst.text.split_whitespace().collect::<Vec<_>>().join(" ")
        ),
        "see its plan with EXPLAIN (ANALYZE, BUFFERS); the other findings may say why",
    ));
}

#[cfg(test)]
mod tests {
    use hikyaku_observe::{PhaseTimes, ShapeFigures};

    use super::*;

    fn shape(wait: u64, query: u64, total_ns: u64) -> ShapeFigures {
        ShapeFigures {
            total_ns,
            phases_ns: PhaseTimes {
                wait,
                query,
                ..PhaseTimes::default()
            },
            ..ShapeFigures::default()
        }
    }

    #[test]
    fn who_waits_for_a_connection_is_counted_among_those_who_need_one() {
        let mut requests = Snapshot::default();
        assert!(waiting(&requests) <= 0.0);
        // An event waits for its batch, and needs no connection.
        requests.shapes = vec![
            shape(900, 0, 1000),
            shape(100, 300, 500),
            shape(50, 400, 500),
        ];
        assert!((waiting(&requests) - 0.15).abs() < 1e-9);
    }
}
