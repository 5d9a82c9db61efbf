//! Where browsers' sessions are kept: in a table of the data folder, or in the database, for all nodes.

use std::{
    error::Error,
    fmt, io,
    path::Path,
    sync::{Arc, Weak},
    thread,
};

use futures_util::StreamExt;
use hikyaku_event::Timestamp;
use hikyaku_postgres::{PostgresStore, RevocationNews};
use hikyaku_server::{SessionError, SessionKeeper, SessionOptions, Sessions};
use hikyaku_store::Revocation;
use hikyaku_tables::{Logging, TableError, Tables, TablesOptions};
use hikyaku_vfs::{Disk, RealDisk};

use crate::{
    failure::{Failure, chain},
    opened::Opened,
    waiting::{unix_now, wait},
};

/// This server's number in the log of the table, which nobody follows.
const SERVER: u32 = 1;
/// The table, in its folder.
const TABLE: &str = "sessions";

/// Whether browsers can log in, and for how long.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionSettings {
    /// Whether they can.
    pub(crate) enabled: bool,
    /// How sessions are.
    pub(crate) options: SessionOptions,
}

/// The sessions, and where they are kept.
#[derive(Clone)]
pub(crate) struct KeptSessions {
    /// The sessions.
    pub(crate) sessions: Sessions,
    place: Place,
}

#[derive(Clone)]
enum Place {
    Table(Arc<Tables>),
    // Weak, lest the store be kept open.
    Database(Weak<PostgresStore>),
}

impl fmt::Debug for KeptSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptSessions")
            .field("sessions", &self.sessions)
            .finish_non_exhaustive()
    }
}

impl KeptSessions {
    /// Finds the sessions of a store that this process has opened.
    pub(crate) fn open(
        data: &Path,
        opened: &Opened,
        options: SessionOptions,
    ) -> Result<Self, Failure> {
        match opened {
            Opened::Engine(_) => Self::open_table(data, options),
            Opened::Postgres(store) => Self::open_database(store, options),
        }
    }

    /// Opens the table in the data folder, or makes it. One process at a time.
    ///
    /// Each revocation is on the disk when it is answered, in the table and in its log.
    pub(crate) fn open_table(data: &Path, options: SessionOptions) -> Result<Self, Failure> {
        let folder = data.join("sessions");
        let failed = |error: &TableError| {
            let text = format!("can't open the sessions in {}", folder.display());
            Failure::of_table(&text, error)
        };
        let disk: Disk = Arc::new(RealDisk);
        let tables_options = TablesOptions {
            logging: Logging::Async,
            ..TablesOptions::new(SERVER)
        };
        let tables = format!("{TABLE}={TABLE}.hash")
            .parse()
            .and_then(|named| Tables::open(&disk, &folder, &[named], &tables_options))
            .map_err(|error| failed(&error))?;
        let table = tables.get(TABLE).cloned();
        let table =
            table.ok_or_else(|| Failure::Failed("the table of sessions is missing".to_owned()))?;
        let sessions = Sessions::in_table(table, options).map_err(|error| match &error {
            SessionError::Table(source) => failed(source),
            error => Failure::Failed(chain(error)),
        })?;
        Ok(Self {
            sessions,
            place: Place::Table(Arc::new(tables)),
        })
    }

    fn open_database(store: &Arc<PostgresStore>, options: SessionOptions) -> Result<Self, Failure> {
        let mut fresh = [0; 32];
        getrandom::fill(&mut fresh)
            .map_err(|error| Failure::Failed(format!("the system has no randomness: {error}")))?;
        let secret = wait(store.session_secret(fresh))?;
        let keeper = Arc::new(InDatabase(Arc::downgrade(store)));
        let sessions = Sessions::new(&secret, options, keeper);
        read_all(store, &sessions)?;
        Ok(Self {
            sessions,
            place: Place::Database(Arc::downgrade(store)),
        })
    }

    /// Follows what other nodes revoke, until the store closes.
    pub(crate) fn follow(&self) -> io::Result<()> {
        let Place::Database(store) = &self.place else {
            return Ok(());
        };
        let (store, sessions) = (store.clone(), self.sessions.clone());
        let Some(mut news) = store.upgrade().map(|store| store.sessions_revoked()) else {
            return Ok(());
        };
        thread::Builder::new()
            .name("sessions".into())
            .spawn(move || {
                // At once, too: something may have been revoked since the list was read.
                let mut next = Some(RevocationNews::Unknown);
                while let Some(one) = next {
                    let learnt = match one {
                        RevocationNews::Revoked(revocation) => sessions
                            .learn(&revocation)
                            .map_err(|error| Failure::Failed(chain(&error))),
                        RevocationNews::Unknown => match store.upgrade() {
                            Some(store) => read_all(&store, &sessions),
                            None => return,
                        },
                    };
                    if let Err(error) = learnt {
                        // It is told again when the connection is there again.
                        tracing::warn!(%error, "the revoked sessions were not read");
                    }
                    next = wait(news.next());
                }
            })?;
        Ok(())
    }

    /// Closes the table, so that the next start finds it in order.
    pub(crate) fn close(self) {
        drop(self.sessions);
        let Place::Table(tables) = self.place else {
            return;
        };
        // Where a command is still under way, nothing is lost either: each revocation was synced.
        if let Some(Err(error)) = Arc::into_inner(tables).map(Tables::close) {
            tracing::warn!(%error, "the table of sessions is left as it is");
        }
    }
}

/// Has the server know all that is revoked.
fn read_all(store: &PostgresStore, sessions: &Sessions) -> Result<(), Failure> {
    for revocation in wait(store.revoked_sessions(unix_now()))? {
        sessions
            .learn(&revocation)
            .map_err(|error| Failure::Failed(chain(&error)))?;
    }
    Ok(())
}

/// Keeps revocations in the database.
struct InDatabase(Weak<PostgresStore>);

impl SessionKeeper for InDatabase {
    fn keep(&self, revocation: Revocation) -> Result<Revocation, Box<dyn Error + Send + Sync>> {
        let store = self.0.upgrade().ok_or("the store is closed")?;
        Ok(wait(store.revoke_sessions(&revocation))?)
    }

    fn forget(&self, now: Timestamp) -> Result<(), Box<dyn Error + Send + Sync>> {
        if let Some(store) = self.0.upgrade() {
            wait(store.forget_revoked_sessions(now))?;
        }
        Ok(())
    }
}
