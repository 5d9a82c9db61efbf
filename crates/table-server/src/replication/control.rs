//! What is shared by those who follow, those who are followed, and those who ask.

use std::{
    collections::BTreeMap,
    net::{Shutdown, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use hikyaku_tables::{TableError, Tables};

use super::{
    kept, replica,
    source::{self, Handover},
};
use crate::{TableServerError, config::TableServerConfig, socket::Parcel};

/// Followers at a time: each has a thread.
const FOLLOWERS_MAX: usize = 16;

/// Which server to follow.
#[derive(Clone, PartialEq, Eq)]
pub struct Source {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What it wants to be told first, if anything.
    pub token: Option<String>,
    /// From which time on to follow (microseconds since 1970; 0: from its log's beginning) if this
    /// server has not followed it before.
    pub since_us: u64,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Source({}:{})", self.host, self.port)
    }
}

/// How following goes.
#[derive(Debug, Clone)]
pub(crate) struct Following {
    pub(crate) source: Source,
    /// The time of the last update that was applied, in microseconds since 1970.
    pub(crate) applied_us: u64,
    /// Why it does not go, if it does not.
    pub(crate) error: Option<String>,
}

/// Replication of a set of tables, in both directions.
pub(crate) struct Replication {
    pub(crate) tables: Arc<Tables>,
    pub(super) config: TableServerConfig,
    pub(super) stopping: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    following: Option<Following>,
    /// Goes up with each change of the source, so that a connection to the last one ends.
    generation: u64,
    /// Open connections, so that they can be ended while somebody reads from them.
    connections: BTreeMap<u64, TcpStream>,
    next_connection: u64,
    followers: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Replication {
    /// Makes it for tables, and begins to follow whom the configuration says, or else whom a client
    /// has said last.
    pub(crate) fn new(
        tables: Arc<Tables>,
        mut config: TableServerConfig,
    ) -> Result<Arc<Self>, TableServerError> {
        let source = match config.follow.take() {
            // Without a log nobody can be followed. It may have one again.
            None if tables.log().is_none() => Ok(None),
            None => kept::kept(&tables),
            configured => kept::keep(&tables, None).map(|()| configured),
        };
        let source = source.map_err(TableServerError::Followed)?;
        let replication = Arc::new(Self {
            tables,
            config,
            stopping: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        replication.follow(source);
        let replica = Arc::clone(&replication);
        let thread = thread::Builder::new()
            .name("tables-replica".to_owned())
            .spawn(move || replica::run(&replica))
            .map_err(TableServerError::System)?;
        replication.state().threads.push(thread);
        Ok(replication)
    }

    /// Follows whom a client names instead of the last one, also after the next start, unless the
    /// configuration names somebody then; `None`: nobody. Waits for the disk.
    pub(crate) fn follow_and_keep(&self, source: Option<Source>) -> Result<(), TableError> {
        kept::keep(&self.tables, source.as_ref())?;
        self.follow(source);
        Ok(())
    }

    /// Follows a source from now on instead of the last one; `None`: nobody.
    fn follow(&self, source: Option<Source>) {
        let mut state = self.state();
        state.generation += 1;
        state.following = source.map(|source| Following {
            source,
            applied_us: 0,
            error: None,
        });
        self.changed.notify_all();
    }

    /// Returns how following goes, if anybody is followed.
    pub(crate) fn following(&self) -> Option<Following> {
        self.state().following.clone()
    }

    /// Serves a follower on a connection, on a thread of its own.
    pub(crate) fn take_over(self: &Arc<Self>, parcel: Parcel, handover: Handover) {
        let mut state = self.state();
        if state.followers >= FOLLOWERS_MAX || self.stopping.load(Relaxed) {
            tracing::warn!("a follower is turned away: there are {FOLLOWERS_MAX}");
            return;
        }
        let this = Arc::clone(self);
        let serve = move || {
            source::serve(&this, parcel, handover);
            this.state().followers -= 1;
        };
        let spawned = thread::Builder::new()
            .name("tables-follower".to_owned())
            .spawn(serve);
        match spawned {
            Ok(thread) => {
                state.followers += 1;
                state.threads.retain(|thread| !thread.is_finished());
                state.threads.push(thread);
            }
            Err(error) => tracing::error!(%error, "no thread for a follower"),
        }
    }

    /// Ends all connections and waits for the threads.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Relaxed);
        let threads = {
            let mut state = self.state();
            state.generation += 1;
            for connection in state.connections.values() {
                // It may have ended by itself.
                let _ = connection.shutdown(Shutdown::Both);
            }
            self.changed.notify_all();
            std::mem::take(&mut state.threads)
        };
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the replication has stopped unexpectedly");
            }
        }
    }

    /// Waits for a source to follow: returns it with its generation; `None`: the server stops.
    pub(super) fn next_source(&self) -> Option<(Source, u64)> {
        let mut state = self.state();
        loop {
            if self.stopping.load(Relaxed) {
                return None;
            }
            if let Some(following) = &state.following {
                return Some((following.source.clone(), state.generation));
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits before a connection is tried again, unless something changes.
    pub(super) fn rest(&self, generation: u64, time: Duration) {
        let is_same = |state: &mut State| state.generation == generation;
        // What it was woken by is asked for next.
        let _ = self.changed.wait_timeout_while(self.state(), time, is_same);
    }

    /// Tells whether a generation is over.
    pub(super) fn is_over(&self, generation: u64) -> bool {
        self.state().generation != generation
    }

    /// Notes how following goes. Tells whether that is news.
    pub(super) fn note(
        &self,
        generation: u64,
        applied_us: Option<u64>,
        error: Option<String>,
    ) -> bool {
        let mut state = self.state();
        if state.generation != generation {
            return false;
        }
        let Some(following) = &mut state.following else {
            return false;
        };
        following.applied_us = applied_us.unwrap_or(following.applied_us);
        let is_news = following.error != error;
        following.error = error;
        is_news
    }

    /// Counts a connection in; it is ended when the server stops.
    pub(super) fn register(&self, stream: &TcpStream) -> std::io::Result<Registration<'_>> {
        let stream = stream.try_clone()?;
        let mut state = self.state();
        let number = state.next_connection;
        state.next_connection += 1;
        state.connections.insert(number, stream);
        Ok(Registration {
            replication: self,
            number,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Replication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replication")
            .field("following", &self.following())
            .finish_non_exhaustive()
    }
}

/// A connection that is ended when the server stops.
pub(super) struct Registration<'a> {
    replication: &'a Replication,
    number: u64,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.replication.state().connections.remove(&self.number);
    }
}
