//! What a plugin's factory is given: which worker it is on, and what there is to share.

use std::{
    fmt,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use hikyaku_members::Members;
use hikyaku_store::EventStore;
use hikyaku_tables::Table;

use crate::{BannedKeys, worker::Shared};

/// One worker, as its plugins see it: a thread with a loop of its own. Whatever is made on it stays
/// on it.
#[derive(Clone)]
pub struct Worker {
    inner: Rc<Inner>,
}

struct Inner {
    index: usize,
    shared: Arc<Shared>,
    store: Arc<dyn EventStore>,
    #[cfg(feature = "postgres")]
    postgres: tokio::sync::OnceCell<crate::postgres::Postgres>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("index", &self.index())
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

impl Worker {
    pub(crate) fn new(index: usize, shared: Arc<Shared>, store: Arc<dyn EventStore>) -> Self {
        let inner = Inner {
            index,
            shared,
            store,
            #[cfg(feature = "postgres")]
            postgres: tokio::sync::OnceCell::new(),
        };
        Self {
            inner: Rc::new(inner),
        }
    }

    /// Returns its place among the workers, from 0.
    pub fn index(&self) -> usize {
        self.inner.index
    }

    /// Returns how many workers the server has.
    pub fn count(&self) -> usize {
        self.inner.shared.inboxes.len()
    }

    /// Returns this worker's share of a budget of the whole server (connections, bytes). The shares
    /// of all workers add up to the budget; one that is less than the number of workers leaves some
    /// of them without.
    pub fn share_of(&self, budget: usize) -> usize {
        let (each, rest) = (budget / self.count(), budget % self.count());
        each + usize::from(self.index() < rest)
    }

    /// Returns how long a handler may take before it is given up.
    pub fn handler_timeout(&self) -> Duration {
        self.inner.shared.config.handler_timeout
    }

    /// Returns the store of the relay's events.
    pub fn store(&self) -> &Arc<dyn EventStore> {
        &self.inner.store
    }

    /// Returns the table of this name among `ServerConfig::tables`. Reading waits for nobody; an update
    /// of a table that waits for its disk ([`Table::updates_wait`]) belongs in
    /// [`blocking`](crate::blocking).
    pub fn table(&self, name: &str) -> Option<&Arc<dyn Table>> {
        self.inner.shared.config.tables.get(name)
    }

    /// Returns what is known about the relay's members, where that is kept.
    pub fn members(&self) -> Option<&Arc<Members>> {
        self.inner.shared.config.members.as_ref()
    }

    /// Returns which keys are kept out of the relay: a plugin that asks what somebody else has written
    /// or said wants to know.
    pub fn banned_keys(&self) -> BannedKeys {
        BannedKeys(self.inner.shared.bans.0.subscribe())
    }

    /// Returns this worker's own connections to `ServerConfig::postgres_url`, made when a plugin first
    /// asks; all plugins of the worker share them.
    #[cfg(feature = "postgres")]
    pub async fn postgres(
        &self,
    ) -> Result<crate::postgres::Postgres, crate::postgres::PostgresError> {
        use crate::postgres::{Postgres, PostgresError, PostgresOptions, by_the_worker};
        let config = &self.inner.shared.config;
        let url = config.postgres_url.as_ref();
        if (1..self.count()).contains(&config.postgres_connections) {
            return Err(PostgresError::TooFew(
                config.postgres_connections,
                self.count(),
            ));
        }
        let options = PostgresOptions {
            url: url.ok_or(PostgresError::NotConfigured)?.clone(),
            connections: self.share_of(config.postgres_connections),
            statement_timeout: config.handler_timeout,
        };
        let inner = Rc::clone(&self.inner);
        by_the_worker(async move {
            let connect = || Postgres::connect(&options);
            Ok(inner.postgres.get_or_try_init(connect).await?.clone())
        })
        .await
    }

    /// Makes a figure of the plugin's own among the server's metrics; all workers' are added up.
    /// `name` is written after `hikyaku_`: lower-case letters, digits and underscores, `_total` at
    /// the end. The same name is the same figure.
    pub fn counter(&self, name: &'static str, help: &'static str) -> Counter {
        Counter(self.inner.shared.counters.register(name, help))
    }

    /// Makes a figure of the plugin's own that rises and falls; what each worker has set last is added
    /// up. `name` is written after `hikyaku_`: lower-case letters, digits and underscores, the unit last.
    pub fn level(&self, name: &'static str, help: &'static str) -> Level {
        Level(self.inner.shared.counters.register_gauge(name, help))
    }
}

/// A figure that rises and falls.
#[derive(Debug)]
pub struct Level(Arc<AtomicU64>);

impl Level {
    /// Says how much it is now.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Relaxed);
    }
}

/// A figure that only grows.
#[derive(Debug, Clone)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds to it.
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Relaxed);
    }
}
