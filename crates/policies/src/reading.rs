//! Reading all that a filter matches from the relay's store.

use std::{
    future::poll_fn,
    time::{SystemTime, UNIX_EPOCH},
};

use hikyaku_event::{Event, Filter, Timestamp};
use hikyaku_store::{Budget, EventStore, LimitPolicy, Query, QueryStep, Reader, StoreError};

/// Events examined before others have their turn: some hundred microseconds of work.
const BUDGET: u32 = 1_024;
/// Bytes of events read before others have their turn: the same, of large ones.
const BUDGET_BYTES: usize = 256 * 1024;

/// Returns what the store has of these, newest first.
pub(crate) async fn read(store: &dyn EventStore, filter: Filter) -> Result<Vec<Event>, StoreError> {
    let reader = store.reader();
    let mut cursor = reader.query(Query {
        filters: vec![filter],
        reader: Reader::operator(),
        limits: LimitPolicy::UNLIMITED,
        now: unix_now(),
    });
    let (mut events, mut bytes) = (Vec::new(), 0);
    loop {
        let step = poll_fn(|cx| cursor.poll_next(cx, &mut Budget::new(BUDGET))).await?;
        match step {
            QueryStep::Event(stored) => {
                bytes += stored.json.len();
                let event = Event::from_stored(stored.json);
                events.push(event.map_err(|error| StoreError::Corrupt(error.to_string()))?);
                if bytes >= BUDGET_BYTES {
                    bytes = 0;
                    tokio::task::yield_now().await;
                }
            }
            QueryStep::Yield => tokio::task::yield_now().await,
            QueryStep::End(_) => return Ok(events),
        }
    }
}

/// Returns the time in seconds since 1970.
pub(crate) fn unix_now() -> Timestamp {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
