//! Listing keys in the storage order, in ranges and both directions.

use std::sync::Arc;

use hikyaku_event::{Event, EventId};

use super::{
    filters::{Narrow, any},
    subject::{NOW, Subject, key_of},
};
use crate::{
    EventStore, Key, KeyRange, Outcome, Reader,
    testing::{draft, key},
};

/// Stores some events, several of a time, and returns them in the storage order.
fn stored(store: &Subject<'_>) -> Vec<Arc<Event>> {
    let mut events: Vec<_> = (0..30)
        .map(|n| {
            draft(n % 4, 1, 100 + u64::from(n / 5))
                .content(&n.to_string())
                .build()
        })
        .collect();
    store.store_all(&events);
    events.sort_by_key(|event| key_of(event));
    events
}

/// From inclusive, to exclusive, either open, in both directions.
pub fn ranges_hold_their_first_key_and_not_their_end(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let keys: Vec<_> = stored(&store).iter().map(|event| key_of(event)).collect();
    let bounds = [
        None,
        Some(0),
        Some(1),
        Some(4),
        Some(5),
        Some(17),
        Some(28),
        Some(29),
    ];
    for from in bounds {
        for to in bounds {
            let range = KeyRange {
                from: from.map(|at| keys[at]),
                to: to.map(|at| keys[at]),
                backward: false,
            };
            let (first, end) = (from.unwrap_or(0), to.unwrap_or(keys.len()));
            let mut expected = keys[first..end.max(first)].to_vec();
            for filter in [any(), any().kinds([1]), any().authors(0..4)] {
                assert_eq!(store.keys(&filter, range), expected, "{range:?}");
            }
            expected.reverse();
            let range = KeyRange {
                backward: true,
                ..range
            };
            assert_eq!(store.keys(&any(), range), expected, "{range:?}");
        }
    }
}

/// A bound need not be the key of an event.
pub fn bounds_need_not_be_stored(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let events = stored(&store);
    let bound = |created_at, byte| {
        let id = EventId::new([byte; 32]);
        Some(Key { created_at, id })
    };
    for (from, to) in [
        (bound(103, 0), bound(101, 0)),
        (bound(103, 0xff), bound(101, 0x80)),
        (bound(103, 0x80), None),
        (None, bound(102, 0xff)),
        (bound(u64::MAX, 0), bound(0, 0xff)),
        (bound(101, 0), bound(103, 0)),
        (bound(50, 0), None),
        (None, bound(500, 0)),
    ] {
        for backward in [false, true] {
            let range = KeyRange { from, to, backward };
            let mut expected: Vec<_> = events.iter().map(|event| key_of(event)).collect();
            expected.retain(|key| from.is_none_or(|from| *key >= from));
            expected.retain(|key| to.is_none_or(|to| *key < to));
            if backward {
                expected.reverse();
            }
            assert_eq!(store.keys(&any(), range), expected, "{range:?}");
        }
    }
}

/// A filter's conditions hold, its limit plays no part.
pub fn keys_are_those_of_the_filter_without_its_limit(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let events = stored(&store);
    let filter = any().authors([1, 2]).since(101).until(104);
    let mut expected: Vec<_> = events
        .iter()
        .filter(|event| filter.matches(event))
        .map(|event| key_of(event))
        .collect();
    for limit in [0, 1, 1_000] {
        let filter = filter.clone().limit(limit);
        assert_eq!(store.keys(&filter, KeyRange::default()), expected);
    }
    let range = KeyRange {
        from: Some(expected[2]),
        to: Some(expected[7]),
        backward: true,
    };
    expected = expected[2..7].iter().rev().copied().collect();
    assert_eq!(store.keys(&filter, range), expected);
    store.shows(any().authors([]), &[]);
}

/// Keys of what is hidden, expired or private to others are not listed, in no direction.
pub fn keys_are_those_a_reader_may_see(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let note = draft(1, 1, 100).build();
    let hidden = draft(1, 1, 101).build();
    let brief = draft(1, 1, 102)
        .tag(&["expiration", &(NOW + 5).to_string()])
        .build();
    let wrap = draft(1, 1059, 103).tag(&["p", &key(2).to_hex()]).build();
    store.store_all(&[note.clone(), hidden.clone(), brief.clone(), wrap.clone()]);
    assert_eq!(store.hide(&hidden, 1), Outcome::Done);
    let cases: [(Reader, u64, &[&Arc<Event>]); 4] = [
        (Reader::anonymous(), NOW, &[&brief, &note]),
        (Reader::anonymous(), NOW + 5, &[&note]),
        (Reader::authenticated([key(2)]), NOW + 5, &[&wrap, &note]),
        (Reader::operator(), NOW, &[&wrap, &brief, &note]),
    ];
    for (reader, now, visible) in cases {
        for backward in [false, true] {
            let range = KeyRange {
                backward,
                ..KeyRange::default()
            };
            let mut expected: Vec<_> = visible.iter().map(|event| key_of(event)).collect();
            if backward {
                expected.reverse();
            }
            assert_eq!(store.blocking().keys(&any(), &reader, now, range), expected);
        }
    }
}
