//! One connection, with the statements that are prepared on it.

use std::{
    collections::HashMap,
    panic::Location,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use sha2::{Digest, Sha256};
use tokio::runtime::Handle;
use tokio_postgres::{Client, Row, Statement, types::ToSql};

use crate::{
    PostgresError,
    meters::{Meters, count},
    schema::SchemaName,
};

/// Distinct statements kept prepared on one connection. Shapes of filters make some dozens.
const STATEMENTS_MAX: usize = 500;

/// Parameters of a statement.
pub(crate) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The statements that are prepared on a connection, by their texts.
type Statements = Mutex<HashMap<String, Statement>>;

/// One connection.
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    schema: SchemaName,
    /// Where the connection is driven.
    runtime: Handle,
    statements: Arc<Statements>,
    in_flight: AtomicUsize,
    meters: Arc<Meters>,
}

impl Session {
    pub(super) fn new(
        client: Client,
        schema: SchemaName,
        runtime: Handle,
        meters: Arc<Meters>,
    ) -> Self {
        count(&meters.connections, 1);
        Self {
            meters,
            client: Arc::new(client),
            schema,
            runtime,
            statements: Arc::default(),
            in_flight: AtomicUsize::new(0),
        }
    }

    /// Returns the statement of this text, prepared on this connection once. `{schema}` stands for the
    /// schema.
    pub(crate) async fn prepared(&self, sql: &str) -> Result<Statement, PostgresError> {
        if let Some(statement) = locked(&self.statements).get(sql) {
            return Ok(statement.clone());
        }
        // On its own: the server keeps what it was sent even if the caller waits for it no longer, and
        // the driver would forget it.
        let (client, statements) = (Arc::clone(&self.client), Arc::clone(&self.statements));
        let (key, text) = (sql.to_owned(), self.schema.fill(sql));
        let preparing = self.runtime.spawn(async move {
            let statement = client.prepare(&text).await?;
            let mut statements = locked(&statements);
            if statements.len() >= STATEMENTS_MAX {
                statements.clear();
            }
            statements.insert(key, statement.clone());
            Ok(statement)
        });
        let closed = |_| PostgresError::Unavailable("the store is closed".to_owned());
        preparing.await.map_err(closed)?
    }

    /// Returns a statement's rows. It is told to the request that the caller works on.
    #[track_caller]
    pub(crate) fn rows<'a>(
        &'a self,
        sql: &'a str,
        parameters: Parameters<'a>,
    ) -> impl Future<Output = Result<Vec<Row>, PostgresError>> + 'a {
        // Taken here: within the future it would be this line.
        let site = Location::caller();
        async move {
            let begun = Instant::now();
            let statement = self.prepared(sql).await?;
            count(&self.meters.statements, 1);
            let rows = self.client.query(&statement, parameters).await?;
            hikyaku_observe::statement(sql, site, begun.elapsed());
            Ok(rows)
        }
    }

    /// Carries a statement out; returns how many rows it changed.
    pub(crate) async fn execute(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<u64, PostgresError> {
        let statement = self.prepared(sql).await?;
        count(&self.meters.statements, 1);
        Ok(self.client.execute(&statement, parameters).await?)
    }

    /// Counts itself as one more that uses the connection, until it is dropped.
    pub(crate) fn in_use(self: &Arc<Self>) -> InUse {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        count(&self.meters.reads_under_way, 1);
        InUse(Arc::clone(self))
    }

    /// Returns how many use the connection now.
    pub(crate) fn users(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }
}

/// A use of a connection.
pub(crate) struct InUse(Arc<Session>);

impl std::ops::Deref for InUse {
    type Target = Session;
    fn deref(&self) -> &Session {
        &self.0
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
        let under_way = &self.0.meters.reads_under_way;
        under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.meters.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

fn locked(statements: &Statements) -> MutexGuard<'_, HashMap<String, Statement>> {
    statements.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of the advisory lock that a schema has for a purpose.
pub(crate) fn lock_key(schema: &SchemaName, purpose: &str) -> i64 {
    let digest: [u8; 32] = Sha256::digest(format!("hikyaku:{}:{purpose}", schema.as_str())).into();
    digest
        .first_chunk()
        .map_or(0, |head| i64::from_be_bytes(*head))
}
