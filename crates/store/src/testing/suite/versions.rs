//! Replaceable and addressable events, and the classes of kinds (NIP-01).

use std::sync::Arc;

use hikyaku_event::Event;

use super::{
    filters::{Narrow, any},
    subject::{Subject, key_of},
};
use crate::{EventStore, Outcome, Refusal, testing::draft};

/// Returns two events in the order of their keys: the one that wins among versions first.
fn winner_first(a: Arc<Event>, b: Arc<Event>) -> (Arc<Event>, Arc<Event>) {
    if key_of(&a) < key_of(&b) {
        (a, b)
    } else {
        (b, a)
    }
}

/// Kinds at the edges of the ranges of NIP-01.
const REGULAR: [u16; 17] = [
    1, 2, 4, 6, 7, 8, 40, 41, 42, 44, 45, 999, 1000, 9_999, 40_000, 65_534, 65_535,
];
const REPLACEABLE: [u16; 5] = [0, 3, 10_000, 10_002, 19_999];
const EPHEMERAL: [u16; 5] = [20_000, 21_059, 22_242, 25_000, 29_999];
const ADDRESSABLE: [u16; 4] = [30_000, 30_023, 39_998, 39_999];

/// Every event of a regular kind is kept; kinds that NIP-01 does not name (41 too) are regular.
pub fn regular_kinds_keep_every_event(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    for kind in REGULAR {
        let author = if kind == 4 { 2 } else { 1 };
        let older = draft(author, kind, 100).tag(&["d", "x"]).build();
        let newer = draft(author, kind, 101).tag(&["d", "x"]).build();
        store.store(&newer);
        store.store(&older);
        assert!(
            store.contains(&older) && store.contains(&newer),
            "kind {kind}"
        );
        if kind != 4 {
            store.shows(any().kinds([kind]), &[&older, &newer]);
        }
    }
}

/// Of a replaceable kind the newest per author is kept, whichever comes first; `d` plays no part.
pub fn replaceable_kinds_keep_the_newest(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    for kind in REPLACEABLE {
        let [first, second, third] =
            [100, 101, 102].map(|at| draft(1, kind, at).tag(&["d", &at.to_string()]).build());
        let other = draft(2, kind, 50).build();
        store.store_all(&[second.clone(), other.clone()]);
        assert_eq!(store.put(&first), Outcome::Superseded, "kind {kind}");
        store.shows(any().kinds([kind]), &[&second, &other]);
        store.store(&third);
        store.shows(any().kinds([kind]), &[&third, &other]);
        store.has_none_of(&[&first, &second]);
        assert_eq!(store.put(&second), Outcome::Superseded, "kind {kind}");
    }
    store.shows(any().authors([2]).kinds(REPLACEABLE).tag('d', ["101"]), &[]);
}

/// Of an addressable kind the newest per author and `d` is kept, whichever comes first.
pub fn addressable_kinds_keep_the_newest_per_d(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    for kind in ADDRESSABLE {
        let [first, second, third] =
            [100, 101, 102].map(|at| draft(1, kind, at).tag(&["d", "x"]).build());
        let other_d = draft(1, kind, 50).tag(&["d", "X"]).build();
        let other_author = draft(2, kind, 50).tag(&["d", "x"]).build();
        store.store_all(&[second.clone(), other_d.clone(), other_author.clone()]);
        assert_eq!(store.put(&first), Outcome::Superseded, "kind {kind}");
        store.shows(any().kinds([kind]), &[&second, &other_d, &other_author]);
        store.store(&third);
        store.shows(any().kinds([kind]), &[&third, &other_d, &other_author]);
        store.shows(any().kinds([kind]).authors([1]).tag('d', ["x"]), &[&third]);
        store.has_none_of(&[&first, &second]);
    }
}

/// Ephemeral kinds touch no store.
pub fn ephemeral_kinds_are_refused(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    for kind in EPHEMERAL {
        let event = draft(1, kind, 100).tag(&["d", "x"]).build();
        store.refuse(&event, Refusal::Ephemeral);
        store.has_none_of(&[&event]);
    }
    store.shows(any(), &[]);
}

/// Of two versions of one time the one with the lower id is kept, whichever comes first.
pub fn versions_of_one_time_go_to_the_lowest_id(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    for (author, kind) in [(1, 0), (2, 3), (3, 10_002), (4, 30_023)] {
        for winner_comes_first in [true, false] {
            let version = |content: &str| {
                let author = author * 2 + u32::from(winner_comes_first);
                draft(author, kind, 100)
                    .tag(&["d", "x"])
                    .content(content)
                    .build()
            };
            let (winner, loser) = winner_first(version("one"), version("two"));
            if winner_comes_first {
                store.store(&winner);
                assert_eq!(store.put(&loser), Outcome::Superseded);
            } else {
                store.store(&loser);
                store.store(&winner);
            }
            store.has_all_of(&[&winner]);
            store.has_none_of(&[&loser]);
        }
    }
}

/// The version that is stored is a duplicate, not superseded by itself.
pub fn the_stored_version_is_a_duplicate(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    for kind in [0, 1, 30_000] {
        let event = draft(1, kind, 100).build();
        store.store(&event);
        assert_eq!(store.put(&event), Outcome::Duplicate);
        store.shows(any().kinds([kind]), &[&event]);
    }
}

/// A missing `d` tag, one without a value and an empty one are the same address; the first counts.
pub fn a_missing_d_equals_an_empty_one(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let versions = [
        draft(1, 30_000, 100).build(),
        draft(1, 30_000, 101).tag(&["d", ""]).build(),
        draft(1, 30_000, 102).tag(&["d"]).build(),
        draft(1, 30_000, 103)
            .tag(&["d", "", "x"])
            .tag(&["d", "y"])
            .build(),
        draft(1, 30_000, 104)
            .tag(&["D", "y"])
            .tag(&["dd", "y"])
            .build(),
    ];
    for version in &versions {
        store.store(version);
        store.shows(any().kinds([30_000]), &[version]);
    }
    assert_eq!(store.put(&versions[1]), Outcome::Superseded);
    let other = draft(1, 30_000, 99).tag(&["d", "y"]).build();
    store.store(&other);
    store.shows(any(), &[&versions[4], &other]);
}

/// Any string is a `d`, told apart to the last byte.
pub fn strange_d_values_are_addresses_of_their_own(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let long = "x".repeat(10_000);
    let longer = "x".repeat(10_001);
    let values = [
        "",
        " ",
        "a:b",
        ":",
        "\"",
        "\\",
        "\n",
        "\u{1f600}",
        "A",
        "a",
        &long,
        &longer,
    ];
    for at in [100, 101] {
        let events: Vec<_> = values
            .iter()
            .map(|d| draft(1, 30_023, at).tag(&["d", d]).build())
            .collect();
        store.store_all(&events);
        store.shows(any(), &events.iter().collect::<Vec<_>>());
        for (value, event) in values.iter().zip(&events) {
            store.shows(any().tag('d', [*value]), &[event]);
        }
    }
}

/// A replaced version may not return while the newer one stands, and may when that is gone.
pub fn a_replaced_version_returns_only_without_the_newer(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let older = draft(1, 30_023, 100).tag(&["d", "x"]).build();
    let newer = draft(1, 30_023, 101).tag(&["d", "x"]).build();
    store.store_all(&[older.clone(), newer.clone()]);
    assert_eq!(store.put(&older), Outcome::Superseded);
    assert_eq!(store.remove(&newer), Outcome::Done);
    store.store(&older);
    store.shows(any(), &[&older]);
}

/// A hidden version stands: nobody sees it, and older ones are superseded all the same.
pub fn a_hidden_version_still_supersedes(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let [older, hidden, newer] = [100, 101, 102].map(|at| draft(1, 0, at).build());
    store.store(&hidden);
    assert_eq!(store.hide(&hidden, 1), Outcome::Done);
    assert_eq!(store.put(&older), Outcome::Superseded);
    store.shows(any(), &[]);
    store.store(&newer);
    assert_eq!(store.unhide(&hidden, 1), Outcome::Absent);
    store.shows(any(), &[&newer]);
}
