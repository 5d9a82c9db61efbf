//! Where bans are kept: in a table of the data folder, or in the database, for all nodes.

use std::{
    fmt, io,
    path::Path,
    sync::{Arc, Weak},
    thread,
};

use futures_util::StreamExt;
use hikyaku_postgres::PostgresStore;
use hikyaku_server::Bans;
use hikyaku_store::Ban;
use hikyaku_tables::{
    Attributes, Change, Condition, Logging, Outcome, Stamp, Table, TableError, Tables,
    TablesOptions, Update,
};
use hikyaku_vfs::{Disk, RealDisk};
use serde::{Deserialize, Serialize};

use crate::{
    failure::Failure,
    opened::Opened,
    waiting::{unix_now_us, wait},
};

/// This server's number in a log that the table does not have.
const SERVER: u32 = 1;
/// The table, in its folder.
const TABLE: &str = "bans";
/// Bans read from the table at once.
const PAGE: usize = 1_000;

/// The bans, where they are kept, and the server that is to know of them.
#[derive(Debug, Clone)]
pub(crate) struct KeptBans {
    place: Place,
    server: Bans,
}

#[derive(Clone)]
enum Place {
    Table(Arc<Tables>),
    Database(Arc<PostgresStore>),
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Table(_) => "Table",
            Self::Database(_) => "Database",
        })
    }
}

/// What a record of the table holds beside its key, as JSON.
#[derive(Serialize, Deserialize)]
struct Record {
    reason: String,
    since: u64,
    until: Option<u64>,
}

impl KeptBans {
    /// Finds the bans of a store that this process has opened. `server` knows them from now on.
    pub(crate) fn open(data: &Path, opened: &Opened, server: Bans) -> Result<Self, Failure> {
        let place = match opened {
            Opened::Engine(_) => return Self::open_table(data, server),
            Opened::Postgres(store) => Place::Database(Arc::clone(store)),
        };
        let kept = Self { place, server };
        kept.tell_server()?;
        Ok(kept)
    }

    /// Opens the table in the data folder, or makes it. One process at a time.
    pub(crate) fn open_table(data: &Path, server: Bans) -> Result<Self, Failure> {
        let folder = data.join("bans");
        let disk: Disk = Arc::new(RealDisk);
        let named = format!("{TABLE}={TABLE}.ordered");
        let options = TablesOptions {
            logging: Logging::None,
            ..TablesOptions::new(SERVER)
        };
        let opened = named
            .parse()
            .and_then(|named| Tables::open(&disk, &folder, &[named], &options));
        let tables = opened.map_err(|error| {
            Failure::of_table(
                &format!("can't open the bans in {}", folder.display()),
                &error,
            )
        })?;
        let kept = Self {
            place: Place::Table(Arc::new(tables)),
            server,
        };
        kept.tell_server()?;
        Ok(kept)
    }

    /// Follows what other nodes change, until the store closes.
    pub(crate) fn follow(&self) -> io::Result<()> {
        let Place::Database(store) = &self.place else {
            return Ok(());
        };
        let mut changes = store.bans_changed();
        // Weak, lest the store be kept open.
        let (store, server): (Weak<PostgresStore>, _) =
            (Arc::downgrade(store), self.server.clone());
        thread::Builder::new().name("bans".into()).spawn(move || {
            // At once, too: something may have changed since the list was read.
            loop {
                let Some(store) = store.upgrade() else {
                    return;
                };
                match wait(store.bans()) {
                    Ok(bans) => server.set(&bans),
                    // It is asked again when the connection is there again.
                    Err(error) => tracing::warn!(%error, "the bans were not read"),
                }
                drop(store);
                if wait(changes.next()).is_none() {
                    return;
                }
            }
        })?;
        Ok(())
    }

    /// Returns all bans, those that have ended included.
    pub(crate) fn list(&self) -> Result<Vec<Ban>, Failure> {
        match &self.place {
            Place::Database(store) => Ok(wait(store.bans())?),
            Place::Table(tables) => list(table(tables)?).map_err(|error| failed(&error)),
        }
    }

    /// Keeps somebody out. A ban that there was is replaced.
    pub(crate) fn ban(&self, ban: &Ban) -> Result<(), Failure> {
        match &self.place {
            Place::Database(store) => wait(store.ban(ban))?,
            Place::Table(tables) => {
                let record = Record {
                    reason: ban.reason.clone(),
                    since: ban.since,
                    until: ban.until,
                };
                let value = serde_json::to_vec(&record)
                    .map_err(|error| Failure::Failed(format!("a ban can't be written: {error}")))?;
                let change = Change::Put(&value);
                update(table(tables)?, &ban.who, change, ban.until.unwrap_or(0))?;
            }
        }
        self.tell_server()
    }

    /// Takes a ban back; tells whether there was one.
    pub(crate) fn unban(&self, who: &str) -> Result<bool, Failure> {
        let was_there = match &self.place {
            Place::Database(store) => wait(store.unban(who))?,
            Place::Table(tables) => {
                let outcome = update(table(tables)?, who, Change::Remove, 0)?;
                outcome == Outcome::Removed
            }
        };
        self.tell_server()?;
        Ok(was_there)
    }

    /// Closes the table, so that the next start finds it in order.
    pub(crate) fn close(self) {
        let Place::Table(tables) = self.place else {
            return;
        };
        // Where a command is still under way, nothing is lost either: each ban was synced.
        if let Some(Err(error)) = Arc::into_inner(tables).map(Tables::close) {
            tracing::warn!(%error, "the table of bans is left as it is");
        }
    }

    fn tell_server(&self) -> Result<(), Failure> {
        self.server.set(&self.list()?);
        Ok(())
    }
}

fn table(tables: &Tables) -> Result<&dyn Table, Failure> {
    let table = tables.get(TABLE).map(|table| &**table);
    table.ok_or_else(|| Failure::Failed("the table of bans is missing".to_owned()))
}

fn stamp() -> Stamp {
    Stamp {
        at_us: unix_now_us(),
        origin: 0,
    }
}

fn update(
    table: &dyn Table,
    who: &str,
    change: Change<'_>,
    expires_at: u64,
) -> Result<Outcome, Failure> {
    let update = Update {
        key: who.as_bytes(),
        condition: Condition::Any,
        change,
        attributes: Attributes {
            flags: 0,
            expires_at,
        },
    };
    table
        .update(&update, stamp())
        .map_err(|error| failed(&error))
}

fn list(table: &dyn Table) -> Result<Vec<Ban>, TableError> {
    let now = stamp().seconds();
    let (mut bans, mut value) = (Vec::new(), Vec::new());
    let mut keys = table.keys_after(None, PAGE)?;
    while let Some(last) = keys.last().cloned() {
        for key in &keys {
            if table.get(key, now, &mut value)?.is_none() {
                continue;
            }
            let (Ok(who), Ok(record)) = (
                str::from_utf8(key),
                serde_json::from_slice::<Record>(&value),
            ) else {
                tracing::warn!("a record of the table of bans is none");
                continue;
            };
            bans.push(Ban {
                who: who.to_owned(),
                reason: record.reason,
                since: record.since,
                until: record.until,
            });
        }
        keys = table.keys_after(Some(&last), PAGE)?;
    }
    Ok(bans)
}

fn failed(error: &TableError) -> Failure {
    Failure::of_table("the table of bans", error)
}
