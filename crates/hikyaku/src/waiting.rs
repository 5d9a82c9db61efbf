//! Waiting for a store's answer on a thread that has nothing else to do.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{SystemTime, UNIX_EPOCH},
};

use hikyaku_event::Timestamp;
use hikyaku_store::{Budget, CountCursor, CountStep, QueryCursor, QueryStep, StoreError};

/// How much a cursor may do before it is asked again: nobody else waits for this thread.
const STEP: u32 = 100_000;

/// Why an answer of a store in PostgreSQL may not be whole.
pub(crate) const NOT_INDEXED: &str = "not all events are indexed by these tags (`hikyaku postgres \
    backfill status` says which names are, and how far it is)";

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Waits for a query's next answer or end.
pub(crate) fn next(cursor: &mut dyn QueryCursor) -> Result<QueryStep, StoreError> {
    loop {
        let mut budget = Budget::new(STEP);
        match wait(poll_fn(|cx| cursor.poll_next(cx, &mut budget)))? {
            QueryStep::Yield => {}
            step => return Ok(step),
        }
    }
}

/// Waits for a count.
pub(crate) fn count(cursor: &mut dyn CountCursor) -> Result<u64, StoreError> {
    loop {
        let mut budget = Budget::new(STEP);
        match wait(poll_fn(|cx| cursor.poll_count(cx, &mut budget)))? {
            CountStep::Yield => {}
            CountStep::Done(count) => return Ok(count),
            CountStep::AtLeast(count) => {
                return Err(StoreError::Unavailable(format!(
                    "at least {count}: {NOT_INDEXED}"
                )));
            }
        }
    }
}

/// Returns the current time in microseconds.
pub(crate) fn unix_now_us() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as u64)
}

/// Returns the current time.
pub(crate) fn unix_now() -> Timestamp {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
