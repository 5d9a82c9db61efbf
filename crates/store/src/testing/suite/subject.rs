//! The store under test, with what most claims take for granted: one fixed time, an anonymous
//! reader, no limits.

use std::sync::Arc;

use hikyaku_event::{Event, EventId, Filter};

use super::filters::{Narrow, any};
use crate::{
    Completeness, EventStore, Hider, Key, KeyRange, LimitPolicy, Outcome, Query, Reader, Refusal,
    Write,
    testing::{Answer, Blocking},
};

/// The time at which claims write and read, unless they say otherwise.
pub(super) const NOW: u64 = 10_000;

/// A store under test.
pub(super) struct Subject<'a>(pub(super) &'a dyn EventStore);

impl<'a> Subject<'a> {
    pub(super) fn blocking(&self) -> Blocking<'a> {
        Blocking(self.0)
    }

    pub(super) fn put(&self, event: &Arc<Event>) -> Outcome {
        self.blocking().put(event, NOW)
    }

    /// Writes an event that must be stored.
    pub(super) fn store(&self, event: &Arc<Event>) {
        let outcome = self.put(event);
        assert!(
            matches!(outcome, Outcome::Stored(_)),
            "{outcome:?}: {event:?}"
        );
    }

    /// Writes events that must all be stored, one batch.
    pub(super) fn store_all(&self, events: &[Arc<Event>]) {
        for (outcome, event) in self.blocking().put_all(events, NOW).iter().zip(events) {
            assert!(
                matches!(outcome, Outcome::Stored(_)),
                "{outcome:?}: {event:?}"
            );
        }
    }

    /// Writes an event that must be refused for that reason.
    pub(super) fn refuse(&self, event: &Arc<Event>, why: Refusal) {
        assert_eq!(self.put(event), Outcome::Refused(why), "{event:?}");
    }

    pub(super) fn put_all(&self, events: &[&Arc<Event>]) -> Vec<Outcome> {
        let events: Vec<_> = events.iter().map(|event| Arc::clone(event)).collect();
        self.blocking().put_all(&events, NOW)
    }

    pub(super) fn write(&self, batch: Vec<Write>) -> Vec<Outcome> {
        self.blocking().write(batch, NOW)
    }

    pub(super) fn hide(&self, event: &Event, by: u32) -> Outcome {
        self.blocking().hide(event.id(), Hider(by), NOW)
    }

    pub(super) fn unhide(&self, event: &Event, by: u32) -> Outcome {
        self.blocking().unhide(event.id(), Hider(by), NOW)
    }

    pub(super) fn remove(&self, event: &Event) -> Outcome {
        self.blocking().remove(event.id(), NOW)
    }

    pub(super) fn contains(&self, event: &Event) -> bool {
        self.blocking().contains(&[event.id()])[0]
    }

    /// Returns the ids of all that matches, as anybody sees them.
    pub(super) fn ids(&self, filter: Filter) -> Vec<EventId> {
        self.ids_for(filter, &Reader::anonymous())
    }

    pub(super) fn ids_for(&self, filter: Filter, reader: &Reader) -> Vec<EventId> {
        self.blocking().all(filter, reader, NOW).ids()
    }

    pub(super) fn ask(&self, filters: &[Filter]) -> Answer {
        self.ask_with(filters, LimitPolicy::UNLIMITED)
    }

    pub(super) fn ask_with(&self, filters: &[Filter], limits: LimitPolicy) -> Answer {
        let reader = Reader::anonymous();
        self.blocking().query(Query {
            limits,
            ..query(filters, &reader)
        })
    }

    pub(super) fn count(&self, filters: &[Filter]) -> u64 {
        self.blocking().count(query(filters, &Reader::anonymous()))
    }

    pub(super) fn keys(&self, filter: &Filter, range: KeyRange) -> Vec<Key> {
        self.blocking()
            .keys(filter, &Reader::anonymous(), NOW, range)
    }

    /// Checks that every door shows anybody exactly these events: by query, count, keys and id.
    pub(super) fn shows(&self, filter: Filter, events: &[&Arc<Event>]) {
        self.shows_to(&Reader::anonymous(), NOW, filter, events);
    }

    /// Checks that every door shows this reader at that time exactly these events.
    pub(super) fn shows_to(
        &self,
        reader: &Reader,
        now: u64,
        filter: Filter,
        events: &[&Arc<Event>],
    ) {
        let expected = newest_first(events);
        let query = Query {
            now,
            ..query(std::slice::from_ref(&filter), reader)
        };
        let answer = self.blocking().query(query.clone());
        assert_eq!(answer.ids(), expected, "query {filter:?}");
        assert_eq!(
            answer.completeness,
            Completeness::Finish,
            "query {filter:?}"
        );
        assert_eq!(
            self.blocking().count(query),
            expected.len() as u64,
            "count {filter:?}"
        );
        let keys = self
            .blocking()
            .keys(&filter, reader, now, KeyRange::default());
        let keys: Vec<_> = keys.iter().map(|key| key.id).collect();
        assert_eq!(keys, expected, "keys {filter:?}");
        for event in events {
            let by_id = self.blocking().all(any().ids([*event]), reader, now);
            assert_eq!(by_id.ids(), [event.id()], "by id");
        }
    }

    /// Checks that no door shows any of these events to anybody, and that they are not stored.
    pub(super) fn has_none_of(&self, events: &[&Arc<Event>]) {
        self.shows(any().ids(events.iter().copied()), &[]);
        for event in events {
            assert!(!self.contains(event), "still stored: {event:?}");
        }
    }

    /// Checks that anybody sees all of these events by id.
    pub(super) fn has_all_of(&self, events: &[&Arc<Event>]) {
        self.shows(any().ids(events.iter().copied()), events);
        for event in events {
            assert!(self.contains(event), "not stored: {event:?}");
        }
    }
}

/// Returns a query without limits at [`NOW`].
pub(super) fn query(filters: &[Filter], reader: &Reader) -> Query {
    Query {
        filters: filters.to_vec(),
        reader: reader.clone(),
        limits: LimitPolicy::UNLIMITED,
        now: NOW,
    }
}

/// Returns the ids in the storage order.
pub(super) fn newest_first(events: &[&Arc<Event>]) -> Vec<EventId> {
    let mut keys: Vec<_> = events.iter().map(|event| key_of(event)).collect();
    keys.sort();
    keys.into_iter().map(|key| key.id).collect()
}

pub(super) fn key_of(event: &Event) -> Key {
    Key {
        created_at: event.created_at(),
        id: event.id(),
    }
}
