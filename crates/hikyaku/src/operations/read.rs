//! Sending and counting events, as the operator sees them: private kinds included, hidden and expired
//! events not.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
};

use hikyaku_event::{EventId, Filter};
use hikyaku_store::{
    Completeness, EventStore, Key, KeyRange, LimitPolicy, Query, QueryStep, Reader, StoreError,
};

use super::{Audience, Report};
use crate::{
    failure::Failure,
    waiting::{self, NOT_INDEXED},
};

/// How many events are fetched together where keys are read first.
const FETCH: usize = 500;

/// Sends the events of some filters, newest first. That not all may have been found is an error, behind
/// those that were.
pub(super) fn send(
    store: &dyn EventStore,
    filters: Vec<Filter>,
    stop: &AtomicBool,
    audience: &mut dyn Audience,
) -> Result<Report, Failure> {
    // One that asks for nothing says nothing about what there is.
    let all_ask = filters.iter().all(|filter| filter.limit != Some(0));
    let mut cursor = store.reader().query(query(filters));
    let mut events = 0;
    loop {
        let event = match waiting::next(&mut *cursor)? {
            QueryStep::Event(event) => event,
            QueryStep::End(Completeness::Unknown) if all_ask => {
                return Err(StoreError::Unavailable(format!(
                    "{events} found, and there may be more: {NOT_INDEXED}"
                ))
                .into());
            }
            _ => return Ok(Report::Sent { events }),
        };
        if stop.load(Ordering::Relaxed) {
            return Err(interrupted(events));
        }
        audience
            .event(&event.json)
            .map_err(|error| Failure::output(&error))?;
        events += 1;
    }
}

/// Sends the events of one filter, oldest first. What is stored or removed meanwhile may be among
/// them or not.
pub(super) fn send_oldest_first(
    store: &dyn EventStore,
    filter: &Filter,
    stop: &AtomicBool,
    audience: &mut dyn Audience,
) -> Result<Report, Failure> {
    let reader = store.reader();
    let range = KeyRange {
        backward: true,
        ..KeyRange::default()
    };
    let most = usize::try_from(filter.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let mut keys = reader
        .keys(filter, &Reader::operator(), waiting::unix_now(), range)
        .take(most);
    let mut events = 0;
    loop {
        let batch = keys.by_ref().take(FETCH).collect::<Result<Vec<_>, _>>()?;
        if batch.is_empty() {
            return Ok(Report::Sent { events });
        }
        if stop.load(Ordering::Relaxed) {
            return Err(interrupted(events));
        }
        let jsons = fetch(store, &batch)?;
        for json in batch.iter().filter_map(|key| jsons.get(&key.id)) {
            audience
                .event(json)
                .map_err(|error| Failure::output(&error))?;
            events += 1;
        }
    }
}

/// Reads the events of some keys.
fn fetch(store: &dyn EventStore, keys: &[Key]) -> Result<HashMap<EventId, Vec<u8>>, Failure> {
    let ids = Filter {
        ids: Some(keys.iter().map(|key| key.id).collect()),
        ..Filter::default()
    };
    let mut cursor = store.reader().query(query(vec![ids.sorted()]));
    let mut jsons = HashMap::with_capacity(keys.len());
    while let QueryStep::Event(event) = waiting::next(&mut *cursor)? {
        jsons.insert(event.id, event.json.to_vec());
    }
    Ok(jsons)
}

/// Counts the events of some filters, each once.
pub(super) fn count(store: &dyn EventStore, filters: Vec<Filter>) -> Result<Report, Failure> {
    let mut cursor = store.reader().count(query(filters));
    let count = waiting::count(&mut *cursor)?;
    Ok(Report::Counted { count })
}

fn query(filters: Vec<Filter>) -> Query {
    Query {
        filters,
        reader: Reader::operator(),
        limits: LimitPolicy::UNLIMITED,
        now: waiting::unix_now(),
    }
}

fn interrupted(events: u64) -> Failure {
    Failure::Interrupted(format!("stopped after {events} events"))
}
