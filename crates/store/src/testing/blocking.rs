//! A store asked without a runtime: each call waits for the whole answer.

use std::{future::poll_fn, sync::Arc};

use hikyaku_event::{Event, EventId, Filter, TagCondition, TagName, Timestamp};

use super::block_on;
use crate::{
    Budget, CommittedEvent, CommittedFeed, Completeness, CountStep, EventStore, Hider, Key,
    KeyRange, LimitPolicy, Outcome, Query, QueryCursor, QueryStep, Reader, RemovalReason, Sequence,
    StoreError, StoredEvent, Write,
};

/// All of a query's answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The snapshot it was read from.
    pub snapshot: Sequence,
    /// The events in the order they came.
    pub events: Vec<StoredEvent>,
    /// Whether that was all.
    pub completeness: Completeness,
}

impl Answer {
    /// Returns the events' ids in order.
    pub fn ids(&self) -> Vec<EventId> {
        self.events.iter().map(|event| event.id).collect()
    }
}

/// Asks a store and waits. A [`StoreError`](crate::StoreError) panics; so does a query that does
/// not get on.
#[derive(Clone, Copy)]
pub struct Blocking<'a>(pub &'a dyn EventStore);

/// Steps without an answer after which a cursor that has budget is taken to be stuck.
const IDLE_STEPS_MAX: u32 = 10_000_000;

impl Blocking<'_> {
    /// Writes one batch.
    pub fn write(&self, batch: Vec<Write>, now: Timestamp) -> Vec<Outcome> {
        let len = batch.len();
        let outcomes = block_on(self.0.write(batch, now)).expect("the write is answered");
        assert_eq!(outcomes.len(), len, "one outcome per element");
        outcomes
    }

    /// Writes one event; a kind 62 is carried out.
    pub fn put(&self, event: &Arc<Event>, now: Timestamp) -> Outcome {
        let event = event.clone();
        self.write(
            vec![Write::Event {
                event,
                vanish: true,
            }],
            now,
        )[0]
    }

    /// Writes events as one batch; kinds 62 are carried out.
    pub fn put_all(&self, events: &[Arc<Event>], now: Timestamp) -> Vec<Outcome> {
        let event = |event: &Arc<Event>| Write::Event {
            event: event.clone(),
            vanish: true,
        };
        self.write(events.iter().map(event).collect(), now)
    }

    /// Hides an event.
    pub fn hide(&self, id: EventId, by: Hider, now: Timestamp) -> Outcome {
        self.write(vec![Write::Hide { id, by }], now)[0]
    }

    /// Takes a hiding back.
    pub fn unhide(&self, id: EventId, by: Hider, now: Timestamp) -> Outcome {
        self.write(vec![Write::Unhide { id, by }], now)[0]
    }

    /// Removes an event as the operator.
    pub fn remove(&self, id: EventId, now: Timestamp) -> Outcome {
        let reason = RemovalReason::Operator;
        self.write(vec![Write::Remove { id, reason }], now)[0]
    }

    /// Removes what has expired.
    pub fn sweep(&self, now: Timestamp) -> u64 {
        block_on(self.0.sweep(now)).expect("the sweep is answered")
    }

    /// Tells for each id whether it is stored.
    pub fn contains(&self, ids: &[EventId]) -> Vec<bool> {
        let reader = self.0.reader();
        let stored = block_on(reader.contains(ids)).expect("the ids are looked up");
        assert_eq!(stored.len(), ids.len(), "one answer per id");
        stored
    }

    /// Starts a query.
    pub fn start(&self, query: Query) -> Box<dyn QueryCursor> {
        self.0.reader().query(query)
    }

    /// Asks a query with a large budget.
    pub fn query(&self, query: Query) -> Answer {
        read_to_end(self.start(query), 1_000_000)
    }

    /// Asks for all events that one filter matches, as that reader sees them.
    pub fn all(&self, filter: Filter, reader: &Reader, now: Timestamp) -> Answer {
        let query = Query {
            filters: vec![filter],
            reader: reader.clone(),
            limits: LimitPolicy::UNLIMITED,
            now,
        };
        self.query(query)
    }

    /// Counts, with that budget for each step.
    pub fn count_in_steps(&self, query: Query, step: u32) -> u64 {
        let reader = self.0.reader();
        let mut cursor = reader.count(query);
        for _ in 0..IDLE_STEPS_MAX {
            let mut budget = Budget::new(step);
            let done = block_on(poll_fn(|cx| cursor.poll_count(cx, &mut budget)));
            if let CountStep::Done(count) = done.expect("the count is answered") {
                return count;
            }
        }
        panic!("the count does not come to an end");
    }

    /// Counts with a large budget.
    pub fn count(&self, query: Query) -> u64 {
        self.count_in_steps(query, 1_000_000)
    }

    /// Tells whether the store answers what is asked of tags of this name.
    pub fn indexes(&self, name: &str) -> bool {
        let condition = TagCondition {
            name: TagName::new(name).expect("a tag's name"),
            values: vec![String::new()],
        };
        let filter = Filter {
            tags: vec![condition],
            ..Filter::default()
        };
        let mut cursor = self.start(Query {
            filters: vec![filter],
            reader: Reader::anonymous(),
            limits: LimitPolicy::UNLIMITED,
            now: 0,
        });
        let mut budget = Budget::new(1_000_000);
        match block_on(poll_fn(|cx| cursor.poll_next(cx, &mut budget))) {
            Err(StoreError::Unsupported(_)) => false,
            other => other.is_ok(),
        }
    }

    /// Counts, and says whether the store knows that this is all.
    pub fn count_so_far(&self, query: Query) -> CountStep {
        let mut cursor = self.0.reader().count(query);
        loop {
            let mut budget = Budget::new(1_000_000);
            match block_on(poll_fn(|cx| cursor.poll_count(cx, &mut budget))) {
                Ok(CountStep::Yield) => {}
                step => return step.expect("the count is answered"),
            }
        }
    }

    /// Lists keys.
    pub fn keys(
        &self,
        filter: &Filter,
        reader: &Reader,
        now: Timestamp,
        range: KeyRange,
    ) -> Vec<Key> {
        let store = self.0.reader();
        let keys = store.keys(filter, reader, now, range);
        keys.map(|key| key.expect("the key is read")).collect()
    }
}

/// Reads a cursor to its end, with that budget for each step.
pub fn read_to_end(mut cursor: Box<dyn QueryCursor>, step: u32) -> Answer {
    let snapshot = cursor.snapshot();
    let mut events = Vec::new();
    let mut idle = 0;
    while idle < IDLE_STEPS_MAX {
        let mut budget = Budget::new(step);
        loop {
            let next = block_on(poll_fn(|cx| cursor.poll_next(cx, &mut budget)));
            match next.expect("the query is answered") {
                QueryStep::Event(event) => {
                    events.push(event);
                    idle = 0;
                }
                QueryStep::Yield => break,
                QueryStep::End(completeness) => {
                    return Answer {
                        snapshot,
                        events,
                        completeness,
                    };
                }
            }
        }
        idle += 1;
    }
    panic!("the query does not come to an end");
}

/// Takes from a feed up to the first commit that ends with such an event; or until the feed ends.
pub fn feed_until(
    feed: &mut CommittedFeed,
    is_last: impl Fn(&CommittedEvent) -> bool,
) -> Vec<CommittedEvent> {
    let mut events: Vec<CommittedEvent> = Vec::new();
    while !events.last().is_some_and(&is_last) {
        match block_on(poll_fn(|cx| feed.as_mut().poll_next(cx))) {
            Some(committed) => events.extend(committed.events.iter().cloned()),
            None => break,
        }
    }
    events
}
