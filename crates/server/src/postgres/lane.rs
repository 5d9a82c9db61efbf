//! A place for one connection, which is made again when it is lost.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::sync::Mutex;
use tokio_postgres::types::ToSql;

use super::{
    PostgresError, asking::Question, connect::Target, connection::Waiting, reply::Answer,
    session::Session, statement::Prepared,
};

/// A statement's values.
pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// How long others are preferred to a place whose connection could not be made.
const AVOIDED: Duration = Duration::from_secs(5);

/// A place for one connection.
#[derive(Default)]
pub(super) struct Lane {
    session: RefCell<Option<Rc<Session>>>,
    /// Connections are made one after the other, lest many handlers make many.
    connecting: Mutex<()>,
    /// How often it was tried to connect, and what came of it when it last failed.
    attempts: Cell<u64>,
    failure: RefCell<String>,
    failed: Cell<Option<Instant>>,
    users: Cell<usize>,
}

/// A use of a lane, counted until it is dropped.
pub(super) struct InUse<'a>(&'a Lane);

impl<'a> InUse<'a> {
    pub(super) fn lane(&self) -> &'a Lane {
        self.0
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.users.update(|users| users - 1);
    }
}

impl Lane {
    /// Returns how many use it.
    pub(super) fn users(&self) -> usize {
        self.users.get()
    }

    /// Tells whether its connection could not be made just now.
    pub(super) fn is_avoided(&self) -> bool {
        self.failed.get().is_some_and(|at| at.elapsed() < AVOIDED)
    }

    /// Tells whether its connection is there.
    pub(super) fn is_open(&self) -> bool {
        self.open().is_some()
    }

    /// Counts one more user.
    pub(super) fn enter(&self) -> InUse<'_> {
        self.users.update(|users| users + 1);
        InUse(self)
    }

    /// Asks at once, if the connection is there and the statement prepared.
    pub(super) fn ask(
        &self,
        question: Question<'_>,
    ) -> Result<Option<(Waiting, Rc<Prepared>)>, PostgresError> {
        let Some(session) = self.open() else {
            return Ok(None);
        };
        let Some(statement) = session.statements.prepared(question.sql) else {
            return Ok(None);
        };
        Ok(Some((
            session.ask_beside_others(&statement, question)?,
            statement,
        )))
    }

    /// Asks, and connects and prepares before if that is to be done.
    pub(super) async fn ask_slowly(
        &self,
        target: &Target,
        question: Question<'_>,
    ) -> Result<Answer, PostgresError> {
        let session = self.session(target).await?;
        let cell = session.statements.cell(question.sql);
        let statement = session.prepared(question.sql, &cell).await?;
        let answer = session.ask(&statement, question)?.await;
        match answer {
            Answer::Failed(error) if error.is_outdated() => {
                self.ask_anew(target, question, statement).await
            }
            answer => Ok(answer),
        }
    }

    /// Asks once more, with the statement prepared anew.
    pub(super) async fn ask_anew(
        &self,
        target: &Target,
        question: Question<'_>,
        outdated: Rc<Prepared>,
    ) -> Result<Answer, PostgresError> {
        let session = self.session(target).await?;
        let cell = session.statements.another(question.sql, &outdated);
        drop(outdated);
        let statement = session.prepared(question.sql, &cell).await?;
        Ok(session.ask(&statement, question)?.await)
    }

    /// Returns the connection, a new one if the last was lost. All who wait for the same try share its
    /// failure.
    pub(super) async fn session(&self, target: &Target) -> Result<Rc<Session>, PostgresError> {
        if let Some(session) = self.open() {
            return Ok(session);
        }
        let attempts = self.attempts.get();
        let _turn = self.connecting.lock().await;
        if let Some(session) = self.open() {
            return Ok(session);
        }
        if self.attempts.get() != attempts {
            return Err(PostgresError::Unavailable(self.failure.borrow().clone()));
        }
        let made = target.connect().await;
        self.attempts.set(attempts + 1);
        self.failed.set(made.is_err().then(Instant::now));
        let session = made.map_err(|failure| {
            self.failure.borrow_mut().clone_from(&failure);
            PostgresError::Unavailable(failure)
        })?;
        let session = Rc::new(session);
        *self.session.borrow_mut() = Some(Rc::clone(&session));
        Ok(session)
    }

    fn open(&self) -> Option<Rc<Session>> {
        let session = self.session.borrow();
        session
            .as_ref()
            .filter(|session| session.is_open())
            .cloned()
    }
}
