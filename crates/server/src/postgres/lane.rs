//! One connection: made again when it is lost, each statement prepared on it once.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use hashbrown::HashMap;
use tokio::sync::{Mutex, OnceCell};
use tokio_postgres::{Client, Config, Row, Statement, error::SqlState, types::ToSql};

use super::{
    PostgresError,
    connect::{connect, with_causes},
};

/// Statements kept prepared. A handler has a few; more than this are made of values.
const STATEMENTS_MAX: usize = 500;

/// A statement's values.
pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A place for one connection.
#[derive(Default)]
pub(super) struct Lane {
    connected: RefCell<Option<Rc<Connected>>>,
    /// Connections are made one after the other, lest many handlers make many.
    connecting: Mutex<()>,
    /// How often it was tried to connect, and what came of it when it last failed.
    attempts: Cell<u64>,
    failure: RefCell<String>,
    users: Rc<Cell<usize>>,
}

/// A use of a lane, counted until it is dropped.
pub(super) struct InUse<'a>(&'a Lane);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.users.update(|users| users - 1);
    }
}

/// A connection, while it lasts.
pub(super) struct Connected {
    pub(super) client: Client,
    statements: RefCell<HashMap<Box<str>, Preparing, foldhash::fast::RandomState>>,
}

/// A cell for each text, so that those who come while it is prepared wait for the same.
type Preparing = Rc<OnceCell<Statement>>;

impl Lane {
    /// Returns how many use it.
    pub(super) fn users(&self) -> usize {
        self.users.get()
    }

    /// Counts one more user.
    pub(super) fn enter(&self) -> InUse<'_> {
        self.users.update(|users| users + 1);
        InUse(self)
    }

    /// Returns the connection, a new one if the last was lost. All who wait for the same try share
    /// its failure.
    pub(super) async fn connected(&self, config: &Config) -> Result<Rc<Connected>, PostgresError> {
        if let Some(connected) = self.open() {
            return Ok(connected);
        }
        let attempts = self.attempts.get();
        let _turn = self.connecting.lock().await;
        if let Some(connected) = self.open() {
            return Ok(connected);
        }
        if self.attempts.get() != attempts {
            return Err(PostgresError::Unavailable(self.failure.borrow().clone()));
        }
        let made = connect(config, Rc::clone(&self.users)).await;
        self.attempts.set(attempts + 1);
        let (client, connection) = made.map_err(|failure| {
            self.failure.borrow_mut().clone_from(&failure);
            PostgresError::Unavailable(failure)
        })?;
        tokio::task::spawn_local(async move {
            if let Err(error) = connection.await {
                let error = with_causes(&error);
                tracing::warn!(error, "a plugin's connection to the database has ended");
            }
        });
        let connected = Rc::new(Connected {
            client,
            statements: RefCell::default(),
        });
        *self.connected.borrow_mut() = Some(Rc::clone(&connected));
        Ok(connected)
    }

    fn open(&self) -> Option<Rc<Connected>> {
        let connected = self.connected.borrow();
        connected
            .as_ref()
            .filter(|connected| !connected.client.is_closed())
            .cloned()
    }
}

impl Connected {
    /// Returns a statement's rows.
    pub(super) async fn rows(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, PostgresError> {
        let cell = self.cell(sql);
        let statement = self.prepared(sql, &cell).await?;
        match self.client.query(statement, parameters).await {
            Err(error) if is_outdated(&error) => {
                let cell = self.another(sql, &cell);
                let statement = self.prepared(sql, &cell).await?;
                Ok(self.client.query(statement, parameters).await?)
            }
            answer => Ok(answer?),
        }
    }

    /// Carries a statement out; returns how many rows it changed.
    pub(super) async fn execute(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<u64, PostgresError> {
        let cell = self.cell(sql);
        let statement = self.prepared(sql, &cell).await?;
        match self.client.execute(statement, parameters).await {
            Err(error) if is_outdated(&error) => {
                let cell = self.another(sql, &cell);
                let statement = self.prepared(sql, &cell).await?;
                Ok(self.client.execute(statement, parameters).await?)
            }
            answer => Ok(answer?),
        }
    }

    /// Returns the statement of a text.
    pub(super) async fn statement(&self, sql: &str) -> Result<Statement, PostgresError> {
        Ok(self.prepared(sql, &self.cell(sql)).await?.clone())
    }

    async fn prepared<'a>(
        &self,
        sql: &str,
        cell: &'a OnceCell<Statement>,
    ) -> Result<&'a Statement, PostgresError> {
        Ok(cell.get_or_try_init(|| self.client.prepare(sql)).await?)
    }

    fn cell(&self, sql: &str) -> Preparing {
        let mut statements = self.statements.borrow_mut();
        if let Some(cell) = statements.get(sql) {
            return Rc::clone(cell);
        }
        if statements.len() >= STATEMENTS_MAX {
            statements.clear();
        }
        let cell = Preparing::default();
        statements.insert(sql.into(), Rc::clone(&cell));
        cell
    }

    /// Forgets a prepared statement, unless somebody else has done so already.
    fn another(&self, sql: &str, outdated: &Preparing) -> Preparing {
        let mut statements = self.statements.borrow_mut();
        if statements
            .get(sql)
            .is_some_and(|cell| Rc::ptr_eq(cell, outdated))
        {
            statements.remove(sql);
        }
        drop(statements);
        self.cell(sql)
    }
}

/// Tells whether a statement must be prepared anew: its table has other columns now, or somebody has
/// made the connection forget it. It was not carried out.
fn is_outdated(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::FEATURE_NOT_SUPPORTED || *code == SqlState::INVALID_SQL_STATEMENT_NAME
    })
}
