//! Several writes at once: in one batch, whose elements see each other, and from several threads.

use std::{sync::Arc, thread};

use super::{
    filters::{Narrow, any},
    subject::{NOW, Subject, newest_first},
};
use crate::{
    EventStore, Hider, Outcome, Refusal, RemovalReason, Write,
    testing::{Blocking, draft, key},
};

/// What became of a write, without the number it was stored under.
fn plain(outcomes: &[Outcome]) -> Vec<Outcome> {
    let stored = Outcome::Stored(crate::Sequence(0));
    let plain = |outcome: &Outcome| match outcome {
        Outcome::Stored(_) => stored,
        other => *other,
    };
    outcomes.iter().map(plain).collect()
}

const STORED: Outcome = Outcome::Stored(crate::Sequence(0));

/// Outcomes come in the order of the batch, one each; none for none.
pub fn outcomes_come_in_order(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let [a, b, c] = [100, 101, 102].map(|at| draft(1, 1, at).build());
    store.store(&b);
    let ephemeral = draft(1, 20_000, 100).build();
    let outcomes = store.put_all(&[&a, &b, &ephemeral, &c, &a]);
    let refused = Outcome::Refused(Refusal::Ephemeral);
    let duplicate = Outcome::Duplicate;
    assert_eq!(
        plain(&outcomes),
        [STORED, duplicate, refused, STORED, duplicate]
    );
    assert_eq!(store.put_all(&[]), []);
    store.shows(any(), &[&a, &b, &c]);
}

/// Numbers grow with every stored event, within batches and across them, and are its own in answers.
pub fn sequences_grow(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let events: Vec<_> = (0..30)
        .map(|n| draft(n % 3, 1, 200 - u64::from(n)).build())
        .collect();
    let mut sequences = Vec::new();
    for batch in events.chunks(7) {
        for outcome in store.blocking().put_all(batch, NOW) {
            let Outcome::Stored(sequence) = outcome else {
                panic!("{outcome:?}")
            };
            sequences.push(sequence);
        }
        store.remove(&batch[0]);
        let Outcome::Stored(again) = store.put(&batch[0]) else {
            panic!("it may return")
        };
        assert!(again > *sequences.last().unwrap());
        let len = sequences.len();
        sequences[len - batch.len()] = again;
    }
    assert!(sequences[0].0 > 0);
    for (event, sequence) in events.iter().zip(sequences) {
        let answer = store.ask(&[any().ids([event])]);
        assert_eq!(answer.events[0].sequence, sequence);
        assert!(answer.snapshot >= sequence);
    }
}

/// The same event twice in a batch is stored once.
pub fn an_event_twice_in_a_batch_is_stored_once(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    for kind in [1, 0, 5, 62, 30_000] {
        let event = draft(u32::from(kind), kind, 100).build();
        let outcomes = store.put_all(&[&event, &event, &event]);
        assert_eq!(
            plain(&outcomes),
            [STORED, Outcome::Duplicate, Outcome::Duplicate]
        );
        store.shows(any().kinds([kind]), &[&event]);
    }
}

/// Versions of one address in one batch: the newest is kept, whatever their order.
pub fn versions_in_one_batch_leave_the_newest(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let superseded = Outcome::Superseded;
    for (kind, d) in [(0, "a"), (30_000, "b"), (30_000, "c")] {
        let [first, second, third] =
            [100, 101, 102].map(|at| draft(1, kind, at).tag(&["d", d]).build());
        let outcomes = store.put_all(&[&second, &first, &third, &second]);
        assert_eq!(plain(&outcomes), [STORED, superseded, STORED, superseded]);
        store.has_all_of(&[&third]);
        store.has_none_of(&[&first, &second]);
    }
}

/// A deletion reaches what came before it in the batch and keeps away what comes after.
pub fn a_deletion_reaches_its_own_batch(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let deleted = Outcome::Refused(Refusal::Deleted);
    let [before, after] = [100, 101].map(|at| draft(1, 1, at).build());
    let [page, old_page] = [110, 109].map(|at| draft(1, 30_023, at).tag(&["d", "x"]).build());
    let new_page = draft(1, 30_023, 201).tag(&["d", "x"]).build();
    let deletion = draft(1, 5, 200)
        .tag(&["e", &before.id().to_hex()])
        .tag(&["e", &after.id().to_hex()])
        .tag(&["a", &format!("30023:{}:x", key(1))])
        .build();
    let outcomes = store.put_all(&[
        &before, &page, &deletion, &after, &before, &old_page, &new_page,
    ]);
    assert_eq!(
        plain(&outcomes),
        [STORED, STORED, STORED, deleted, deleted, deleted, STORED]
    );
    store.has_none_of(&[&before, &after, &page, &old_page]);
    store.has_all_of(&[&deletion, &new_page]);
}

/// A request to vanish reaches what came before it in the batch and keeps away what comes after.
pub fn a_request_to_vanish_reaches_its_own_batch(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let vanished = Outcome::Refused(Refusal::Vanished);
    let [before, after, newer] = [100, 150, 201].map(|at| draft(1, 1, at).build());
    let deletion = draft(1, 5, 120).tag(&["e", &newer.id().to_hex()]).build();
    let wrap = |at| draft(2, 1059, at).tag(&["p", &key(1).to_hex()]).build();
    let (early, late) = (wrap(100), wrap(101));
    let request = draft(1, 62, 200).build();
    let outcomes = store.put_all(&[
        &before, &deletion, &early, &newer, &request, &after, &late, &before, &newer,
    ]);
    let deleted = Outcome::Refused(Refusal::Deleted);
    assert_eq!(
        plain(&outcomes),
        [
            STORED, STORED, STORED, deleted, STORED, vanished, vanished, vanished, STORED
        ]
    );
    store.has_none_of(&[&before, &after, &deletion, &early, &late]);
    store.has_all_of(&[&request, &newer]);
}

/// Removing, hiding and taking back reach what came before in the batch.
pub fn changes_reach_their_own_batch(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let [a, b] = [100, 101].map(|at| draft(1, 1, at).build());
    let put = |event: &Arc<_>| Write::Event {
        event: Arc::clone(event),
        vanish: false,
    };
    let (hide, unhide) = (
        Write::Hide {
            id: b.id(),
            by: Hider(1),
        },
        Write::Unhide {
            id: b.id(),
            by: Hider(1),
        },
    );
    let remove = Write::Remove {
        id: a.id(),
        reason: RemovalReason::Operator,
    };
    let outcomes = store.write(vec![
        hide.clone(),
        put(&a),
        remove.clone(),
        remove.clone(),
        put(&b),
        hide.clone(),
        hide,
        put(&b),
        put(&a),
    ]);
    let (done, absent, duplicate) = (Outcome::Done, Outcome::Absent, Outcome::Duplicate);
    assert_eq!(
        plain(&outcomes),
        [
            absent, STORED, done, absent, STORED, done, absent, duplicate, STORED
        ]
    );
    store.shows(any(), &[&a]);
    assert_eq!(store.write(vec![unhide, remove]), [done, done]);
    store.shows(any(), &[&b]);
}

/// A large batch of one kind, author and time is one answer in order.
pub fn a_large_batch_is_stored_whole(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let events: Vec<_> = (0..1_500_u32)
        .map(|n| {
            draft(n % 7, 1, 100 + u64::from(n % 11))
                .content(&n.to_string())
                .build()
        })
        .collect();
    store.store_all(&events);
    assert_eq!(
        store.ids(any()),
        newest_first(&events.iter().collect::<Vec<_>>())
    );
    assert_eq!(store.count(&[any().kinds([1])]), 1_500);
}

/// Writers on several threads: an event that all of them send is stored once, and of versions that
/// race the newest is left.
pub fn racing_writers_agree(store: Box<dyn EventStore>) {
    const WRITERS: usize = 4;
    let notes: Vec<_> = (100..130).map(|at| draft(1, 1, at).build()).collect();
    let pages: Vec<_> = (100..130).map(|at| draft(1, 30_023, at).build()).collect();
    let write_all = |first: usize| {
        let store = Blocking(&*store);
        let len = notes.len();
        let turn = |n: usize| (n * 7 + first * 11) % len;
        (0..len)
            .flat_map(|n| store.put_all(&[notes[turn(n)].clone(), pages[turn(n)].clone()], NOW))
            .collect::<Vec<_>>()
    };
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let threads: Vec<_> = (0..WRITERS)
            .map(|n| scope.spawn(move || write_all(n)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let stored = outcomes
        .iter()
        .step_by(2)
        .filter(|o| matches!(o, Outcome::Stored(_)))
        .count();
    assert_eq!(stored, notes.len());
    let store = Subject(&*store);
    store.shows(any().kinds([1]), &notes.iter().collect::<Vec<_>>());
    store.shows(any().kinds([30_023]), &[pages.last().unwrap()]);
}
