//! The store that this process has open: the engine's, or the database's.

use std::sync::Arc;

use hikyaku_engine::Engine;
use hikyaku_postgres::PostgresStore;
use hikyaku_store::{EventStore, StoreError};

use crate::{failure::Failure, waiting::wait};

/// An open store.
#[derive(Debug, Clone)]
pub(crate) enum Opened {
    /// In the data folder.
    Engine(Arc<Engine>),
    /// In a database.
    Postgres(Arc<PostgresStore>),
}

impl Opened {
    /// Returns what every store can do.
    pub(crate) fn events(&self) -> Arc<dyn EventStore> {
        match self {
            Self::Engine(engine) => engine.clone(),
            Self::Postgres(store) => store.clone(),
        }
    }

    /// Returns the engine, for a command that has no meaning elsewhere.
    pub(crate) fn engine(&self, command: &str) -> Result<&Engine, Failure> {
        match self {
            Self::Engine(engine) => Ok(engine),
            Self::Postgres(_) => Err(only_for_the_engine(command)),
        }
    }

    /// Does what an import has put off for its end.
    pub(crate) fn finish_import(&self) -> Result<(), StoreError> {
        match self {
            Self::Engine(_) => Ok(()),
            Self::Postgres(store) => wait(store.make_indexes()),
        }
    }

    /// Closes the store, so that the next start finds it in order.
    pub(crate) fn close(self) {
        let closed = match self {
            Self::Engine(engine) => Arc::into_inner(engine).map(Engine::close),
            Self::Postgres(store) => Arc::into_inner(store).map(drop),
        };
        if closed.is_none() {
            // Nothing is lost: the next start reads the end of the log again.
            tracing::warn!("a command was still under way: the store is left as it is");
        }
    }
}

/// Says that a command is about files that a database does not have.
pub(crate) fn only_for_the_engine(command: &str) -> Failure {
    Failure::Usage(format!(
        "`{command}` is for the store in the data folder; this one is in PostgreSQL, which has its own \
         tools for it (amcheck, VACUUM, REINDEX, pg_dump)"
    ))
}
