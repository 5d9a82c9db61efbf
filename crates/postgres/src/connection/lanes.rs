//! The connections of one reader. They are its own while it lives; afterwards the next one takes them.

use std::{
    cell::{Cell, RefCell},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use super::{Connector, Session, session::InUse};
use crate::PostgresError;

/// Connections that no reader has.
pub(crate) type IdleSessions = Arc<Mutex<Vec<Arc<Session>>>>;

/// The connections of one reader: statements of one go one after the other, so each query takes the
/// one that has the least to do.
pub(crate) struct Lanes {
    connector: Connector,
    idle: IdleSessions,
    max: usize,
    open: RefCell<Vec<Arc<Session>>>,
    /// Connections are made one after the other, so that there are never more than may be.
    making: tokio::sync::Mutex<()>,
    /// The server had no connection to spare for a share of a request; until one is made for a whole one.
    refused: Cell<bool>,
}

impl Lanes {
    pub(crate) fn new(connector: Connector, idle: IdleSessions, max: usize) -> Self {
        Self {
            connector,
            idle,
            max: max.max(1),
            open: RefCell::default(),
            making: tokio::sync::Mutex::default(),
            refused: Cell::new(false),
        }
    }

    /// Returns the connection that has the least to do, or a new one while there may be more. What is
    /// waited for it is told to the request that the caller works on.
    pub(crate) async fn session(&self) -> Result<InUse, PostgresError> {
        if let Some(session) = self.free() {
            return Ok(session);
        }
        let begun = Instant::now();
        let session = self.open_or_share().await;
        hikyaku_observe::waited(begun.elapsed());
        session
    }

    async fn open_or_share(&self) -> Result<InUse, PostgresError> {
        let _turn = self.making.lock().await;
        if let Some(session) = self.free() {
            return Ok(session);
        }
        self.open_one().await
    }

    async fn open_one(&self) -> Result<InUse, PostgresError> {
        let session = match self.take_idle() {
            Some(session) => session,
            None => self.connector.connect().await?,
        };
        self.refused.set(false);
        let in_use = session.in_use();
        self.open.borrow_mut().push(session);
        Ok(in_use)
    }

    /// Returns one more connection for a share of a request's work, if one has nothing to do or may be
    /// made at once.
    pub(crate) async fn another(&self) -> Option<InUse> {
        let unused = |open: &[Arc<Session>]| {
            let mut unused = open.iter().filter(|session| !session.client.is_closed());
            let unused = unused.find(|session| session.users() == 0)?;
            Some(unused.in_use())
        };
        if let Some(session) = unused(&self.open.borrow()) {
            return Some(session);
        }
        let _turn = self.making.try_lock().ok()?;
        if self.refused.get() || self.open.borrow().len() >= self.max {
            return None;
        }
        let made = self.open_one().await;
        self.refused.set(made.is_err());
        made.ok()
    }

    /// Returns an open connection, unless a new one would be better and is allowed.
    fn free(&self) -> Option<InUse> {
        let mut open = self.open.borrow_mut();
        open.retain(|session| !session.client.is_closed());
        let least = open.iter().min_by_key(|session| session.users())?;
        (least.users() == 0 || open.len() >= self.max).then(|| least.in_use())
    }

    fn take_idle(&self) -> Option<Arc<Session>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|session| !session.client.is_closed());
        idle.pop()
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.append(self.open.get_mut());
    }
}
