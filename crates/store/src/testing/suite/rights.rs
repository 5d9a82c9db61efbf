//! Who may read private kinds (NIP-17, NIP-42, NIP-59).

use std::sync::Arc;

use hikyaku_event::Event;

use super::{
    filters::{Narrow, any},
    subject::{NOW, Subject, query},
};
use crate::{
    Completeness, EventStore, LimitPolicy, Query, Reader,
    testing::{draft, key},
};

/// A message of that kind from one to others.
fn message(kind: u16, from: u32, to: &[u32], at: u64) -> Arc<Event> {
    let draft = draft(from, kind, at);
    to.iter()
        .fold(draft, |draft, to| draft.tag(&["p", &key(*to).to_hex()]))
        .build()
}

fn reader(keys: &[u32]) -> Reader {
    Reader::authenticated(keys.iter().copied().map(key))
}

/// Kind 4 is for its author and the p-tagged, kind 1059 for the p-tagged alone; the operator reads
/// all; several keys read what each of them reads. By every door.
pub fn private_kinds_are_for_their_parties(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let public = message(1, 1, &[2], 100);
    let direct = message(4, 1, &[2], 101);
    let to_self = message(4, 3, &[], 102);
    let wrap = message(1059, 1, &[2], 103);
    let group = message(1059, 4, &[2, 3], 104);
    let to_nobody = message(1059, 5, &[], 105);
    let all = [&public, &direct, &to_self, &wrap, &group, &to_nobody];
    store.store_all(&all.map(Arc::clone));
    let cases: [(Reader, &[&Arc<Event>]); 8] = [
        (Reader::anonymous(), &[&public]),
        (reader(&[1]), &[&public, &direct]),
        (reader(&[2]), &[&public, &direct, &wrap, &group]),
        (reader(&[3]), &[&public, &to_self, &group]),
        (reader(&[5]), &[&public]),
        (reader(&[6, 3, 1]), &[&public, &direct, &to_self, &group]),
        (reader(&[6]), &[&public]),
        (Reader::operator(), &all),
    ];
    for (reader, visible) in cases {
        let of_kind = |kinds: &[u16]| -> Vec<&Arc<Event>> {
            visible
                .iter()
                .filter(|event| kinds.contains(&event.kind().0))
                .copied()
                .collect()
        };
        let to_2: Vec<_> = visible
            .iter()
            .filter(|event| event.is_party(&key(2)))
            .copied()
            .collect();
        let shows = |filter, events: &[&Arc<Event>]| store.shows_to(&reader, NOW, filter, events);
        shows(any(), visible);
        shows(any().ids(all), visible);
        shows(any().authors(1..6), visible);
        shows(any().kinds([4]), &of_kind(&[4]));
        shows(any().kinds([1059]), &of_kind(&[1059]));
        shows(any().kinds([4, 1059]), &of_kind(&[4, 1059]));
        shows(any().kinds([1, 4]), &of_kind(&[1, 4]));
        shows(any().tag('p', [&*key(2).to_hex()]), &to_2);
    }
}

/// What a reader may not see uses up no limit and is no `more`.
pub fn unreadable_events_use_up_no_limit(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    for at in 200..230 {
        store.store(&message(1059, 1, &[2], at));
    }
    let mine = [100, 101, 102].map(|at| message(1059, 1, &[3], at));
    let note = message(1, 1, &[], 99);
    store.store_all(&mine);
    store.store(&note);
    let me = reader(&[3]);
    let ask = |filter, limits| {
        store.blocking().query(Query {
            limits,
            ..query(&[filter], &me)
        })
    };
    let unlimited = LimitPolicy::UNLIMITED;
    let two = ask(any().limit(2), unlimited);
    assert_eq!(two.ids(), [mine[2].id(), mine[1].id()]);
    assert_eq!(two.completeness, Completeness::More);
    let four = ask(any().limit(4), unlimited);
    assert_eq!(
        four.ids(),
        [mine[2].id(), mine[1].id(), mine[0].id(), note.id()]
    );
    assert_eq!(four.completeness, Completeness::Finish);
    let by_author = ask(
        any().authors([1]).kinds([1059]),
        LimitPolicy { default: 3, max: 3 },
    );
    assert_eq!(by_author.ids(), [mine[2].id(), mine[1].id(), mine[0].id()]);
    assert_eq!(by_author.completeness, Completeness::Finish);
    let anybody = store.ask(&[any().limit(1)]);
    assert_eq!(
        (anybody.ids(), anybody.completeness),
        (vec![note.id()], Completeness::Finish)
    );
}

/// A run of equal times ends where the readable part of it ends.
pub fn unreadable_events_are_no_part_of_a_run(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let notes: Vec<_> = (0..4)
        .map(|n| draft(n, 1, 100).content(&n.to_string()).build())
        .collect();
    let wraps: Vec<_> = (10..30).map(|n| message(1059, n, &[2], 100)).collect();
    store.store_all(&notes);
    store.store_all(&wraps);
    let answer = store.ask_with(&[any()], LimitPolicy { default: 2, max: 2 });
    assert_eq!(answer.ids().len(), 4);
    assert_eq!(answer.completeness, Completeness::Finish);
}
