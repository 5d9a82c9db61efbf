//! One connection's stored queries and counts under way.
//!
//! They take turns, each turn of the connection spends one budget, and none goes on while the
//! client has enough to read: an answer that nobody reads costs nothing.

use std::{
    collections::VecDeque,
    task::{Context, Poll},
    time::Instant,
};

use hikyaku_observe::Statements;
use hikyaku_relay::{Action, Session, SubscriptionKey};
use hikyaku_store::{Budget, CountCursor, CountStep, QueryCursor, QueryStep, StoreError};

use super::outbox::Outbox;
use crate::{
    clock::unix_now,
    metrics::{Count, Latency, WorkerMetrics},
    requests::{Asked, Requests},
};

/// Events examined in one turn of a connection: some hundred microseconds of work.
const BUDGET: u32 = 1_024;
/// Bytes waiting for the client with which its queries wait too.
const QUEUED_BYTES_MAX: usize = 128 * 1024;

enum Cursor {
    Query(Box<dyn QueryCursor>),
    Count(Box<dyn CountCursor>),
}

impl Cursor {
    fn go_on(&mut self, cx: &mut Context<'_>) {
        match self {
            Self::Query(cursor) => cursor.go_on(cx),
            Self::Count(cursor) => cursor.go_on(cx),
        }
    }
}

struct Running {
    key: SubscriptionKey,
    started: Instant,
    cursor: Cursor,
    asked: Asked,
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
    pub(super) fn query(
        &mut self,
        key: SubscriptionKey,
        cursor: Box<dyn QueryCursor>,
        asked: Asked,
    ) {
        self.push(key, Cursor::Query(cursor), asked);
    }

    pub(super) fn count(
        &mut self,
        key: SubscriptionKey,
        cursor: Box<dyn CountCursor>,
        asked: Asked,
    ) {
        self.push(key, Cursor::Count(cursor), asked);
    }

    fn push(&mut self, key: SubscriptionKey, cursor: Cursor, asked: Asked) {
        self.queue.push_back(Running {
            key,
            started: Instant::now(),
            cursor,
            asked,
        });
    }

    /// Drops a query or count, if it is still under way.
    pub(super) fn cancel(
        &mut self,
        key: SubscriptionKey,
        metrics: &WorkerMetrics,
        requests: &Requests,
    ) {
        if let Some(index) = self.queue.iter().position(|running| running.key == key)
            && let Some(running) = self.queue.remove(index)
        {
            running.cancelled(metrics, requests);
        }
    }

    pub(super) fn cancel_all(&mut self, metrics: &WorkerMetrics, requests: &Requests) {
        for running in std::mem::take(&mut self.queue) {
            running.cancelled(metrics, requests);
        }
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
        (metrics, requests): (&WorkerMetrics, &Requests),
        actions: &mut Vec<Action>,
    ) -> Stopped {
        let mut waiting = 0;
        let mut now = Instant::now();
        while actions.is_empty() && waiting < self.queue.len() {
            if budget.is_spent() {
                self.queue.rotate_left(1);
                return Stopped::Spent;
            }
            let Some(running) = self.queue.front_mut() else {
                break;
            };
            if !Self::has_room(outbox) {
                running.asked.hold_up(now);
                // What they hold meanwhile, others wait for.
                for running in &mut self.queue {
                    running.recorded(&mut |running| running.cursor.go_on(cx));
                }
                return Stopped::NoRoom;
            }
            running.asked.go_on(now);
            let (left, bytes) = (budget.left(), outbox.bytes());
            let mut work = |running: &mut Running| {
                running.go_on(cx, budget, session, outbox, metrics, actions)
            };
            let step = running.recorded(&mut work);
            let examined = left - budget.left();
            metrics.add(Count::RowsExamined, u64::from(examined));
            let begun = std::mem::replace(&mut now, Instant::now());
            let bytes = outbox.bytes() - bytes;
            running.asked.worked(now - begun, examined, bytes);
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
                    if let Some(running) = self.queue.pop_front() {
                        running.over(outcome, now, metrics, requests);
                    }
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
    /// Works on it within its record of statements.
    fn recorded<T>(&mut self, work: &mut dyn FnMut(&mut Self) -> T) -> T {
        let mut record = self.asked.take_record();
        let done = Statements::within(&mut record, || work(self));
        self.asked.put_record(record);
        done
    }

    /// Sends answers until something else is to be done.
    fn go_on(
        &mut self,
        cx: &mut Context<'_>,
        budget: &mut Budget,
        session: &mut Session,
        outbox: &mut Outbox,
        metrics: &WorkerMetrics,
        actions: &mut Vec<Action>,
    ) -> Step {
        let mut answers = 0;
        let step = loop {
            match self.poll(cx, budget, session, outbox, actions) {
                Step::Answered => answers += 1,
                step => break step,
            }
            if budget.is_spent() || !Answering::has_room(outbox) || !actions.is_empty() {
                break Step::Answered;
            }
        };
        metrics.add(Count::RowsReturned, answers);
        self.asked.returned(answers);
        step
    }

    fn cancelled(self, metrics: &WorkerMetrics, requests: &Requests) {
        metrics.add(Count::QueriesCancelled, 1);
        let total = self.started.elapsed();
        requests.ended(&self.asked, total, Count::QueriesCancelled);
    }

    fn over(self, outcome: Count, now: Instant, metrics: &WorkerMetrics, requests: &Requests) {
        let total = now.saturating_duration_since(self.started);
        metrics.add(outcome, 1);
        metrics.record(Latency::Query, total);
        requests.ended(&self.asked, total, outcome);
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        budget: &mut Budget,
        session: &mut Session,
        outbox: &mut Outbox,
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
                Poll::Ready(Ok(CountStep::AtLeast(count))) => {
                    session.counted_at_least(key, count, actions);
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
    session.query_failed(key, error, actions);
    Step::Over(if let StoreError::Unsupported(_) = error {
        // Nothing is wrong here.
        tracing::debug!(%error, "query refused");
        Count::QueriesRefused
    } else {
        tracing::error!(%error, "query failed");
        Count::QueriesFailed
    })
}

/// Returns the budget of one turn.
pub(super) fn budget_of_a_turn() -> Budget {
    Budget::new(BUDGET)
}
