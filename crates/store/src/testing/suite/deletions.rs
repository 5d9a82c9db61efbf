//! Deletion requests (NIP-09), also of gift wraps by their recipients (NIP-59).

use std::sync::Arc;

use hikyaku_event::Event;

use super::{
    filters::{Narrow, any},
    subject::Subject,
};
use crate::{
    EventStore, Outcome, Reader, Refusal,
    testing::{Draft, draft, key},
};

/// A deletion of these events.
fn deletion(author: u32, at: u64, targets: &[&Arc<Event>]) -> Arc<Event> {
    let tag = |draft: Draft, event: &&Arc<Event>| draft.tag(&["e", &event.id().to_hex()]);
    targets.iter().fold(draft(author, 5, at), tag).build()
}

/// A deletion of an address.
fn address_deletion(author: u32, at: u64, address: &str) -> Arc<Event> {
    draft(author, 5, at).tag(&["a", address]).build()
}

fn address(kind: u16, author: u32, d: &str) -> String {
    format!("{kind}:{}:{d}", key(author))
}

/// By id, before and after: what is deleted is gone and can't return; the deletion itself is kept.
pub fn a_deletion_by_id_removes_and_keeps_away(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    for (author, kind) in [
        (1, 1),
        (2, 0),
        (3, 10_000),
        (4, 30_000),
        (5, 62_000),
        (6, 7),
    ] {
        let before = draft(author, kind, 100).content("before").build();
        let other = draft(author + 10, kind, 100).build();
        store.store_all(&[before.clone(), other.clone()]);
        let delete_before = deletion(author, 150, &[&before]);
        store.store(&delete_before);
        store.has_none_of(&[&before]);
        store.refuse(&before, Refusal::Deleted);

        let after = draft(author, kind, 120).content("after").build();
        let delete_after = deletion(author, 151, &[&after]);
        store.store(&delete_after);
        store.refuse(&after, Refusal::Deleted);
        store.has_none_of(&[&before, &after]);
        store.has_all_of(&[&other, &delete_before, &delete_after]);
    }
}

/// Deletion by id does not look at the time: a deletion may be older than what it deletes.
pub fn a_deletion_by_id_reaches_newer_events(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let [first, second] = [200, 201].map(|at| draft(1, 1, at).build());
    store.store(&first);
    store.store(&deletion(1, 100, &[&first, &second]));
    store.has_none_of(&[&first]);
    store.refuse(&first, Refusal::Deleted);
    store.refuse(&second, Refusal::Deleted);
}

/// Nobody deletes what is another's, in neither order.
pub fn only_the_author_deletes(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    for kind in [1, 0, 7, 30_000] {
        let [early, late] = [1, 2].map(|author| {
            let to = key(9).to_hex();
            draft(author, kind, 100)
                .tag(&["p", &to])
                .content("theirs")
                .build()
        });
        store.store(&early);
        store.store(&deletion(9, 200 + u64::from(kind), &[&early, &late]));
        store.store(&late);
        store.has_all_of(&[&early, &late]);
    }
}

/// By address: every version up to the deletion's time goes and stays away, newer ones are welcome;
/// for replaceable kinds too, with an empty `d`.
pub fn a_deletion_by_address_reaches_every_version_up_to_its_time(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    for (author, kind, d) in [
        (1, 0, ""),
        (2, 3, ""),
        (3, 10_000, ""),
        (4, 19_999, ""),
        (5, 30_000, ""),
        (6, 30_023, "x"),
        (7, 39_999, "a:b:c"),
        (8, 30_023, "\"\\\n\u{1f600}"),
    ] {
        let version = |at| draft(author, kind, at).tag(&["d", d]).build();
        let [old, same, next] = [100, 150, 151].map(version);
        store.store(&old);
        let deletion = address_deletion(author, 150, &address(kind, author, d));
        store.store(&deletion);
        store.has_none_of(&[&old]);
        store.refuse(&old, Refusal::Deleted);
        store.refuse(&same, Refusal::Deleted);
        store.store(&next);
        store.has_all_of(&[&next, &deletion]);
        let earlier = address_deletion(author, 120, &address(kind, author, d));
        store.store(&earlier);
        store.refuse(&same, Refusal::Deleted);
        store.has_all_of(&[&next]);
        store.store(&address_deletion(author, 151, &address(kind, author, d)));
        store.has_none_of(&[&next]);
    }
}

/// The deletion of an address may come before any version of it.
pub fn a_deletion_by_address_may_come_first(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    store.store(&address_deletion(1, 150, &address(30_023, 1, "x")));
    store.store(&address_deletion(1, 150, &address(0, 1, "")));
    for kind in [30_023, 0] {
        let [old, same, next] =
            [100, 150, 151].map(|at| draft(1, kind, at).tag(&["d", "x"]).build());
        store.refuse(&old, Refusal::Deleted);
        store.refuse(&same, Refusal::Deleted);
        store.store(&next);
    }
    store.store(&draft(1, 30_023, 100).tag(&["d", "y"]).build());
    store.store(&draft(1, 30_024, 100).tag(&["d", "x"]).build());
    store.store(&draft(2, 30_023, 100).tag(&["d", "x"]).build());
}

/// An address is the author's own or it is nothing; so is one of a kind without addresses, or text
/// that is none. The deletion is stored all the same.
pub fn other_addresses_delete_nothing(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let theirs = draft(1, 30_023, 100).tag(&["d", "x"]).build();
    let note = draft(2, 1, 100).tag(&["d", "x"]).build();
    let profile = draft(2, 0, 100).build();
    store.store_all(&[theirs.clone(), note.clone(), profile.clone()]);
    let me = key(2).to_hex();
    for text in [
        address(30_023, 1, "x"),
        address(1, 2, "x"),
        address(1, 2, ""),
        format!("30023:{me}"),
        format!("0:{}:", me.to_uppercase()),
        format!("65536:{me}:"),
        format!("{me}:0:"),
        "x".to_owned(),
        String::new(),
        "::".to_owned(),
    ] {
        let deletion = address_deletion(2, 200, &text);
        store.store(&deletion);
        store.has_all_of(&[&theirs, &note, &profile, &deletion]);
    }
}

/// Deleting one version by its id leaves its address open to the others.
pub fn deleting_one_version_by_id_leaves_the_others(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let [first, second, third] =
        [100, 101, 102].map(|at| draft(1, 30_023, at).tag(&["d", "x"]).build());
    store.store(&second);
    store.store(&deletion(1, 200, &[&second]));
    store.refuse(&second, Refusal::Deleted);
    store.store(&first);
    store.shows(any().kinds([30_023]), &[&first]);
    store.store(&third);
    assert_eq!(store.put(&first), Outcome::Superseded);
    store.refuse(&second, Refusal::Deleted);
}

/// A deletion of a deletion, in either order, does nothing: both stand.
pub fn deleting_a_deletion_does_nothing(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let note = draft(1, 1, 100).build();
    store.store(&note);
    let first = deletion(1, 200, &[&note]);
    let second = deletion(1, 300, &[&first]);
    store.store_all(&[first.clone(), second.clone()]);
    store.has_all_of(&[&first, &second]);
    store.refuse(&note, Refusal::Deleted);

    let later_note = draft(1, 1, 101).build();
    let later = deletion(1, 201, &[&later_note]);
    let earlier = deletion(1, 301, &[&later]);
    store.store_all(&[earlier.clone(), later.clone()]);
    store.has_all_of(&[&earlier, &later]);
    store.refuse(&later_note, Refusal::Deleted);
}

/// One deletion may name many things; what it may not delete, and what is no id, is skipped.
pub fn one_deletion_names_many_things(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let mine = [100, 101, 102].map(|at| draft(1, 1, at).build());
    let page = draft(1, 30_023, 100).tag(&["d", "x"]).build();
    let theirs = draft(2, 1, 100).build();
    let their_page = draft(2, 30_023, 100).tag(&["d", "x"]).build();
    let kept = draft(1, 1, 103).build();
    store.store_all(&mine);
    store.store_all(&[
        page.clone(),
        theirs.clone(),
        their_page.clone(),
        kept.clone(),
    ]);
    let request = draft(1, 5, 200)
        .tag(&["e", "not an id"])
        .tag(&["e"])
        .tag(&["e", &mine[0].id().to_hex(), "wss://relay.example.com/"])
        .tag(&["e", &theirs.id().to_hex()])
        .tag(&["E", &kept.id().to_hex()])
        .tag(&["e", &kept.id().to_hex().to_uppercase()])
        .tag(&["q", &kept.id().to_hex()])
        .tag(&["e", &mine[1].id().to_hex()])
        .tag(&["e", &mine[0].id().to_hex()])
        .tag(&["a", &address(30_023, 2, "x")])
        .tag(&["a", &address(30_023, 1, "x")])
        .tag(&["e", &mine[2].id().to_hex()])
        .tag(&["k", "1"])
        .build();
    store.store(&request);
    store.has_none_of(&[&mine[0], &mine[1], &mine[2], &page]);
    store.has_all_of(&[&theirs, &their_page, &kept, &request]);
}

/// A kind 5 without any target is an event like others.
pub fn a_deletion_of_nothing_is_stored(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let note = draft(1, 1, 100).build();
    let empty = draft(1, 5, 200).build();
    store.store_all(&[note.clone(), empty.clone()]);
    store.shows(any(), &[&note, &empty]);
    store.shows(any().kinds([5]), &[&empty]);
}

/// Only kind 5 deletes: another event with the same tags does nothing.
pub fn only_kind_5_deletes(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let note = draft(1, 1, 100).build();
    let id = note.id().to_hex();
    store.store(&note);
    for kind in [1, 4, 6, 7, 50, 1_984, 9_005] {
        let event = draft(1, kind, 50).tag(&["e", &id]).build();
        assert!(
            matches!(store.put(&event), Outcome::Stored(_)),
            "kind {kind}"
        );
    }
    store.has_all_of(&[&note]);
}

/// The recipient of a gift wrap may delete it, in either order; a bystander may not.
pub fn a_recipient_deletes_gift_wraps(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let operator = Reader::operator();
    let wrap = |author, content: &str| {
        let draft = draft(author, 1059, 100).content(content);
        draft
            .tag(&["p", &key(1).to_hex()])
            .tag(&["p", &key(2).to_hex(), "wss://x.example/"])
            .build()
    };
    let [first, second, third, kept] = ["a", "b", "c", "d"].map(|content| wrap(50, content));
    store.store_all(&[first.clone(), second.clone(), kept.clone()]);
    store.store(&deletion(1, 200, &[&first]));
    store.store(&deletion(2, 200, &[&second, &third]));
    store.store(&deletion(3, 200, &[&kept]));
    for gone in [&first, &second, &third] {
        store.refuse(gone, Refusal::Deleted);
    }
    assert_eq!(store.ids_for(any().kinds([1059]), &operator), [kept.id()]);
    let own = wrap(50, "e");
    store.store(&own);
    store.store(&deletion(50, 200, &[&own]));
    store.refuse(&own, Refusal::Deleted);
    let ours = wrap(51, "f");
    store.store(&deletion(3, 201, &[&ours]));
    store.store(&ours);
    assert!(store.contains(&ours) && store.contains(&kept));
}

/// Being p-tagged gives no such right over any other kind.
pub fn a_recipient_deletes_nothing_but_gift_wraps(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    for kind in [1, 4, 13, 14, 1058, 1060, 30_023] {
        let to = key(1).to_hex();
        let [early, late] = [2, 3].map(|author| draft(author, kind, 100).tag(&["p", &to]).build());
        store.store(&early);
        store.store(&deletion(1, 200 + u64::from(kind), &[&early, &late]));
        store.store(&late);
        assert!(
            store.contains(&early) && store.contains(&late),
            "kind {kind}"
        );
    }
}

/// A hidden deletion is in force; one that the operator removed is not any more.
pub fn a_deletion_is_in_force_while_it_is_stored(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let note = draft(1, 1, 100).build();
    let page = draft(1, 30_023, 100).tag(&["d", "x"]).build();
    let by_id = deletion(1, 200, &[&note]);
    let by_address = address_deletion(1, 200, &address(30_023, 1, "x"));
    store.store_all(&[
        note.clone(),
        page.clone(),
        by_id.clone(),
        by_address.clone(),
    ]);
    assert_eq!(store.hide(&by_id, 1), Outcome::Done);
    assert_eq!(store.hide(&by_address, 1), Outcome::Done);
    store.refuse(&note, Refusal::Deleted);
    store.refuse(&page, Refusal::Deleted);
    assert_eq!(store.remove(&by_id), Outcome::Done);
    assert_eq!(store.remove(&by_address), Outcome::Done);
    store.store_all(&[note.clone(), page.clone()]);
    store.shows(any(), &[&note, &page]);
}

/// What is hidden is deleted like anything else.
pub fn hidden_events_are_deleted_too(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let note = draft(1, 1, 100).build();
    store.store(&note);
    store.hide(&note, 1);
    store.store(&deletion(1, 200, &[&note]));
    assert!(!store.contains(&note));
    assert_eq!(store.unhide(&note, 1), Outcome::Absent);
    store.refuse(&note, Refusal::Deleted);
}
