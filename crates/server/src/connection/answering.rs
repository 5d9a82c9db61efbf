//! One connection's stored queries and counts under way.
//!
//! They take turns, each turn of the connection spends one budget, and none goes on while the
//! client has enough to read: an answer that nobody reads costs nothing.

use std::{
    collections::VecDeque,
    task::{Context, Poll},
    time::Instant,
};

use hikyaku_relay::{Action, Session, SubscriptionKey};
use hikyaku_store::{Budget, CountCursor, CountStep, QueryCursor, QueryStep, StoreError};

use super::outbox::Outbox;
use crate::{
    clock::unix_now,
    metrics::{Count, Latency, WorkerMetrics},
};

/// Events examined in one turn of a connection: some hundred microseconds of work.
const BUDGET: u32 = 1_024;
/// Bytes waiting for the client with which its queries wait too.
const QUEUED_BYTES_MAX: usize = 128 * 1024;

enum Cursor {
    Query(Box<dyn QueryCursor>),
    Count(Box<dyn CountCursor>),
}

struct Running {
    key: SubscriptionKey,
    started: Instant,
    cursor: Cursor,
}

/// The queries and counts under way.
#[derive(Default)]
pub(super) struct Answering {
    /// The next one to take its turn is the first.
    queue: VecDeque<Running>,
}

/// Why the queries stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// None is left, or those that are wait for the store and will wake the connection.
    Idle,
    /// The budget is spent: they can go on in the next turn.
    Spent,
    /// The client has enough to read.
    NoRoom,
}

impl Answering {
    pub(super) fn query(&mut self, key: SubscriptionKey, cursor: Box<dyn QueryCursor>) {
        self.push(key, Cursor::Query(cursor));
    }

    pub(super) fn count(&mut self, key: SubscriptionKey, cursor: Box<dyn CountCursor>) {
        self.push(key, Cursor::Count(cursor));
    }

    fn push(&mut self, key: SubscriptionKey, cursor: Cursor) {
        self.queue.push_back(Running {
            key,
            started: Instant::now(),
            cursor,
        });
    }

    /// Drops a query or count, if it is still under way.
    pub(super) fn cancel(&mut self, key: SubscriptionKey, metrics: &WorkerMetrics) {
        let before = self.queue.len();
        self.queue.retain(|running| running.key != key);
        metrics.add(Count::QueriesCancelled, (before - self.queue.len()) as u64);
    }

    pub(super) fn cancel_all(&mut self, metrics: &WorkerMetrics) {
        metrics.add(Count::QueriesCancelled, self.queue.len() as u64);
        self.queue = VecDeque::new();
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Tells whether the client reads fast enough for more.
    pub(super) fn has_room(outbox: &Outbox) -> bool {
        outbox.bytes() < QUEUED_BYTES_MAX
    }

    /// Works on the queries in turn. What a session wants done beside the answers goes to
    /// `actions`; to keep its messages in order the caller carries them out after each return, and
    /// this returns as soon as there are any.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        budget: &mut Budget,
        session: &mut Session,
        outbox: &mut Outbox,
        metrics: &WorkerMetrics,
        actions: &mut Vec<Action>,
    ) -> Stopped {
        let mut waiting = 0;
        while actions.is_empty() && waiting < self.queue.len() {
            if budget.is_spent() {
                self.queue.rotate_left(1);
                return Stopped::Spent;
            }
            if !Self::has_room(outbox) {
                return Stopped::NoRoom;
            }
            let Some(running) = self.queue.front_mut() else {
                break;
            };
            let before = budget.left();
            let step = running.poll(cx, budget, session, outbox, metrics, actions);
            metrics.add(Count::RowsExamined, u64::from(before - budget.left()));
            match step {
                Step::Answered => waiting = 0,
                Step::Yielded => {
                    // Progress was made, so this can't go on for ever on one budget; but a store
                    // that yields early has its reasons.
                    self.queue.rotate_left(1);
                    return Stopped::Spent;
                }
                Step::Waiting => {
                    waiting += 1;
                    self.queue.rotate_left(1);
                }
                Step::Over(outcome) => {
                    metrics.add(outcome, 1);
                    metrics.record(Latency::Query, running.started.elapsed());
                    self.queue.pop_front();
                }
            }
        }
        if self.queue.is_empty() && self.queue.capacity() > 4 {
            self.queue = VecDeque::new();
        }
        Stopped::Idle
    }
}

/// What one poll of a cursor came to.
enum Step {
    Answered,
    Yielded,
    Waiting,
    Over(Count),
}

impl Running {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        budget: &mut Budget,
        session: &mut Session,
        outbox: &mut Outbox,
        metrics: &WorkerMetrics,
        actions: &mut Vec<Action>,
    ) -> Step {
        let key = self.key;
        match &mut self.cursor {
            Cursor::Query(cursor) => match cursor.poll_next(cx, budget) {
                Poll::Pending => Step::Waiting,
                Poll::Ready(Err(error)) => failed(key, &error, session, actions),
                Poll::Ready(Ok(QueryStep::Yield)) => Step::Yielded,
                Poll::Ready(Ok(QueryStep::Event(event))) => {
                    let Some(message) = session.stored(key, &event) else {
                        return Step::Over(Count::QueriesCancelled);
                    };
                    metrics.add(Count::RowsReturned, 1);
                    outbox.message(message);
                    Step::Answered
                }
                Poll::Ready(Ok(QueryStep::End(completeness))) => {
                    session.query_ended(key, completeness, unix_now(), actions);
                    Step::Over(Count::QueriesEnded)
                }
            },
            Cursor::Count(cursor) => match cursor.poll_count(cx, budget) {
                Poll::Pending => Step::Waiting,
                Poll::Ready(Err(error)) => failed(key, &error, session, actions),
                Poll::Ready(Ok(CountStep::Yield)) => Step::Yielded,
                Poll::Ready(Ok(CountStep::Done(count))) => {
                    session.counted(key, count, actions);
                    Step::Over(Count::QueriesEnded)
                }
            },
        }
    }
}

fn failed(
    key: SubscriptionKey,
    error: &StoreError,
    session: &mut Session,
    actions: &mut Vec<Action>,
) -> Step {
    tracing::error!(%error, "query failed");
    session.query_failed(key, error, actions);
    Step::Over(Count::QueriesFailed)
}

/// Returns the budget of one turn.
pub(super) fn budget_of_a_turn() -> Budget {
    Budget::new(BUDGET)
}
