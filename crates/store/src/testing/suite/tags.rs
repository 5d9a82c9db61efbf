//! Finding events by their single-letter tags (NIP-01).

use std::future::poll_fn;

use super::{
    filters::{Narrow, any},
    subject::{NOW, Subject, query},
};
use crate::{
    Budget, EventStore, KeyRange, Reader, StoreError,
    testing::{LONG_NAME, block_on, draft},
};

/// Two tag names in one filter must both be met.
pub fn two_tag_names_are_an_and(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let both = draft(1, 1, 100).tag(&["t", "x"]).tag(&["g", "y"]).build();
    let first = draft(1, 1, 101).tag(&["t", "x"]).tag(&["g", "z"]).build();
    let second = draft(1, 1, 102).tag(&["g", "y"]).build();
    let crossed = draft(1, 1, 103).tag(&["g", "x"]).tag(&["t", "y"]).build();
    store.store_all(&[both.clone(), first.clone(), second, crossed]);
    store.shows(any().tag('t', ["x"]).tag('g', ["y"]), &[&both]);
    store.shows(any().tag('t', ["x"]).tag('g', ["y", "z"]), &[&both, &first]);
    store.shows(any().tag('t', ["x"]).tag('g', ["w"]), &[]);
}

/// Several values are an OR, and an event that has two of them comes once and counts once.
pub fn an_event_that_matches_two_values_comes_once(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let two = draft(1, 1, 100).tag(&["t", "x"]).tag(&["t", "y"]).build();
    let one = draft(1, 1, 101).tag(&["t", "y"]).build();
    let same_twice = draft(1, 1, 102)
        .tag(&["t", "x"])
        .tag(&["t", "x", "more"])
        .build();
    let none = draft(1, 1, 103).tag(&["t", "z"]).build();
    store.store_all(&[two.clone(), one.clone(), same_twice.clone(), none]);
    store.shows(any().tag('t', ["x", "y"]), &[&two, &one, &same_twice]);
    store.shows(any().tag('t', ["x"]), &[&two, &same_twice]);
    let limited = store.ids(any().tag('t', ["x", "y"]).limit(2));
    assert_eq!(limited, [same_twice.id(), one.id()]);
}

/// Whatever a value holds, it is found by exactly that value.
pub fn strange_values_are_found(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let long = "long ".repeat(2_048);
    let longer = format!("{long}.");
    let values = [
        "",
        " ",
        "\"",
        "\\",
        "\\\"",
        "\n",
        "\\n",
        "\r\n\t",
        "\u{0}",
        "\u{7f}",
        "a b",
        "a,b",
        "[]",
        "{\"t\":\"x\"}",
        "\u{1f600}",
        "\u{1f468}\u{200d}\u{1f469}",
        "日本語",
        "é",
        "e\u{301}",
        "%00",
        "'; DROP TABLE events; --",
        "\u{ffff}",
        "\u{10ffff}",
        &long,
        &longer,
    ];
    let events: Vec<_> = (100..)
        .zip(values)
        .map(|(at, value)| draft(1, 1, at).tag(&["t", value]).build())
        .collect();
    store.store_all(&events);
    for (value, event) in values.iter().zip(&events) {
        store.shows(any().tag('t', [*value]), &[event]);
        store.shows(any().tag('t', [*value]).kinds([1]).authors([1]), &[event]);
    }
    store.shows(any().tag('t', values), &events.iter().collect::<Vec<_>>());
    store.shows(any().tag('t', ["lon", "long", "日本"]), &[]);
}

/// Upper and lower case are different names, and different values.
pub fn letter_case_matters(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let lower = draft(1, 1, 100).tag(&["e", "x"]).build();
    let upper = draft(1, 1, 101).tag(&["E", "x"]).build();
    let value = draft(1, 1, 102).tag(&["e", "X"]).build();
    store.store_all(&[lower.clone(), upper.clone(), value.clone()]);
    store.shows(any().tag('e', ["x"]), &[&lower]);
    store.shows(any().tag('E', ["x"]), &[&upper]);
    store.shows(any().tag('e', ["X"]), &[&value]);
    store.shows(any().tag('E', ["X"]), &[]);
}

/// Every letter is a name of its own, and a value of one is not a value of another.
pub fn every_letter_is_a_name(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let letters: Vec<char> = ('a'..='z').chain('A'..='Z').collect();
    let events: Vec<_> = (100..)
        .zip(&letters)
        .map(|(at, letter)| draft(1, 1, at).tag(&[&letter.to_string(), "same"]).build())
        .collect();
    store.store_all(&events);
    for (letter, event) in letters.iter().zip(&events) {
        store.shows(any().tag(*letter, ["same"]), &[event]);
    }
}

/// `e` and `p` values that are no hex are strings like any other (deliberately lenient), and hex in
/// another case is another string.
pub fn e_and_p_values_need_not_be_hex(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let hex = "ab".repeat(32);
    let upper = "AB".repeat(32);
    let half = "ab".repeat(16);
    let values = ["", "note1xyz", "hello \u{1f600}", &half, &hex, &upper];
    let mut events = Vec::new();
    for name in ["e", "p", "a"] {
        for value in values {
            let at = 100 + events.len() as u64;
            events.push(draft(1, 1, at).tag(&[name, value]).build());
        }
    }
    store.store_all(&events);
    for (name, events) in ['e', 'p', 'a'].into_iter().zip(events.chunks(values.len())) {
        for (value, event) in values.iter().zip(events) {
            store.shows(any().tag(name, [*value]), &[event]);
        }
        store.shows(any().tag(name, values), &events.iter().collect::<Vec<_>>());
    }
}

/// Only the first value of a tag is asked for; a tag without one is not an empty one.
pub fn only_the_first_value_counts(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let second = draft(1, 1, 100).tag(&["t", "x", "y"]).build();
    let bare = draft(1, 1, 101).tag(&["t"]).build();
    let empty = draft(1, 1, 102).tag(&["t", ""]).build();
    let long_name = draft(1, 1, 103)
        .tag(&["tt", "x"])
        .tag(&["title", "y"])
        .build();
    store.store_all(&[second.clone(), bare, empty.clone(), long_name]);
    store.shows(any().tag('t', ["x"]), &[&second]);
    store.shows(any().tag('t', ["y"]), &[]);
    store.shows(any().tag('t', [""]), &[&empty]);
}

/// A store that has a longer name indexed answers for it as for a letter; one that has not says so at
/// every door, and never answers as if the condition were not there.
pub fn longer_names_are_answered_or_refused(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let value = "value ".repeat(100);
    let title = draft(1, 1, 100).tag(&[LONG_NAME, &value]).build();
    let both = draft(1, 7, 101).tag(&["t", "x"]).tag(&[LONG_NAME, "a"]);
    let both = both.tag(&[LONG_NAME, "a"]).tag(&[LONG_NAME, "b"]).build();
    let letter = draft(1, 1, 102).tag(&["t", "a"]).build();
    let bare = draft(1, 1, 103).tag(&[LONG_NAME]).build();
    store.store_all(&[title.clone(), both.clone(), letter, bare]);
    let asked = |values: &[&'static str]| any().named(LONG_NAME, values.iter().copied());
    if store.blocking().indexes(LONG_NAME) {
        store.shows(asked(&["a"]), &[&both]);
        store.shows(asked(&["a", "b"]).tag('t', ["x"]), &[&both]);
        store.shows(asked(&["a"]).kinds([1]), &[]);
        store.shows(any().named(LONG_NAME, [&*value]), &[&title]);
        store.shows(any().named(LONG_NAME, [&*value, "b"]), &[&both, &title]);
        store.remove(&both);
        store.shows(asked(&["a", "b"]), &[]);
    }
    let strange = any().named("no such name '\\\"{schema}", ["a"]);
    for filter in [asked(&["a"]), strange] {
        let name = filter.tags[0].name.clone();
        if !store.blocking().indexes(name.as_str()) {
            let reader = store.blocking().0.reader();
            let mut keys = reader.keys(&filter, &Reader::operator(), NOW, KeyRange::default());
            let refused = |error: StoreError| matches!(error, StoreError::Unsupported(text) if text.contains(name.as_str()));
            assert!(keys.next().unwrap().is_err_and(refused), "keys {filter:?}");
            let mut count =
                reader.count(query(std::slice::from_ref(&filter), &Reader::anonymous()));
            let mut budget = Budget::new(1_000_000);
            let counted = block_on(poll_fn(|cx| count.poll_count(cx, &mut budget)));
            assert!(counted.is_err_and(refused), "count {filter:?}");
        }
    }
}

/// A follow list has thousands of tags, each of which finds it.
pub fn thousands_of_tags_in_one_event(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let values: Vec<_> = (0..6_000).map(|n| format!("{n:064x}")).collect();
    let mut list = draft(1, 3, 100);
    for value in &values {
        list = list.tag(&["p", value, "wss://relay.example.com/", "name"]);
    }
    let list = list.build();
    let other = draft(2, 3, 100).tag(&["p", &values[0]]).build();
    store.store_all(&[list.clone(), other.clone()]);
    store.shows(any().tag('p', [&*values[0]]), &[&list, &other]);
    store.shows(any().tag('p', [&*values[3_000]]), &[&list]);
    store.shows(any().tag('p', [&*values[5_999]]), &[&list]);
    store.shows(
        any().tag('p', values.iter().map(String::as_str)),
        &[&list, &other],
    );
    let replaced = draft(1, 3, 101).tag(&["p", &values[1]]).build();
    store.store(&replaced);
    store.shows(any().tag('p', [&*values[3_000]]), &[]);
    store.shows(any().tag('p', [&*values[1]]), &[&replaced]);
}

/// Thousands of values in one condition.
pub fn thousands_of_values_in_one_filter(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let values: Vec<_> = (0..3_000).map(|n| format!("value {n}")).collect();
    let events: Vec<_> = (0..30)
        .map(|n| {
            draft(1, 1, 100 + n as u64)
                .tag(&["t", &values[n * 100]])
                .build()
        })
        .collect();
    let other = draft(1, 1, 110).tag(&["t", "value"]).build();
    store.store_all(&events);
    store.store(&other);
    let all = any().tag('t', values.iter().map(String::as_str));
    store.shows(all, &events.iter().collect::<Vec<_>>());
}
