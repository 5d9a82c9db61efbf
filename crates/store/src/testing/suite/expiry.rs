//! Events that expire (NIP-40).

use super::{
    filters::{Narrow, any},
    subject::{NOW, Subject, query},
};
use crate::{
    Completeness, EventStore, LimitPolicy, Outcome, Query, Reader, Refusal,
    testing::{Draft, draft, key},
};

fn expiring(draft: Draft, at: u64) -> Draft {
    draft.tag(&["expiration", &at.to_string()])
}

/// An event that has expired is refused, from its very second on.
pub fn expired_events_are_refused(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    for kind in [1, 0, 5, 62, 30_023] {
        store.refuse(
            &expiring(draft(1, kind, 100), NOW - 1).build(),
            Refusal::Expired,
        );
        store.refuse(
            &expiring(draft(1, kind, 100), NOW).build(),
            Refusal::Expired,
        );
    }
    let last_second = expiring(draft(1, 1, 100), NOW + 1).build();
    store.store(&last_second);
    store.shows(any(), &[&last_second]);
}

/// From its second on no door shows an expired event, swept or not.
pub fn expired_events_are_absent_before_the_sweep(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let brief = expiring(draft(1, 1, 101).tag(&["t", "x"]), NOW + 10).build();
    let long = expiring(draft(1, 1, 102).tag(&["t", "x"]), NOW + 20).build();
    let lasting = draft(1, 1, 100).tag(&["t", "x"]).build();
    store.store_all(&[brief.clone(), long.clone(), lasting.clone()]);
    let anybody = Reader::anonymous();
    for filter in [
        any(),
        any().kinds([1]),
        any().authors([1]),
        any().tag('t', ["x"]),
    ] {
        let shows = |now, events: &[_]| store.shows_to(&anybody, now, filter.clone(), events);
        shows(NOW + 9, &[&brief, &long, &lasting]);
        shows(NOW + 10, &[&long, &lasting]);
        shows(NOW + 19, &[&long, &lasting]);
        shows(NOW + 20, &[&lasting]);
    }
    store.shows_to(&anybody, NOW + 10, any().ids([&brief]), &[]);
    store.shows_to(&Reader::operator(), NOW + 10, any().ids([&brief]), &[]);
}

/// Expired events use up no limit and are no `more`.
pub fn expired_events_use_up_no_limit(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    for at in 200..220 {
        store.store(&expiring(draft(1, 1, at), NOW + 1).build());
    }
    let lasting = [100, 101].map(|at| draft(1, 1, at).build());
    store.store_all(&lasting);
    let anybody = Reader::anonymous();
    let ask = |limit| {
        let query = query(&[any().kinds([1]).limit(limit)], &anybody);
        store.blocking().query(Query {
            now: NOW + 1,
            ..query
        })
    };
    assert_eq!(ask(2).ids(), [lasting[1].id(), lasting[0].id()]);
    assert_eq!(ask(2).completeness, Completeness::Finish);
    assert_eq!(ask(1).completeness, Completeness::More);
    let limits = LimitPolicy { default: 2, max: 2 };
    let query = Query {
        now: NOW + 1,
        limits,
        ..query(&[any()], &anybody)
    };
    assert_eq!(
        store.blocking().query(query).completeness,
        Completeness::Finish
    );
}

/// A sweep removes what has expired by its time and nothing else, and says how many.
pub fn a_sweep_removes_what_has_expired(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let first = expiring(draft(1, 1, 100), NOW + 10).build();
    let hidden = expiring(draft(1, 1, 101), NOW + 10).build();
    let second = expiring(draft(1, 0, 100), NOW + 11).build();
    let lasting = draft(1, 1, 102).build();
    store.store_all(&[
        first.clone(),
        hidden.clone(),
        second.clone(),
        lasting.clone(),
    ]);
    store.hide(&hidden, 1);
    assert_eq!(store.blocking().sweep(NOW + 9), 0);
    store.has_all_of(&[&first, &second, &lasting]);
    assert_eq!(store.blocking().sweep(NOW + 10), 2);
    assert_eq!(store.blocking().sweep(NOW + 10), 0);
    store.has_none_of(&[&first, &hidden]);
    store.has_all_of(&[&second, &lasting]);
    assert_eq!(store.blocking().sweep(u64::MAX), 1);
    store.shows(any(), &[&lasting]);
    assert_eq!(
        store.blocking().put(&first, NOW + 10),
        Outcome::Refused(Refusal::Expired)
    );
}

/// An expired deletion or request to vanish is not served, but a sweep leaves it in force.
pub fn a_sweep_leaves_deletions_and_requests_to_vanish(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let note = draft(1, 1, 100).build();
    let page = draft(1, 30_023, 100).tag(&["d", "x"]).build();
    let deletion = draft(1, 5, 200)
        .tag(&["e", &note.id().to_hex()])
        .tag(&["a", &format!("30023:{}:x", key(1))]);
    let deletion = expiring(deletion, NOW + 10).build();
    let request = expiring(draft(2, 62, 200), NOW + 10).build();
    store.store_all(&[note.clone(), page.clone(), deletion, request]);
    assert_eq!(store.blocking().sweep(NOW + 10), 0);
    store.shows_to(&Reader::operator(), NOW + 10, any(), &[]);
    let put = |event| store.blocking().put(event, NOW + 20);
    assert_eq!(put(&note), Outcome::Refused(Refusal::Deleted));
    assert_eq!(put(&page), Outcome::Refused(Refusal::Deleted));
    assert_eq!(
        put(&draft(2, 1, 100).build()),
        Outcome::Refused(Refusal::Vanished)
    );
}

/// Until a sweep an expired version stands in its address; afterwards the way is free.
pub fn an_expired_version_stands_until_the_sweep(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let older = draft(1, 0, 100).build();
    let newest = expiring(draft(1, 0, 200), NOW + 10).build();
    store.store(&newest);
    let late = NOW + 10;
    assert_eq!(store.blocking().put(&older, late), Outcome::Superseded);
    assert_eq!(store.blocking().put(&newest, late), Outcome::Duplicate);
    assert_eq!(store.blocking().sweep(late), 1);
    assert!(matches!(
        store.blocking().put(&older, late),
        Outcome::Stored(_)
    ));
    assert_eq!(
        store.blocking().put(&newest, late),
        Outcome::Refused(Refusal::Expired)
    );
    store.shows(any(), &[&older]);
}
