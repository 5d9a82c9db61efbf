//! Hiding, taking back, removing, and what is told of it.

use super::{
    filters::{Narrow, any},
    subject::{NOW, Subject},
};
use crate::{
    EventStore, Hider, Outcome, Reader, RemovalReason, Write,
    testing::{draft, key},
};

/// Hidden is absent for everyone, the operator included, until each hider has taken it back.
pub fn an_event_is_hidden_until_each_hider_takes_it_back(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let event = draft(1, 1, 100).tag(&["t", "x"]).build();
    let other = draft(1, 1, 101).tag(&["t", "x"]).build();
    store.store_all(&[event.clone(), other.clone()]);
    let filters = [
        any(),
        any().kinds([1]),
        any().authors([1]),
        any().tag('t', ["x"]),
    ];
    let hidden = || {
        for filter in &filters {
            for reader in [
                Reader::anonymous(),
                Reader::authenticated([key(1)]),
                Reader::operator(),
            ] {
                store.shows_to(&reader, NOW, filter.clone(), &[&other]);
            }
        }
        assert!(store.contains(&event));
        assert_eq!(store.put(&event), Outcome::Duplicate);
    };
    assert_eq!(store.hide(&event, 1), Outcome::Done);
    hidden();
    assert_eq!(store.hide(&event, 1), Outcome::Absent);
    assert_eq!(store.hide(&event, u32::MAX), Outcome::Done);
    assert_eq!(store.unhide(&event, 2), Outcome::Absent);
    assert_eq!(store.unhide(&event, 1), Outcome::Done);
    hidden();
    assert_eq!(store.unhide(&event, 1), Outcome::Absent);
    assert_eq!(store.unhide(&event, u32::MAX), Outcome::Done);
    for filter in &filters {
        store.shows(filter.clone(), &[&event, &other]);
    }
    assert_eq!(store.hide(&event, 1), Outcome::Done);
    hidden();
}

/// What is not there can't be hidden, shown or removed.
pub fn changes_to_what_is_not_there_are_absent(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let event = draft(1, 1, 100).build();
    assert_eq!(store.hide(&event, 1), Outcome::Absent);
    assert_eq!(store.unhide(&event, 1), Outcome::Absent);
    assert_eq!(store.remove(&event), Outcome::Absent);
    store.store(&event);
    store.shows(any(), &[&event]);
    assert_eq!(store.unhide(&event, 1), Outcome::Absent);
    assert_eq!(store.remove(&event), Outcome::Done);
    assert_eq!(store.remove(&event), Outcome::Absent);
    assert_eq!(store.hide(&event, 1), Outcome::Absent);
    store.has_none_of(&[&event]);
}

/// What the operator removed may return, whatever its kind, and is then visible.
pub fn what_the_operator_removed_may_return(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    for kind in [1, 0, 5, 62, 30_023] {
        let event = draft(u32::from(kind), kind, 100).tag(&["t", "x"]).build();
        store.store(&event);
        store.hide(&event, 1);
        assert_eq!(store.remove(&event), Outcome::Done);
        store.has_none_of(&[&event]);
        store.store(&event);
        store.has_all_of(&[&event]);
        store.shows(any().tag('t', ["x"]).kinds([kind]), &[&event]);
        assert_eq!(store.unhide(&event, 1), Outcome::Absent);
    }
}

/// A removal for any reason removes; that alone keeps no id away.
pub fn a_removal_alone_keeps_no_id_away(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let event = draft(1, 1, 100).build();
    for reason in [
        RemovalReason::Replaced,
        RemovalReason::Deleted,
        RemovalReason::Vanished,
        RemovalReason::Expired,
        RemovalReason::Operator,
    ] {
        store.store(&event);
        let remove = Write::Remove {
            id: event.id(),
            reason,
        };
        assert_eq!(store.write(vec![remove]), [Outcome::Done]);
        store.has_none_of(&[&event]);
    }
}

/// `contains` knows what is stored, each id by itself, hidden ones too.
pub fn contains_answers_for_each_id(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let [a, b, c, d] = [100, 101, 102, 103].map(|at| draft(1, 1, at).build());
    store.store_all(&[a.clone(), b.clone(), c.clone()]);
    store.remove(&b);
    store.hide(&c, 1);
    let ids = [d.id(), a.id(), b.id(), c.id(), a.id()];
    assert_eq!(
        store.blocking().contains(&ids),
        [false, true, false, true, true]
    );
    assert_eq!(store.blocking().contains(&[]), [false; 0]);
}

/// A sent-again event is a duplicate and changes nothing, its hidings neither.
pub fn duplicates_change_nothing(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let event = draft(1, 1, 100).build();
    store.store(&event);
    let before = store.ask(&[any()]).events[0].sequence;
    assert_eq!(store.put(&event), Outcome::Duplicate);
    let hide = Write::Hide {
        id: event.id(),
        by: Hider(1),
    };
    assert_eq!(store.write(vec![hide]), [Outcome::Done]);
    assert_eq!(store.put(&event), Outcome::Duplicate);
    store.shows(any(), &[]);
    store.unhide(&event, 1);
    assert_eq!(store.ask(&[any()]).events[0].sequence, before);
    assert_eq!(store.count(&[any()]), 1);
}
