//! Which events a filter finds, and in what order (NIP-01).

use super::{
    filters::{Narrow, any},
    subject::{Subject, newest_first},
};
use crate::{EventStore, testing::draft};

/// Newest first; at the same time the lowest id first.
pub fn newest_come_first_and_ties_go_to_the_lowest_id(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let events: Vec<_> = (0..40)
        .map(|n| {
            draft(n % 5, 1, 100 + u64::from(n * 7 % 10))
                .content(&n.to_string())
                .build()
        })
        .collect();
    store.store_all(&events);
    let expected = newest_first(&events.iter().collect::<Vec<_>>());
    assert_eq!(store.ids(any()), expected);
    assert_eq!(store.ids(any().kinds([1])), expected);
    assert_eq!(store.ids(any().authors(0..5)), expected);
}

/// Where `limit` cuts through events of one time, those with the lowest ids are in.
pub fn ties_go_to_the_lowest_id_across_the_limit(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let events: Vec<_> = (0..20)
        .map(|n| draft(n % 3, 1, 100).content(&n.to_string()).build())
        .collect();
    store.store_all(&events);
    let expected = newest_first(&events.iter().collect::<Vec<_>>());
    for limit in 1..20_u8 {
        let wide = any().kinds([1]).limit(limit.into());
        assert_eq!(store.ids(wide), expected[..limit.into()], "limit {limit}");
        let several = any().kinds([1, 2]).authors([0, 1, 2]).limit(limit.into());
        assert_eq!(
            store.ids(several),
            expected[..limit.into()],
            "limit {limit}"
        );
    }
}

/// Later writes of older events come where their time puts them.
pub fn order_does_not_depend_on_the_order_of_writing(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let events = [300, 100, 500, 200, 400].map(|at| draft(1, 1, at).build());
    for event in &events {
        store.store(event);
    }
    assert_eq!(
        store.ids(any()),
        newest_first(&events.iter().collect::<Vec<_>>())
    );
    let two = any().limit(2);
    assert_eq!(store.ids(two), [events[2].id(), events[4].id()]);
}

/// `since` and `until` include their own second.
pub fn since_and_until_are_inclusive(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let events = [100, 101, 102, 103].map(|at| draft(1, 1, at).tag(&["t", "x"]).build());
    store.store_all(&events);
    let [a, b, c, d] = &events;
    for narrow in [
        any(),
        any().kinds([1]),
        any().authors([1]),
        any().tag('t', ["x"]),
    ] {
        store.shows(narrow.clone().since(101), &[b, c, d]);
        store.shows(narrow.clone().until(102), &[a, b, c]);
        store.shows(narrow.clone().since(101).until(102), &[b, c]);
        store.shows(narrow.clone().since(102).until(102), &[c]);
        store.shows(narrow.clone().since(103).until(102), &[]);
        store.shows(narrow.clone().since(104), &[]);
        store.shows(narrow.until(99), &[]);
    }
}

/// Times are 64 bits wide; real events carry milliseconds by mistake.
pub fn times_beyond_32_bits_are_kept(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let times = [
        0,
        1,
        u64::from(u32::MAX),
        1 << 32,
        1_700_000_000_123,
        i64::MAX as u64,
    ];
    let events = times.map(|at| draft(1, 1, at).build());
    store.store_all(&events);
    store.shows(any(), &events.iter().collect::<Vec<_>>());
    for (time, event) in times.into_iter().zip(&events) {
        store.shows(any().since(time).until(time), &[event]);
    }
    store.shows(any().since(1 << 32), &[&events[3], &events[4], &events[5]]);
    store.shows(
        any().until(u64::from(u32::MAX)),
        &[&events[0], &events[1], &events[2]],
    );
}

/// Kinds go from 0 to 65535.
pub fn kinds_go_to_65535(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let kinds = [0, 1, 255, 256, 40_000, 65_534, 65_535];
    let events = kinds.map(|kind| draft(1, kind, 100).build());
    store.store_all(&events);
    for (kind, event) in kinds.into_iter().zip(&events) {
        store.shows(any().kinds([kind]), &[event]);
    }
    store.shows(any().kinds([65_535, 0, 7]), &[&events[0], &events[6]]);
    store.shows(any().kinds(kinds), &events.iter().collect::<Vec<_>>());
}

/// An empty list is a condition that nothing meets; so is no filter at all.
pub fn empty_lists_match_nothing(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let event = draft(1, 1, 100).tag(&["t", "x"]).tag(&["t", ""]).build();
    store.store(&event);
    let nothing: [&std::sync::Arc<_>; 0] = [];
    for empty in [
        any().ids(nothing),
        any().authors([]),
        any().kinds([]),
        any().tag('e', []),
    ] {
        store.shows(empty.clone(), &[]);
        store.shows(empty.clone().tag('t', ["x"]).since(1), &[]);
        let beside = store.ask(&[empty, any().kinds([1])]);
        assert_eq!(beside.ids(), [event.id()]);
    }
    assert!(store.ask(&[]).ids().is_empty());
    assert_eq!(store.count(&[]), 0);
    store.shows(any(), &[&event]);
}

/// All conditions of a filter must hold.
pub fn conditions_are_an_and(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let wanted = draft(1, 1, 100).tag(&["t", "x"]).build();
    let others = [
        draft(2, 1, 100).tag(&["t", "x"]).build(),
        draft(1, 2, 100).tag(&["t", "x"]).build(),
        draft(1, 1, 100).tag(&["t", "y"]).build(),
        draft(1, 1, 99).tag(&["t", "x"]).build(),
        draft(1, 1, 101).tag(&["t", "x"]).build(),
    ];
    store.store(&wanted);
    store.store_all(&others);
    let filter = any()
        .authors([1, 3])
        .kinds([1, 3])
        .tag('t', ["x", "z"])
        .since(100)
        .until(100);
    store.shows(filter.clone(), &[&wanted]);
    store.shows(filter.clone().ids([&wanted, &others[0]]), &[&wanted]);
    store.shows(filter.ids(&others), &[]);
}

/// Ids are found, each once, and unknown ones are not.
pub fn events_are_found_by_id(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let events: Vec<_> = (0..50)
        .map(|n| draft(n, 1, 100 + u64::from(n)).build())
        .collect();
    let unknown = draft(99, 1, 100).build();
    store.store_all(&events);
    store.shows(any().ids([&events[7]]), &[&events[7]]);
    store.shows(any().ids([&unknown]), &[]);
    store.shows(
        any().ids(events.iter().chain([&unknown])),
        &events.iter().collect::<Vec<_>>(),
    );
    let two = store.ids(any().ids(&events).limit(2));
    assert_eq!(two, [events[49].id(), events[48].id()]);
    store.shows(
        any().ids(&events).authors([3, 4]),
        &[&events[3], &events[4]],
    );
}

/// A follow list of 5,000 is an ordinary filter.
pub fn five_thousand_authors_in_one_filter(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let events: Vec<_> = (0..100)
        .map(|n| draft(n * 50, 1, 100 + u64::from(n)).build())
        .collect();
    let stranger = draft(6_000, 1, 150).build();
    store.store_all(&events);
    store.store(&stranger);
    let follows = any().authors(0..5_000);
    store.shows(follows.clone(), &events.iter().collect::<Vec<_>>());
    let newest = store.ids(follows.kinds([1, 6]).limit(3));
    assert_eq!(newest, [events[99].id(), events[98].id(), events[97].id()]);
}

/// What is answered is the event's JSON, byte for byte, with what is known about it.
pub fn answers_carry_the_event_as_it_came(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let event = draft(1, 1, 100)
        .tag(&["t", "a\"b\\c\nd\u{1f600}"])
        .tag(&[])
        .tag(&["", "x", ""])
        .content("\u{7f}\u{1}\t\r\n\u{8}\u{c} / \\ \" \u{10ffff} é")
        .build();
    store.store(&event);
    let answer = store.ask(&[any()]);
    let [found] = &answer.events[..] else {
        panic!("one event: {answer:?}")
    };
    assert_eq!(found.json, event.json());
    assert_eq!(
        (found.id, found.created_at, found.kind),
        (event.id(), event.created_at(), event.kind())
    );
}
