//! Requests to vanish (NIP-62).

use std::sync::Arc;

use hikyaku_event::Event;

use super::{
    filters::{Narrow, any},
    subject::Subject,
};
use crate::{
    EventStore, Outcome, Reader, Refusal, Write,
    testing::{draft, key},
};

fn request(author: u32, at: u64) -> Arc<Event> {
    draft(author, 62, at).tag(&["relay", "ALL_RELAYS"]).build()
}

/// Everything by the key up to the request's time goes, deletions included, and can't return;
/// newer events and other people's stay and are welcome; the request stays.
pub fn everything_up_to_the_request_goes_and_stays_away(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let old = [
        draft(1, 1, 0).build(),
        draft(1, 1, 100).build(),
        draft(1, 1, 200).build(),
        draft(1, 0, 150).build(),
        draft(1, 30_023, 150).tag(&["d", "x"]).build(),
        draft(1, 5, 150).tag(&["e", &"ab".repeat(32)]).build(),
        draft(1, 5, 200).build(),
    ];
    let new = [
        draft(1, 1, 201).build(),
        draft(1, 3, 201).build(),
        draft(1, 30_023, 300).tag(&["d", "y"]).build(),
        draft(1, 5, 201).build(),
    ];
    let others = [
        draft(2, 1, 100).tag(&["p", &key(1).to_hex()]).build(),
        draft(2, 5, 100).build(),
    ];
    store.store_all(&old);
    store.store_all(&new);
    store.store_all(&others);
    let request = request(1, 200);
    store.store(&request);
    store.has_none_of(&old.iter().collect::<Vec<_>>());
    for event in &old {
        store.refuse(event, Refusal::Vanished);
    }
    store.refuse(
        &draft(1, 1, 199).content("never seen").build(),
        Refusal::Vanished,
    );
    let newer = draft(1, 0, 201).build();
    store.store(&newer);
    let kept: Vec<_> = new
        .iter()
        .chain(&others)
        .chain([&request, &newer])
        .collect();
    store.shows(any(), &kept);
}

/// The request may come before anything else.
pub fn a_request_may_come_first(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    store.store(&request(1, 200));
    store.refuse(&draft(1, 1, 200).build(), Refusal::Vanished);
    store.refuse(&draft(1, 5, 200).build(), Refusal::Vanished);
    store.refuse(&draft(1, 30_023, 100).build(), Refusal::Vanished);
    store.store(&draft(1, 1, 201).build());
    store.store(&draft(2, 1, 200).build());
}

/// Requests to vanish are neither deleted nor vanished, in any order.
pub fn requests_to_vanish_stay(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let [first, second, third] = [200, 150, 300].map(|at| request(1, at));
    let delete = draft(1, 5, 400)
        .tag(&["e", &first.id().to_hex()])
        .tag(&["e", &second.id().to_hex()])
        .build();
    store.store(&first);
    store.store(&delete);
    store.store(&second);
    store.refuse(&draft(1, 1, 180).build(), Refusal::Vanished);
    store.store(&draft(1, 1, 250).build());
    store.store(&third);
    store.shows(any(), &[&first, &second, &third, &delete]);
    store.refuse(&draft(1, 1, 180).build(), Refusal::Vanished);
    store.refuse(&draft(1, 1, 300).build(), Refusal::Vanished);
    assert_eq!(store.put(&first), Outcome::Duplicate);
}

/// A request that does not mean this relay is stored and does nothing, also when sent again.
pub fn a_request_to_others_does_nothing(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let note = draft(1, 1, 100).build();
    store.store(&note);
    let event = request(1, 200);
    let outcomes = store.write(vec![Write::Event {
        event: event.clone(),
        vanish: false,
    }]);
    assert!(matches!(outcomes[..], [Outcome::Stored(_)]), "{outcomes:?}");
    let late = draft(1, 1, 150).build();
    store.store(&late);
    assert_eq!(store.put(&event), Outcome::Duplicate);
    store.shows(any(), &[&note, &late, &event]);
}

/// Only kind 62 vanishes, whatever the writer says about other kinds.
pub fn only_kind_62_vanishes(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let note = draft(1, 1, 100).build();
    store.store(&note);
    for kind in [1, 5, 61, 63] {
        let event = draft(1, kind, 200).tag(&["relay", "ALL_RELAYS"]).build();
        store.write(vec![Write::Event {
            event,
            vanish: true,
        }]);
    }
    store.has_all_of(&[&note]);
    store.store(&draft(1, 1, 101).build());
}

/// Gift wraps to the key up to then go and stay away; newer ones, and those to others, stay.
pub fn gift_wraps_to_the_key_go_too(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let wrap = |to: &[u32], at| {
        let wrap = draft(50, 1059, at);
        to.iter()
            .fold(wrap, |wrap, to| wrap.tag(&["p", &key(*to).to_hex()]))
            .build()
    };
    let gone = [wrap(&[1], 100), wrap(&[2, 1], 200)];
    let kept = [wrap(&[1], 201), wrap(&[2], 100)];
    store.store_all(&gone);
    store.store_all(&kept);
    let direct = draft(2, 4, 100).tag(&["p", &key(1).to_hex()]).build();
    store.store(&direct);
    store.store(&request(1, 200));
    for event in gone
        .iter()
        .chain([&wrap(&[1], 150), &wrap(&[3, 2, 1], 151)])
    {
        store.refuse(event, Refusal::Vanished);
    }
    let welcome = wrap(&[1], 202);
    store.store(&welcome);
    let expected: Vec<_> = kept.iter().chain([&direct, &welcome]).collect();
    store.shows_to(
        &Reader::operator(),
        10_000,
        any().kinds([4, 1059]),
        &expected,
    );
    let own = request(50, 150);
    store.store(&own);
    assert!(!store.contains(&kept[1]) && store.contains(&kept[0]));
}

/// With its deletions a key takes back what they kept away, as far as it is newer than the request.
pub fn a_vanished_deletion_is_no_longer_in_force(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let note = draft(1, 1, 300).build();
    let page = draft(1, 30_023, 100).tag(&["d", "x"]).build();
    let deletion = draft(1, 5, 100)
        .tag(&["e", &note.id().to_hex()])
        .tag(&["a", &format!("30023:{}:x", key(1))])
        .build();
    store.store(&deletion);
    store.refuse(&note, Refusal::Deleted);
    store.refuse(&page, Refusal::Deleted);
    store.store(&request(1, 200));
    store.has_none_of(&[&deletion]);
    store.store(&note);
    store.refuse(&page, Refusal::Vanished);
    store.refuse(&deletion, Refusal::Vanished);
}

/// A hidden request is in force; one that the operator removed is not any more.
pub fn a_request_is_in_force_while_it_is_stored(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let [early, late] = [request(1, 100), request(1, 200)];
    let [first, second] = [90, 190].map(|at| draft(1, 1, at).build());
    store.store_all(&[late.clone(), early.clone()]);
    assert_eq!(store.hide(&late, 1), Outcome::Done);
    store.refuse(&second, Refusal::Vanished);
    assert_eq!(store.remove(&late), Outcome::Done);
    store.store(&second);
    store.refuse(&first, Refusal::Vanished);
    store.store(&late);
    store.has_none_of(&[&second]);
}

/// Hidden events vanish like others.
pub fn hidden_events_vanish_too(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let note = draft(1, 1, 100).build();
    store.store(&note);
    store.hide(&note, 1);
    store.store(&request(1, 200));
    assert!(!store.contains(&note));
    assert_eq!(store.unhide(&note, 1), Outcome::Absent);
}
