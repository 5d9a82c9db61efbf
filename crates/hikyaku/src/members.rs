//! The members' tables in the data folder.

use std::{fmt, path::PathBuf, sync::Arc};

use hikyaku_members::{MemberTables, Members};
use hikyaku_server::Gauge;
use hikyaku_tables::{Logging, NamedTable, TableError, Tables, TablesOptions};
use hikyaku_vfs::{Disk, RealDisk, Vfs};

use crate::{configuration::Settings, failure::Failure, waiting::unix_now};

/// This server's number in the log of the members' tables, which nobody follows.
const SERVER: u32 = 1;

/// What is known about members, and the tables that it is kept in.
#[derive(Clone)]
pub(crate) struct Kept {
    /// What is known.
    pub(crate) members: Arc<Members>,
    tables: Arc<Tables>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

/// Opens the members' tables, or makes them; none if they are not to be kept. One process at a time.
///
/// Updates are logged, and nobody waits for the log: a power cut takes the last moment.
pub(crate) fn open(settings: &Settings) -> Result<Option<Kept>, Failure> {
    if !settings.keep_members {
        return Ok(None);
    }
    let folder = folder(settings);
    let failed = |error: TableError| {
        Failure::of_table(
            &format!("can't open the tables in {}", folder.display()),
            &error,
        )
    };
    let named = MemberTables::DESCRIPTIONS
        .iter()
        .map(|(name, table)| format!("{name}={table}").parse())
        .collect::<Result<Vec<NamedTable>, _>>()
        .map_err(failed)?;
    let disk: Disk = Arc::new(RealDisk);
    let options = TablesOptions {
        logging: Logging::Async,
        ..TablesOptions::new(SERVER)
    };
    let tables = Tables::open(&disk, &folder, &named, &options).map_err(failed)?;
    let seed = getrandom::u64()
        .map_err(|error| Failure::Failed(format!("the system has no randomness: {error}")))?;
    let found = MemberTables::find(|name| tables.get(name).cloned())
        .ok_or_else(|| Failure::Failed("a table of the members is missing".to_owned()))?;
    let members = Members::open(found, settings.footprints, seed)?;
    Ok(Some(Kept {
        members: Arc::new(members),
        tables: Arc::new(tables),
    }))
}

/// Tells whether anything was ever taken down.
pub(crate) fn exist(settings: &Settings) -> bool {
    RealDisk
        .list(&folder(settings))
        .is_ok_and(|files| !files.is_empty())
}

/// Returns the folder of the members' tables within the data folder.
fn folder(settings: &Settings) -> PathBuf {
    settings.data.join("members")
}

impl Kept {
    /// Closes the tables, so that the next start finds them in order.
    pub(crate) fn close(self) {
        drop(self.members);
        let closed = match Arc::into_inner(self.tables) {
            Some(tables) => tables.close(),
            // Nothing is lost: the next start reads the end of the log again.
            None => Ok(()),
        };
        if let Err(error) = closed {
            tracing::warn!(%error, "the members' tables are left as they are");
        }
    }
}

/// Returns the members' figures for the metrics.
pub(crate) fn gauges(members: &Members) -> Vec<Gauge> {
    let today = members.seen_on_day_of(unix_now()).unwrap_or_default();
    vec![
        Gauge {
            name: "members",
            help: "Keys that have written or authenticated here.",
            value: members.len() as f64,
        },
        Gauge {
            name: "members_seen_today",
            help: "Members that were here since midnight (UTC).",
            value: today as f64,
        },
    ]
}
