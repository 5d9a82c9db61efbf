//! Queries and counts that begin on a replica, and go on where it was left if it fails.

use std::{
    rc::Rc,
    task::{Context, Poll, ready},
};

use hikyaku_store::{
    Budget, CountCursor, CountStep, Key, LocalFuture, Query, QueryCursor, QueryStep, Sequence,
    StoreError,
};

use super::Replica;
use crate::{
    connection::Lanes,
    query::{PostgresCount, PostgresCursor},
};

/// The two servers that a read can go to.
#[derive(Clone)]
pub(crate) struct Servers {
    pub(crate) primary: Rc<Lanes>,
    pub(crate) replica: Option<(Replica, Rc<Lanes>)>,
}

impl Servers {
    /// Chooses the replica if it has everything up to a place in the log.
    fn choose(&self, place: u64) -> LocalFuture<'static, Choice> {
        let servers = self.clone();
        Box::pin(async move {
            match servers.replica {
                Some((replica, lanes)) if replica.has(place).await => Choice {
                    lanes,
                    is_replica: true,
                },
                _ => Choice {
                    lanes: servers.primary,
                    is_replica: false,
                },
            }
        })
    }
}

struct Choice {
    lanes: Rc<Lanes>,
    is_replica: bool,
}

/// A read of either kind: chosen, then under way.
enum Read<C> {
    Choosing(LocalFuture<'static, Choice>),
    Reading { cursor: C, is_replica: bool },
}

impl<C> Read<C> {
    /// Goes on with a read, begins it where it is to begin, or again where the replica fails; what comes
    /// is said with whether it comes from the replica.
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        primary: &Rc<Lanes>,
        begin: impl Fn(Rc<Lanes>) -> C,
        mut poll: impl FnMut(&mut C, &mut Context<'_>) -> Poll<Result<T, StoreError>>,
    ) -> Poll<Result<(T, bool), StoreError>> {
        loop {
            match self {
                Self::Choosing(choice) => {
                    let choice = ready!(choice.as_mut().poll(cx));
                    *self = Self::Reading {
                        cursor: begin(choice.lanes),
                        is_replica: choice.is_replica,
                    };
                }
                Self::Reading { cursor, is_replica } => match ready!(poll(cursor, cx)) {
                    Err(error) if *is_replica => {
                        tracing::debug!(%error, "a read begins again without the replica");
                        *cursor = begin(Rc::clone(primary));
                        *is_replica = false;
                    }
                    result => return Poll::Ready(result.map(|step| (step, *is_replica))),
                },
            }
        }
    }
}

/// A query.
pub(crate) struct Cursor {
    servers: Servers,
    query: Query,
    snapshot: Sequence,
    read: Read<PostgresCursor>,
    /// The last event that the replica has handed out.
    last: Option<Key>,
}

impl Cursor {
    /// Begins a query on a snapshot, which is whole from a place in the log on.
    pub(crate) fn new(servers: Servers, query: Query, snapshot: Sequence, place: u64) -> Self {
        Self {
            read: Read::Choosing(servers.choose(place)),
            servers,
            query,
            snapshot,
            last: None,
        }
    }
}

impl QueryCursor for Cursor {
    fn snapshot(&self) -> Sequence {
        self.snapshot
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        budget: &mut Budget,
    ) -> Poll<Result<QueryStep, StoreError>> {
        loop {
            let (query, snapshot) = (&self.query, self.snapshot);
            let begin = |lanes| PostgresCursor::new(lanes, query.clone(), snapshot);
            let polled = self
                .read
                .poll(cx, &self.servers.primary, begin, |cursor, cx| {
                    cursor.poll_next(cx, budget)
                });
            let (step, is_replica) = ready!(polled)?;
            let QueryStep::Event(event) = step else {
                return Poll::Ready(Ok(step));
            };
            let key = Key {
                created_at: event.created_at,
                id: event.id,
            };
            if is_replica {
                self.last = Some(key);
            } else if self.last.is_some_and(|last| key <= last) {
                // The same snapshot in the same order: what was handed out already is passed over.
                continue;
            }
            return Poll::Ready(Ok(QueryStep::Event(event)));
        }
    }

    fn go_on(&mut self, cx: &mut Context<'_>) {
        if let Read::Reading { cursor, .. } = &mut self.read {
            cursor.go_on(cx);
        }
    }
}

/// A count.
pub(crate) struct Count {
    servers: Servers,
    query: Query,
    snapshot: Sequence,
    read: Read<PostgresCount>,
}

impl Count {
    pub(crate) fn new(servers: Servers, query: Query, snapshot: Sequence, place: u64) -> Self {
        Self {
            read: Read::Choosing(servers.choose(place)),
            servers,
            query,
            snapshot,
        }
    }
}

impl CountCursor for Count {
    fn poll_count(
        &mut self,
        cx: &mut Context<'_>,
        budget: &mut Budget,
    ) -> Poll<Result<CountStep, StoreError>> {
        let (query, snapshot) = (&self.query, self.snapshot);
        let begin = |lanes| PostgresCount::new(lanes, query.clone(), snapshot);
        let polled = self
            .read
            .poll(cx, &self.servers.primary, begin, |count, cx| {
                count.poll_count(cx, budget)
            });
        polled.map_ok(|(step, _)| step)
    }

    fn go_on(&mut self, cx: &mut Context<'_>) {
        if let Read::Reading { cursor, .. } = &mut self.read {
            cursor.go_on(cx);
        }
    }
}
