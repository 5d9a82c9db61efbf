//! A place for one connection, which is made again when it is lost.

use std::{
    cell::{Cell, RefCell},
    future::pending,
    panic::resume_unwind,
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{
    sync::Mutex,
    task::{JoinError, spawn_local},
};
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
pub(super) struct InUse<'a>(&'a Rc<Lane>);

impl<'a> InUse<'a> {
    pub(super) fn lane(&self) -> &'a Rc<Lane> {
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
    pub(super) fn enter(self: &Rc<Self>) -> InUse<'_> {
        self.users.update(|users| users + 1);
        InUse(self)
    }

    /// Asks at once, if the connection is there and the statement prepared.
    pub(super) fn ask(
        &self,
        question: Question<'_>,
    ) -> Result<Option<(Waiting, Rc<Prepared>)>, PostgresError> {
        let Some((session, statement)) = self.ready(question.sql) else {
            return Ok(None);
        };
        Ok(Some((
            session.ask_beside_others(&statement, question)?,
            statement,
        )))
    }

    /// Asks, and connects and prepares before if that is to be done.
    pub(super) async fn ask_slowly(
        self: &Rc<Self>,
        target: &Rc<Target>,
        question: Question<'_>,
    ) -> Result<Answer, PostgresError> {
        let (session, statement) = self.prepared(target, question.sql).await?;
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
        self: &Rc<Self>,
        target: &Rc<Target>,
        question: Question<'_>,
        outdated: Rc<Prepared>,
    ) -> Result<Answer, PostgresError> {
        let (session, statement) = self.prepare(target, question.sql, Some(outdated)).await?;
        Ok(session.ask(&statement, question)?.await)
    }

    /// Returns the connection and a text's statement on it, made and prepared if they are not there.
    pub(super) async fn prepared(
        self: &Rc<Self>,
        target: &Rc<Target>,
        sql: &str,
    ) -> Result<(Rc<Session>, Rc<Prepared>), PostgresError> {
        match self.ready(sql) {
            Some(ready) => Ok(ready),
            None => self.prepare(target, sql, None).await,
        }
    }

    /// Connects and prepares. The worker does, and not who asks for it: others wait for the same, also
    /// while nobody goes on with who was the first.
    async fn prepare(
        self: &Rc<Self>,
        target: &Rc<Target>,
        sql: &str,
        outdated: Option<Rc<Prepared>>,
    ) -> Result<(Rc<Session>, Rc<Prepared>), PostgresError> {
        let (lane, target, sql) = (Rc::clone(self), Rc::clone(target), sql.to_owned());
        by_the_worker(async move {
            let session = lane.session(&target).await?;
            let cell = match outdated {
                Some(outdated) => session.statements.another(&sql, &outdated),
                None => session.statements.cell(&sql),
            };
            let statement = session.prepared(&sql, &cell).await?;
            Ok((session, statement))
        })
        .await
    }

    fn ready(&self, sql: &str) -> Option<(Rc<Session>, Rc<Prepared>)> {
        let session = self.open()?;
        let statement = session.statements.prepared(sql)?;
        Some((session, statement))
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

/// Has the worker carry something out; it goes on whether or not who waits for it here is polled.
pub(crate) async fn by_the_worker<T: 'static>(work: impl Future<Output = T> + 'static) -> T {
    match spawn_local(work).await.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => resume_unwind(panic),
        // The worker ends.
        Err(Err(_)) => pending().await,
    }
}
