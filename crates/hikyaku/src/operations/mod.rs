//! What can be done with a store. Each operation is here once, whether the command that wants it has
//! opened the store itself or asks the server that has it open.

mod bans;
mod delete;
mod import;
mod lines;
mod members;
mod read;
mod report;
mod sessions;

use std::{
    io::{self, Read},
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use hikyaku_event::Filter;
use hikyaku_members::Members;
use hikyaku_observe::Observations;
use hikyaku_relay::RelayUrls;
use hikyaku_server::Watch;
use serde::{Deserialize, Serialize};

pub(crate) use bans::{BanReport, ask_about_bans, check_reason, parse_banned};
pub(crate) use members::{
    FootprintsReport, MemberReport, MembersReport, Which, ask_about, footprints_of, nothing_kept,
    parse_key,
};
pub(crate) use report::{
    BadLine, ConditionReport, DatabaseReport, ImportEnd, ImportReport, RepairReport, Report,
    StatisticsReport, VerifyReport,
};
pub(crate) use sessions::{
    RevocationReport, ask_about_sessions, no_sessions, parse_whose_sessions,
};

use crate::{
    bans::KeptBans,
    control::Carrier,
    failure::Failure,
    opened::Opened,
    sessions::KeptSessions,
    waiting::{unix_now_us, wait},
};

/// An operation, as it is asked for. Filters are JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub(crate) enum Operation {
    /// Store the events of the input.
    Import {
        /// Stop at the first bad line.
        strict: bool,
        /// Take signatures on trust.
        #[serde(default)]
        unchecked: bool,
    },
    /// Send the events of one filter.
    Export {
        /// Which.
        filter: String,
        /// Begin with the oldest.
        oldest_first: bool,
    },
    /// Send the events of some filters, newest first.
    Query {
        /// Which.
        filters: Vec<String>,
    },
    /// Count the events of some filters.
    Count {
        /// Which.
        filters: Vec<String>,
    },
    /// Remove the events of a filter for good.
    Delete {
        /// Which.
        filter: String,
    },
    /// Tell the store's figures.
    Statistics,
    /// Check every checksum, and the indexes against the log.
    Verify,
    /// Merge the segments and rewrite the log.
    Compact,
    /// Tell what requests have cost, by their shape.
    Requests,
    /// Tell how the server does.
    Condition,
    /// List members.
    Members {
        /// Which.
        which: Which,
    },
    /// Keep somebody out.
    Ban {
        /// A public key in hex, an address, or a range of them.
        who: String,
        /// What they are told.
        reason: String,
        /// For how long; `None` is for ever.
        seconds: Option<u64>,
    },
    /// Take a ban back.
    Unban {
        /// Whose.
        who: String,
    },
    /// List who is kept out.
    Bans,
    /// Revoke sessions of browsers.
    RevokeSessions {
        /// A public key in hex, all of whose sessions are meant, or a session's name.
        who: String,
    },
    /// List what is revoked.
    RevokedSessions,
    /// Copy tables, as the beginning of a server that follows this one.
    CopyTables {
        /// The new folder, from the root.
        to: PathBuf,
    },
    /// List who looked at a member's page.
    Footprints {
        /// The member's public key in hex.
        key: String,
        /// Switch its footprints on or off first.
        switch: Option<bool>,
    },
}

impl Operation {
    /// Returns its name, for the log.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Import { .. } => "import",
            Self::Export { .. } => "export",
            Self::Query { .. } => "query",
            Self::Count { .. } => "count",
            Self::Delete { .. } => "delete",
            Self::Statistics => "stats",
            Self::Verify => "verify",
            Self::Compact => "compact",
            Self::Requests => "requests",
            Self::Condition => "condition",
            Self::Members { .. } => "members",
            Self::Footprints { .. } => "footprints",
            Self::CopyTables { .. } => "tables copy",
            Self::Ban { .. } => "ban",
            Self::Unban { .. } => "unban",
            Self::Bans => "bans",
            Self::RevokeSessions { .. } => "sessions revoke",
            Self::RevokedSessions => "sessions revoked",
        }
    }
}

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Events done.
    pub(crate) events: u64,
    /// Bytes of the input done.
    pub(crate) bytes: u64,
}

/// Who hears of an operation while it goes on. An error ends it.
pub(crate) trait Audience {
    /// Takes one event's JSON.
    fn event(&mut self, json: &[u8]) -> io::Result<()>;
    /// Hears how far it is.
    fn progress(&mut self, progress: Progress) -> io::Result<()>;
}

/// What an operation reads: an import's lines.
pub(crate) type Input = Box<dyn Read + Send>;

/// An open store, and the addresses that mean this relay in requests to vanish.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    /// The store.
    pub(crate) store: Opened,
    /// The addresses.
    pub(crate) urls: RelayUrls,
    /// What is known about members; none if it is not kept, or not opened.
    pub(crate) members: Option<Arc<Members>>,
    /// Who is kept out; none if no server is to know.
    pub(crate) bans: Option<KeptBans>,
    /// The sessions of browsers; none if they can't log in.
    pub(crate) sessions: Option<KeptSessions>,
    /// The server; none if nobody is served.
    pub(crate) watch: Option<Watch>,
    /// What requests cost the tables that are served beside it; none if there are none.
    pub(crate) tables: Option<Observations>,
}

impl Carrier for Host {
    fn carry_out(
        &self,
        operation: &Operation,
        input: Input,
        stop: &Arc<AtomicBool>,
        audience: &mut dyn Audience,
    ) -> Result<Report, Failure> {
        carry_out(self, operation, input, stop, audience)
    }
}

/// Carries an operation out on this thread. Once `stop` is set it ends as soon as it can, in order.
pub(crate) fn carry_out(
    host: &Host,
    operation: &Operation,
    input: Input,
    stop: &Arc<AtomicBool>,
    audience: &mut dyn Audience,
) -> Result<Report, Failure> {
    let store = host.store.events();
    match operation {
        Operation::Import { strict, unchecked } => {
            let how = import::How {
                strict: *strict,
                unchecked: *unchecked,
            };
            import::import(host, input, how, stop, audience).map(Report::Imported)
        }
        Operation::Export {
            filter,
            oldest_first: true,
        } => {
            let filter = parse_filter(filter)?;
            read::send_oldest_first(&*store, &filter, stop, audience)
        }
        Operation::Export { filter, .. } => {
            read::send(&*store, vec![parse_filter(filter)?], stop, audience)
        }
        Operation::Query { filters } => {
            read::send(&*store, parse_filters(filters)?, stop, audience)
        }
        Operation::Count { filters } => read::count(&*store, parse_filters(filters)?),
        Operation::Delete { filter } => {
            delete::delete(&*store, &parse_filter(filter)?, stop, audience)
        }
        Operation::Statistics => match &host.store {
            Opened::Engine(engine) => Ok(Report::Statistics(StatisticsReport::new(
                &wait(engine.statistics()),
                engine.opening_report(),
            ))),
            Opened::Postgres(store) => {
                Ok(Report::DatabaseStatistics(wait(store.statistics())?.into()))
            }
        },
        Operation::Verify => verify(host, audience),
        Operation::Compact => {
            wait(host.store.engine("compact")?.compact())?;
            Ok(Report::Compacted)
        }
        Operation::Ban { .. } | Operation::Unban { .. } | Operation::Bans => {
            let bans = host
                .bans
                .as_ref()
                .ok_or_else(|| Failure::Failed("bans are not kept by this process".to_owned()))?;
            ask_about_bans(bans, operation)
        }
        Operation::RevokeSessions { .. } | Operation::RevokedSessions => {
            let kept = host.sessions.as_ref().ok_or_else(no_sessions)?;
            ask_about_sessions(&kept.sessions, operation)
        }
        Operation::Requests => {
            let observations = host.watch.as_ref().and_then(Watch::observations);
            let tables = host.tables.as_ref();
            let both =
                observations.map(|own| tables.map_or_else(|| own.clone(), |it| own.with(it)));
            requests(both.as_ref())
        }
        Operation::Condition => {
            let watch = host.watch.as_ref();
            let watch = watch.ok_or_else(|| Failure::Failed("no server runs".to_owned()))?;
            Ok(Report::Condition(ConditionReport::of(watch)))
        }
        Operation::CopyTables { .. } => Err(Failure::Failed(
            "the tables of this server are in a folder of their own: name it with --folder"
                .to_owned(),
        )),
        Operation::Members { .. } | Operation::Footprints { .. } => {
            let members = host.members.as_deref().ok_or_else(nothing_kept)?;
            ask_about(members, operation)
        }
    }
}

/// What a table server answers to whatever is about events.
pub(crate) const NO_EVENTS: &str = "a table server has this folder open: there are no events in it";

/// Tells what requests have cost, if it is measured.
pub(crate) fn requests(observations: Option<&Observations>) -> Result<Report, Failure> {
    let observations = observations.ok_or_else(|| {
        Failure::Failed("what requests cost is not measured (metrics.requests is false)".to_owned())
    })?;
    Ok(Report::Requests(observations.snapshot(unix_now_us())))
}

fn verify(host: &Host, audience: &mut dyn Audience) -> Result<Report, Failure> {
    let mut told = Ok(());
    let report = host.store.engine("verify")?.verify(|report| {
        if told.is_ok() {
            told = audience.progress(Progress {
                events: report.events,
                bytes: 0,
            });
        }
    })?;
    told.map_err(|error| Failure::output(&error))?;
    Ok(Report::Verified(report.into()))
}

/// Reads a filter that the operator wrote.
pub(crate) fn parse_filter(json: &str) -> Result<Filter, Failure> {
    Filter::parse(json.as_bytes())
        .map_err(|error| Failure::Usage(format!("the filter {json} is not one: {error}")))
}

fn parse_filters(filters: &[String]) -> Result<Vec<Filter>, Failure> {
    filters.iter().map(|json| parse_filter(json)).collect()
}
