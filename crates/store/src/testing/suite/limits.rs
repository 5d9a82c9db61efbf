//! Limits, and what is said about what they left out (NIP-01, NIP-67).

use std::sync::Arc;

use hikyaku_event::{Event, Filter};

use super::{
    filters::{Narrow, any},
    subject::{Subject, newest_first},
};
use crate::{
    Completeness::{self, Finish, More, Unknown},
    EventStore, LimitPolicy,
    testing::draft,
};

const fn limits(default: u32, max: u32) -> LimitPolicy {
    LimitPolicy { default, max }
}

/// Stores notes of one author at these times.
fn notes(
    store: &Subject<'_>,
    author: u32,
    times: impl IntoIterator<Item = u64>,
) -> Vec<Arc<Event>> {
    let note = |(n, at): (usize, u64)| draft(author, 1, at).content(&n.to_string()).build();
    let notes: Vec<_> = times.into_iter().enumerate().map(note).collect();
    store.store_all(&notes);
    notes
}

/// Checks how many of what there is an answer has (always the newest), and what is said of it.
fn check(
    store: &Subject<'_>,
    filter: Filter,
    limits: LimitPolicy,
    len: usize,
    completeness: Completeness,
) {
    let all = store.ids(Filter {
        limit: None,
        ..filter.clone()
    });
    let answer = store.ask_with(std::slice::from_ref(&filter), limits);
    assert_eq!(answer.ids(), all[..len], "{filter:?} {limits:?}");
    assert_eq!(answer.completeness, completeness, "{filter:?} {limits:?}");
}

/// `finish` where that was all, `more` where it was not, to the very last event.
pub fn hints_are_exact(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    notes(&store, 1, 100..110);
    for filter in [
        any(),
        any().kinds([1]),
        any().authors([1, 2]),
        any().kinds([1, 2]).since(1),
    ] {
        check(&store, filter.clone(), LimitPolicy::UNLIMITED, 10, Finish);
        for (limit, len, completeness) in [
            (1, 1, More),
            (9, 9, More),
            (10, 10, Finish),
            (11, 11 - 1, Finish),
        ] {
            let filter = filter.clone().limit(limit);
            check(&store, filter.clone(), limits(500, 500), len, completeness);
            check(&store, filter, LimitPolicy::UNLIMITED, len, completeness);
        }
        check(&store, filter.clone(), limits(9, 500), 9, More);
        check(&store, filter.clone(), limits(10, 500), 10, Finish);
        check(&store, filter.limit(u64::MAX), limits(5, 9), 9, More);
    }
    check(&store, any().kinds([7]), limits(5, 5), 0, Finish);
    check(&store, any().kinds([7]).limit(3), limits(5, 5), 0, Finish);
}

/// An answer is never longer than the client's `limit`, also in a run of equal times.
pub fn the_clients_limit_is_never_passed(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    notes(&store, 1, [100; 10]);
    for limit in 1..10 {
        for policy in [
            limits(500, 500),
            limits(1, 500),
            limits(2, 10),
            LimitPolicy::UNLIMITED,
        ] {
            check(&store, any().limit(limit), policy, limit as usize, More);
        }
    }
    check(&store, any().limit(10), limits(500, 500), 10, Finish);
}

/// Our own cap is passed to finish a run of equal times, up to twice.
pub fn our_cap_is_passed_to_finish_a_run(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    // Newest first: 2 at 103, 3 at 102, 1 at 101, 6 at 100.
    notes(
        &store,
        1,
        [103, 103, 102, 102, 102, 101, 100, 100, 100, 100, 100, 100],
    );
    for (max, len) in [
        (1, 2),
        (2, 2),
        (3, 5),
        (4, 5),
        (5, 5),
        (6, 6),
        (7, 12),
        (11, 12),
    ] {
        let completeness = if len == 12 { Finish } else { More };
        for filter in [
            any(),
            any().limit(500),
            any().kinds([1]),
            any().authors([1]).limit(12),
        ] {
            check(&store, filter.clone(), limits(max, max), len, completeness);
            check(&store, filter, limits(500, max), len, completeness);
        }
    }
    check(&store, any(), limits(12, 12), 12, Finish);
}

/// Twice our cap is the end, wherever the run is.
pub fn twice_our_cap_is_the_end(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    notes(
        &store,
        1,
        [102, 101, 101, 101, 101, 101, 101, 101, 101, 101, 100],
    );
    for (max, len) in [
        (1, 1),
        (2, 4),
        (3, 6),
        (4, 8),
        (5, 10),
        (6, 10),
        (9, 10),
        (10, 10),
    ] {
        check(&store, any(), limits(max, max), len, More);
        check(
            &store,
            any().kinds([1]).limit(400),
            limits(max, max),
            len,
            More,
        );
    }
    check(&store, any(), limits(11, 11), 11, Finish);
}

/// A client's limit above our cap bounds what a run may add to the cap.
pub fn a_run_ends_at_the_clients_limit(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    notes(&store, 1, [100; 20]);
    for (limit, len) in [(4, 4), (5, 5), (6, 6), (7, 7), (8, 8), (9, 8), (500, 8)] {
        check(&store, any().limit(limit), limits(500, 4), len, More);
    }
}

/// The default counts where the client says nothing, at most our cap, and may be passed like it.
pub fn the_default_limit_is_for_filters_without_one(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    notes(&store, 1, [104, 103, 102, 102, 102, 102, 101]);
    check(&store, any(), limits(1, 500), 1, More);
    check(&store, any(), limits(2, 500), 2, More);
    check(&store, any(), limits(3, 500), 6, More);
    check(&store, any(), limits(500, 2), 2, More);
    check(&store, any().limit(3), limits(1, 500), 3, More);
    check(&store, any().limit(7), limits(1, 500), 7, Finish);
}

/// A limit of 0 gives nothing and says nothing about what there is.
pub fn a_limit_of_zero_asks_nothing(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    check(&store, any().limit(0), limits(500, 500), 0, Unknown);
    notes(&store, 1, 100..103);
    for filter in [any(), any().kinds([1]), any().kinds([7])] {
        check(&store, filter.limit(0), limits(500, 500), 0, Unknown);
    }
    for (other, len, completeness) in [
        (any(), 3, Unknown),
        (any().kinds([7]), 0, Unknown),
        (any().limit(3), 3, Unknown),
        (any().limit(2), 2, More),
        (any().limit(0), 0, Unknown),
    ] {
        let answer = store.ask(&[any().limit(0), other]);
        assert_eq!(
            (answer.ids().len(), answer.completeness),
            (len, completeness)
        );
    }
}

/// Each filter of a REQ has its own limit, and the answers are one newest-first sequence.
pub fn each_filter_has_its_own_limit(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let first = notes(&store, 1, [100, 103, 106]);
    let second = notes(&store, 2, [101, 104, 107, 104]);
    let by = |author| any().authors([author]);
    let answer = store.ask(&[by(1).limit(2), by(2).limit(3)]);
    let expected = [&first[1], &first[2], &second[1], &second[2], &second[3]];
    assert_eq!(answer.ids(), newest_first(&expected));
    assert_eq!(answer.completeness, More);
    let answer = store.ask(&[by(2).limit(1), by(1)]);
    assert_eq!(
        answer.ids(),
        newest_first(&[&first[0], &first[1], &first[2], &second[2]])
    );
    let answer = store.ask_with(&[by(1), by(2)], limits(1, 500));
    assert_eq!(answer.ids(), [second[2].id(), first[2].id()]);
    let answer = store.ask(&[by(1).limit(3), by(2).limit(4)]);
    assert_eq!((answer.ids().len(), answer.completeness), (7, Finish));
}

/// What several filters match comes once, and uses up the limit of each.
pub fn an_event_of_several_filters_comes_once(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let notes = notes(&store, 1, 100..106);
    let ids: Vec<_> = notes.iter().rev().map(|note| note.id()).collect();
    let answer = store.ask(&[any(), any().kinds([1]), any().authors([1])]);
    assert_eq!((answer.ids(), answer.completeness), (ids.clone(), Finish));
    let answer = store.ask(&[any().limit(2), any().kinds([1]).limit(3)]);
    assert_eq!(
        (answer.ids(), answer.completeness),
        (ids[..3].to_vec(), More)
    );
    let answer = store.ask(&[any().until(103).limit(2), any().limit(3)]);
    assert_eq!(
        (answer.ids(), answer.completeness),
        (ids[..4].to_vec(), More)
    );
    let same = any().kinds([1]).limit(2);
    let answer = store.ask(&[same.clone(), same.clone(), same]);
    assert_eq!(answer.ids(), ids[..2]);
}

/// What one filter leaves out and another brings is not missing.
pub fn what_another_filter_brings_is_not_missing(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let notes = notes(&store, 1, 100..106);
    let answer = store.ask(&[any().limit(4), any().until(101)]);
    assert_eq!((answer.ids().len(), answer.completeness), (6, Finish));
    let answer = store.ask(&[any().limit(4), any().until(101).limit(1)]);
    assert_eq!((answer.ids().len(), answer.completeness), (5, More));
    let answer = store.ask(&[any().limit(4), any().ids([&notes[0], &notes[1]])]);
    assert_eq!((answer.ids().len(), answer.completeness), (6, Finish));
    let answer = store.ask(&[any().limit(4), any().ids([&notes[0]])]);
    assert_eq!((answer.ids().len(), answer.completeness), (5, More));
}

/// Hidden events use up no limit, are no part of a run and no `more`.
pub fn hidden_events_use_up_no_limit(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let hidden = notes(&store, 1, (200..220).chain([100; 5]));
    let shown = notes(&store, 2, [100, 100, 99]);
    for event in &hidden {
        store.hide(event, 1);
    }
    for filter in [any(), any().kinds([1]), any().authors([1, 2])] {
        check(&store, filter.clone().limit(3), limits(500, 500), 3, Finish);
        check(&store, filter.clone().limit(2), limits(500, 500), 2, More);
        check(&store, filter.clone(), limits(1, 1), 2, More);
        check(&store, filter, limits(3, 3), 3, Finish);
    }
    store.shows(any(), &shown.iter().collect::<Vec<_>>());
}
