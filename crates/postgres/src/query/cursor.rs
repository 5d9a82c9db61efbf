//! A query under way: the merged matches, and their events in bunches.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::future::try_join_all;
use hikyaku_event::Kind;
use hikyaku_store::{
    Allowance, Budget, Completeness, LocalFuture, Query, QueryCursor, QueryStep, Sequence,
    StoreError, StoredEvent,
};
use tokio::try_join;

use super::{
    condition::Asked,
    driver::STREAMS_SHARED,
    indexed::AskedNames,
    merge::Merge,
    place::{Direction, Hit, Place, Span},
    search::Search,
};
use crate::{
    PostgresError,
    columns::{self, Word},
    connection::{Lanes, Session, Sessions},
};

/// Events that are fetched at once.
const BUNCH: usize = 512;
/// Events that are worth a connection of their own to fetch them.
const EVENTS_SHARED: usize = 32;
/// All of the order.
pub(super) const EVERYTHING: Span = Span {
    newest: Place::NEWEST,
    oldest: Place::OLDEST,
};

type Ready = Rc<RefCell<VecDeque<StoredEvent>>>;

/// A query under way.
pub(crate) struct PostgresCursor {
    snapshot: Sequence,
    /// Answers that are not handed out. While there are any, no more are fetched: an answer that nobody
    /// reads costs nothing.
    ready: Ready,
    work: Option<LocalFuture<'static, Result<Completeness, PostgresError>>>,
    begun: bool,
    /// What the work has come to.
    end: Option<Result<Completeness, PostgresError>>,
}

impl PostgresCursor {
    pub(crate) fn new(lanes: Rc<Lanes>, query: Query, snapshot: Sequence) -> Self {
        let ready = Ready::default();
        let work = answer(lanes, query, snapshot, Rc::clone(&ready));
        Self {
            snapshot,
            ready,
            work: Some(Box::pin(work)),
            begun: false,
            end: None,
        }
    }
}

impl QueryCursor for PostgresCursor {
    fn snapshot(&self) -> Sequence {
        self.snapshot
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        budget: &mut Budget,
    ) -> Poll<Result<QueryStep, StoreError>> {
        if budget.is_spent() {
            return Poll::Ready(Ok(QueryStep::Yield));
        }
        self.begun = true;
        self.go_on(cx);
        budget.spend(1);
        if let Some(event) = self.ready.borrow_mut().pop_front() {
            return Poll::Ready(Ok(QueryStep::Event(event)));
        }
        match self.end.take() {
            Some(end) => Poll::Ready(Ok(QueryStep::End(end?))),
            None => Poll::Pending,
        }
    }

    /// Until there is something to hand out: the work holds no connection then.
    fn go_on(&mut self, cx: &mut Context<'_>) {
        if self.begun
            && self.ready.borrow().is_empty()
            && let Some(work) = &mut self.work
            && let Poll::Ready(end) = work.as_mut().poll(cx)
        {
            self.work = None;
            self.end = Some(end);
        }
    }
}

/// Makes the searches of a query, each with its allowance.
pub(super) fn searches(
    query: &Query,
    snapshot: Sequence,
    allowance: impl Fn(Option<u64>) -> Allowance,
) -> Vec<(Search, Allowance)> {
    let search = |filter| {
        let snapshot = i64::try_from(snapshot.0).unwrap_or(i64::MAX);
        let asked = Asked::new(filter, &query.reader, snapshot, query.now);
        Search::new(asked, filter, EVERYTHING, Direction::Forward)
    };
    query
        .filters
        .iter()
        .map(|filter| (search(filter), allowance(filter.limit)))
        .collect()
}

async fn answer(
    lanes: Rc<Lanes>,
    query: Query,
    snapshot: Sequence,
    ready: Ready,
) -> Result<Completeness, PostgresError> {
    let searches = searches(&query, snapshot, |limit| query.limits.allowance(limit));
    let mut merge = Merge::new(searches, Direction::Forward);
    let names = AskedNames::of(&query.filters);
    let much = streams(&query) >= 2 * STREAMS_SHARED;
    let mut indexed = None;
    let end = |merge: &Merge, indexed| match merge.completeness() {
        // What is not indexed yet may match too.
        Completeness::Finish if indexed == Some(false) => Completeness::Unknown,
        completeness => completeness,
    };
    loop {
        // Between two bunches the connection is anybody's: the client may take its time.
        let session = lanes.session().await?;
        let mut second = if much { lanes.another().await } else { None };
        let sessions = Sessions::new(&session, second.as_deref());
        let mut bunch = Vec::new();
        if indexed.is_none() && names.may_be_refused() {
            // Before anything else is sent: the answer to that would find nobody.
            indexed = Some(names.are_indexed(sessions).await?);
        } else if indexed.is_none() {
            // Sent together with the first look into the index, and before it: a name that is indexed
            // wholly stays so.
            AskedNames::prepare(sessions).await?;
            let (whole, first) =
                try_join!(biased; names.are_indexed(sessions), merge.next(sessions))?;
            indexed = Some(whole);
            bunch.extend(first);
        }
        while bunch.len() < BUNCH
            && let Some(hit) = merge.next(sessions).await?
        {
            bunch.push(hit);
        }
        if bunch.is_empty() {
            return Ok(end(&merge, indexed));
        }
        let ended = bunch.len() < BUNCH;
        if second.is_none() && bunch.len() >= 2 * EVENTS_SHARED {
            second = lanes.another().await;
        }
        let events = fetch(Sessions::new(&session, second.as_deref()), &bunch).await?;
        drop((session, second));
        ready.borrow_mut().extend(events);
        if ended {
            return Ok(end(&merge, indexed));
        }
        // Who takes the last of them polls this again.
        poll_fn(|_| {
            if ready.borrow().is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

/// Returns about how many ways down a tree the answer takes.
fn streams(query: &Query) -> usize {
    let streams = query.filters.iter().map(|filter| {
        let values = filter.tags.iter().map(|tag| tag.values.len());
        let ids = filter.ids.iter().map(Vec::len);
        let authors = filter.authors.iter().map(Vec::len);
        values.chain(ids).chain(authors).max().unwrap_or(1)
    });
    streams.sum()
}

/// Fetches events in the order of the hits. Those that were removed meanwhile are left out.
async fn fetch(sessions: Sessions<'_>, hits: &[Hit]) -> Result<Vec<StoredEvent>, PostgresError> {
    let shares = sessions.share(hits, EVENTS_SHARED);
    let events = try_join_all(shares.map(|(session, hits)| fetch_some(session, hits))).await?;
    Ok(events.concat())
}

async fn fetch_some(session: &Session, hits: &[Hit]) -> Result<Vec<StoredEvent>, PostgresError> {
    let numbers: Vec<i64> = hits.iter().map(|hit| hit.seq).collect();
    let sql = "SELECT seq, id, age, kind, json FROM {schema}.events WHERE seq = ANY($1)";
    let rows = session.rows(sql, &[&numbers]).await?;
    let mut events: HashMap<i64, StoredEvent> = HashMap::with_capacity(rows.len());
    for row in rows {
        let seq: i64 = row.get(0);
        let event = StoredEvent {
            sequence: Sequence(seq.unsigned_abs()),
            id: row.get::<_, Word>(1).into(),
            created_at: columns::created_at(row.get(2)),
            kind: Kind(u16::try_from(row.get::<_, i32>(3)).unwrap_or_default()),
            json: Bytes::copy_from_slice(row.get(4)),
        };
        events.insert(seq, event);
    }
    Ok(numbers
        .iter()
        .filter_map(|seq| events.remove(seq))
        .collect())
}
