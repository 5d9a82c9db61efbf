//! What an operation has to say at its end, for people and for programs.

use std::{io, net::IpAddr, path::PathBuf};

use hikyaku_engine::{EngineStatistics, OpeningReport};
use hikyaku_observe::Snapshot;
use hikyaku_postgres::PostgresStatistics;
use hikyaku_server::Watch;
use serde::{Deserialize, Serialize};

use super::{BanReport, FootprintsReport, MembersReport, RevocationReport};
use crate::waiting::unix_now_us;

/// The end of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub(crate) enum Report {
    /// An import.
    Imported(ImportReport),
    /// An export or a query.
    Sent {
        /// How many events.
        events: u64,
    },
    /// A count.
    Counted {
        /// How many events.
        count: u64,
    },
    /// A delete.
    Deleted {
        /// How many events are removed.
        removed: u64,
        /// How many had gone meanwhile.
        absent: u64,
        /// Whether it was stopped before its end.
        interrupted: bool,
    },
    /// The figures.
    Statistics(StatisticsReport),
    /// The figures of a store in a database.
    DatabaseStatistics(DatabaseReport),
    /// A check.
    Verified(VerifyReport),
    /// A repair.
    Repaired(RepairReport),
    /// A compaction.
    Compacted,
    /// What requests have cost.
    Requests(Snapshot),
    /// How the server does.
    Condition(ConditionReport),
    /// Members.
    Members(MembersReport),
    /// A copy of tables.
    TablesCopied {
        /// The position in the log up to which they have its updates.
        position: u64,
    },
    /// Who looked at a member's page.
    Footprints(FootprintsReport),
    /// A new ban.
    Banned(BanReport),
    /// A ban that was taken back.
    Unbanned {
        /// Whose.
        who: String,
    },
    /// Who is kept out.
    Bans {
        /// The bans.
        bans: Vec<BanReport>,
    },
    /// Sessions that were revoked just now.
    SessionsRevoked(RevocationReport),
    /// Sessions that are revoked.
    RevokedSessions {
        /// Which.
        sessions: Vec<RevocationReport>,
    },
}

/// How a running server does.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct ConditionReport {
    /// Its process.
    pub(crate) process: u32,
    /// Its workers.
    pub(crate) workers: usize,
    /// Connections that it takes.
    pub(crate) connections_max: usize,
    /// Its metrics as Prometheus reads them.
    pub(crate) metrics: String,
    /// Clients that are remembered.
    pub(crate) clients: usize,
    /// The address that most of them had, and how many had it.
    pub(crate) commonest: Option<(IpAddr, usize)>,
    /// Those that said like a proxy that they speak for others, and were not believed.
    pub(crate) speaking_for_others: Option<(IpAddr, usize)>,
    /// What requests cost, if that is measured.
    pub(crate) requests: Option<Snapshot>,
}

impl ConditionReport {
    pub(super) fn of(watch: &Watch) -> Self {
        let clients = watch.recent_clients();
        Self {
            process: std::process::id(),
            workers: watch.workers(),
            connections_max: watch.connections_max(),
            metrics: watch.metrics().render(),
            clients: clients.clients,
            commonest: clients.commonest,
            speaking_for_others: clients.speaking_for_others,
            requests: watch
                .observations()
                .map(|observations| observations.snapshot(unix_now_us())),
        }
    }

    /// Returns a metric that has no label, or one with this label.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.lines().find_map(|line| {
            let (found, value) = line.rsplit_once(' ')?;
            let found = found.strip_prefix("hikyaku_")?;
            (found == name).then(|| value.parse().ok())?
        })
    }
}

/// What became of an import's lines. Every line that is not blank is counted once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct ImportReport {
    /// Lines read, blank ones aside.
    pub(crate) events: u64,
    /// Stored now.
    pub(crate) stored: u64,
    /// Stored before.
    pub(crate) duplicates: u64,
    /// Not stored: a newer version is.
    pub(crate) superseded: u64,
    /// Not stored by the rules.
    pub(crate) refused: RefusedCounts,
    /// Rows of another relay's database that it does not serve any more.
    pub(crate) left_out: u64,
    /// No valid events.
    pub(crate) invalid: InvalidCounts,
    /// The first invalid lines.
    pub(crate) first_invalid: Vec<BadLine>,
    /// How it ended.
    pub(crate) end: ImportEnd,
    /// Why the input broke off, if it did.
    pub(crate) input_error: Option<String>,
}

/// Why valid events were not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct RefusedCounts {
    /// Deleted by their authors or recipients (NIP-09).
    pub(crate) deleted: u64,
    /// Their authors or recipients have vanished (NIP-62).
    pub(crate) vanished: u64,
    /// Expired (NIP-40).
    pub(crate) expired: u64,
    /// Of ephemeral kinds.
    pub(crate) ephemeral: u64,
}

/// Why lines are no valid events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct InvalidCounts {
    /// Not the JSON of an event.
    pub(crate) malformed: u64,
    /// The id is not the event's hash.
    pub(crate) wrong_id: u64,
    /// The signature is not the author's.
    pub(crate) wrong_signature: u64,
    /// Not readable in the database it is from.
    pub(crate) unreadable: u64,
    /// Longer than any event.
    pub(crate) too_long: u64,
}

/// An invalid line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BadLine {
    /// Its number, from 1.
    pub(crate) line: u64,
    /// What is wrong with it.
    pub(crate) reason: String,
}

/// How an import ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ImportEnd {
    /// With its input.
    #[default]
    Complete,
    /// Stopped by the operator: what was read until then is stored.
    Interrupted,
    /// At the first invalid line, as was wanted: what stood before it is stored.
    InvalidLine,
    /// Its input broke off: what was read until then is stored.
    InputLost,
}

impl ImportReport {
    /// Tells that the input broke off.
    pub(crate) fn break_off(&mut self, error: &io::Error) {
        self.end = ImportEnd::InputLost;
        self.input_error = Some(error.to_string());
    }
}

impl RefusedCounts {
    /// Returns the sum.
    pub(crate) fn total(&self) -> u64 {
        self.deleted + self.vanished + self.expired + self.ephemeral
    }
}

impl InvalidCounts {
    /// Returns the sum.
    pub(crate) fn total(&self) -> u64 {
        self.malformed + self.wrong_id + self.wrong_signature + self.unreadable + self.too_long
    }
}

/// The store's figures.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct StatisticsReport {
    /// Stored events, hidden and expired ones included.
    pub(crate) events: u64,
    /// Removed events that still take room in segments.
    pub(crate) removed: u64,
    /// Hidden events.
    pub(crate) hidden: u64,
    /// Events whose segment is not yet written.
    pub(crate) in_memory: u64,
    /// Segment files.
    pub(crate) segments: u64,
    /// Bytes of segment files.
    pub(crate) segment_bytes: u64,
    /// Closed log files.
    pub(crate) log_files: u64,
    /// Bytes of closed log files.
    pub(crate) log_bytes: u64,
    /// Bytes written to the log file that is open.
    #[serde(default)]
    pub(crate) open_log_bytes: u64,
    /// Closed log files that wait for their segment.
    pub(crate) waiting_flushes: u64,
    /// Commits since the store was opened.
    pub(crate) commits: u64,
    /// Events stored since the store was opened.
    pub(crate) stored_since_opening: u64,
    /// Events removed since the store was opened.
    pub(crate) removed_since_opening: u64,
    /// Merges since the store was opened.
    pub(crate) merges: u64,
    /// Events read back from the log when the store was opened.
    pub(crate) replayed: u64,
    /// What was cut from the log's end when the store was opened, if anything was.
    pub(crate) torn_tail: Option<String>,
    /// Why the store refuses writes, if it does.
    pub(crate) stopped: Option<String>,
}

impl StatisticsReport {
    pub(super) fn new(figures: &EngineStatistics, opening: &OpeningReport) -> Self {
        Self {
            events: figures.events,
            removed: figures.removed,
            hidden: figures.hidden,
            in_memory: figures.in_memory,
            segments: figures.segments,
            segment_bytes: figures.segment_bytes,
            log_files: figures.log_files,
            log_bytes: figures.log_bytes,
            open_log_bytes: figures.open_log_bytes,
            waiting_flushes: figures.waiting_flushes,
            commits: figures.writer.commits,
            stored_since_opening: figures.writer.stored,
            removed_since_opening: figures.writer.removed,
            merges: figures.writer.merges,
            replayed: opening.replayed,
            torn_tail: opening.torn_tail.clone(),
            stopped: figures.stopped.clone(),
        }
    }
}

/// The figures of a store in a database.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct DatabaseReport {
    /// Stored events, as the server estimates them.
    pub(crate) events_estimated: u64,
    /// Indexed tags, likewise.
    pub(crate) tags_estimated: u64,
    /// Hidden events.
    pub(crate) hidden: u64,
    /// Bytes of the tables.
    pub(crate) table_bytes: u64,
    /// Bytes of the indexes.
    pub(crate) index_bytes: u64,
    /// The last number given to an event.
    pub(crate) position: u64,
    /// The schema's version.
    pub(crate) schema_version: u32,
    /// The server's version.
    pub(crate) server_version: String,
    /// Connections that the server has open.
    pub(crate) connections: u64,
    /// Connections that it allows.
    pub(crate) connections_max: u64,
}

impl From<PostgresStatistics> for DatabaseReport {
    fn from(figures: PostgresStatistics) -> Self {
        Self {
            events_estimated: figures.events_estimated,
            tags_estimated: figures.tags_estimated,
            hidden: figures.hidden,
            table_bytes: figures.table_bytes,
            index_bytes: figures.index_bytes,
            position: figures.position,
            schema_version: figures.schema_version,
            server_version: figures.server_version,
            connections: figures.connections,
            connections_max: figures.connections_max,
        }
    }
}

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct VerifyReport {
    /// Whether nothing is wrong.
    pub(crate) sound: bool,
    /// Closed log files read.
    pub(crate) log_files: u64,
    /// Log records read.
    pub(crate) records: u64,
    /// Segment files read.
    pub(crate) segments: u64,
    /// Events compared with their index.
    pub(crate) events: u64,
    /// What is wrong.
    pub(crate) findings: Vec<String>,
    /// How many findings there are beyond those.
    pub(crate) more_findings: u64,
}

impl From<hikyaku_engine::VerifyReport> for VerifyReport {
    fn from(report: hikyaku_engine::VerifyReport) -> Self {
        Self {
            sound: report.is_sound(),
            log_files: report.log_files,
            records: report.records,
            segments: report.segments,
            events: report.events,
            findings: report.findings,
            more_findings: report.more_findings,
        }
    }
}

/// What a repair found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct RepairReport {
    /// Intact events in the log, removed ones included.
    pub(crate) events: u64,
    /// What was damaged in the log.
    pub(crate) damage: Vec<String>,
    /// Where the damaged log's files are kept.
    pub(crate) kept_in: Option<PathBuf>,
    /// Segments written.
    pub(crate) segments: u64,
}

impl From<hikyaku_engine::RepairReport> for RepairReport {
    fn from(report: hikyaku_engine::RepairReport) -> Self {
        Self {
            events: report.events,
            damage: report.damage,
            kept_in: report.kept_in,
            segments: report.segments,
        }
    }
}
