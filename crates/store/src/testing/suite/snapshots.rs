//! Cursors and the feed: what a reader sees while others write.

use std::sync::Arc;

use super::{
    filters::{Narrow, any},
    subject::{NOW, Subject, newest_first, query},
};
use crate::{
    Completeness, EventStore, Outcome, Query, Reader, Sequence,
    testing::{Answer, Blocking, draft, feed_until, read_to_end},
};

fn everything() -> Query {
    query(&[any()], &Reader::anonymous())
}

/// Nothing that is stored after a query began is in its answer.
pub fn a_cursor_sees_nothing_stored_later(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let early: Vec<_> = (100..110).map(|at| draft(1, 1, at).build()).collect();
    let late: Vec<_> = (95..115).map(|at| draft(2, 1, at).build()).collect();
    store.store_all(&early);
    let cursor = store.blocking().start(everything());
    store.store_all(&late);
    let answer = read_to_end(cursor, 3);
    assert_eq!(
        answer.ids(),
        newest_first(&early.iter().collect::<Vec<_>>())
    );
    assert_eq!(answer.completeness, Completeness::Finish);
    assert!(
        answer
            .events
            .iter()
            .all(|event| event.sequence <= answer.snapshot)
    );
    let after = store.blocking().query(everything());
    assert_eq!(after.ids().len(), 30);
    let late_ones = after
        .events
        .iter()
        .filter(|event| event.sequence > answer.snapshot);
    assert_eq!(late_ones.count(), 20);
}

/// What is removed while a query runs may be answered or not; everything else is.
pub fn a_cursor_survives_removals(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let events: Vec<_> = (0..40)
        .map(|n| draft(n % 2, 1, 100 + u64::from(n)).build())
        .collect();
    store.store_all(&events);
    let cursor = store.blocking().start(everything());
    let kept = draft(1, 62, 130).build();
    store.store(&kept);
    store.hide(&events[0], 1);
    store.remove(&events[2]);
    let ids = read_to_end(cursor, 1).ids();
    let order = newest_first(&events.iter().collect::<Vec<_>>());
    let untouched = |event: &&Arc<hikyaku_event::Event>| {
        let vanished = event.pubkey() == kept.pubkey() && event.created_at() <= 130;
        !vanished && ![events[0].id(), events[2].id()].contains(&event.id())
    };
    for event in events.iter().filter(untouched) {
        assert!(ids.contains(&event.id()));
    }
    let mut expected = order;
    expected.retain(|id| ids.contains(id));
    assert_eq!(ids, expected);
}

/// However little a step may do, the answer is the same.
pub fn answers_do_not_depend_on_the_budget(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let events: Vec<_> = (0..60)
        .map(|n| {
            let draft = draft(n % 5, 1, 100 + u64::from(n * 7 % 20)).content(&n.to_string());
            if n % 3 == 0 {
                draft.tag(&["t", "x"]).build()
            } else {
                draft.build()
            }
        })
        .collect();
    store.store_all(&events);
    for filters in [
        vec![any()],
        vec![any().kinds([1]).limit(7)],
        vec![any().authors([1, 3]), any().tag('t', ["x"]).limit(5)],
        vec![any().tag('t', ["x", "y"]).authors([0, 1]).kinds([1, 2])],
        vec![any().kinds([7])],
        vec![any().limit(0)],
    ] {
        let query = query(&filters, &Reader::anonymous());
        let whole = store.blocking().query(query.clone());
        for step in [1, 2, 5] {
            let Answer {
                events,
                completeness,
                ..
            } = read_to_end(store.blocking().start(query.clone()), step);
            let ids: Vec<_> = events.iter().map(|event| event.id).collect();
            assert_eq!(
                (ids, completeness),
                (whole.ids(), whole.completeness),
                "{filters:?}"
            );
            let counted = store.blocking().count_in_steps(query.clone(), step);
            assert_eq!(counted, store.count(&filters), "{filters:?}");
        }
    }
}

/// An empty store answers everything.
pub fn an_empty_store_answers(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    let answer = store.ask(&[any()]);
    assert_eq!(answer.snapshot, Sequence(0));
    assert_eq!(
        (answer.ids(), answer.completeness),
        (vec![], Completeness::Finish)
    );
    store.shows(any().kinds([1]), &[]);
    assert_eq!(store.blocking().sweep(u64::MAX), 0);
}

/// The feed brings every stored event once, in the order of its numbers, also what the same batch
/// removed again; refusals, duplicates and changes it does not tell.
pub fn the_feed_brings_every_stored_event_in_order(store: Box<dyn EventStore>) {
    let store = Subject(&*store);
    store.store(&draft(9, 1, 100).build());
    let mut feeds = [store.0.committed(), store.0.committed()];
    let [note, other, last] = [100, 101, 102].map(|at| draft(1, 1, at).build());
    let [old, new] = [100, 101].map(|at| draft(1, 0, at).build());
    let deletion = draft(1, 5, 200).tag(&["e", &note.id().to_hex()]).build();
    let ephemeral = draft(1, 20_000, 100).build();
    let mut outcomes = store.put_all(&[&old, &note, &new, &old, &deletion, &note, &ephemeral]);
    store.hide(&new, 1);
    store.unhide(&new, 1);
    outcomes.extend(store.put_all(&[&new, &other]));
    store.remove(&other);
    store.blocking().sweep(NOW);
    outcomes.extend(store.put_all(&[&last]));
    let mut sequences = Vec::new();
    for outcome in outcomes {
        if let Outcome::Stored(sequence) = outcome {
            sequences.push(sequence);
        }
    }
    for feed in &mut feeds {
        let events = feed_until(feed, |event| event.event.id() == last.id());
        let ids: Vec<_> = events.iter().map(|event| event.event.id()).collect();
        let expected = [&old, &note, &new, &deletion, &other, &last].map(|event| event.id());
        assert_eq!(ids, expected);
        assert!(
            events
                .iter()
                .map(|event| event.sequence)
                .eq(sequences.iter().copied())
        );
    }
}

/// With a feed taken before a query, each event comes exactly once: up to the snapshot in the
/// answer, after it on the feed; while another thread writes.
pub fn answer_and_feed_leave_no_gap_and_no_double(store: Box<dyn EventStore>) {
    let events: Vec<_> = (0..200)
        .map(|n| draft(n % 3, 1, 1_000 - u64::from(n)).build())
        .collect();
    let last = events.last().unwrap().id();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for batch in events.chunks(3) {
                Blocking(&*store).put_all(batch, NOW);
            }
        });
        for _ in 0..5 {
            let mut feed = store.committed();
            let answer = read_to_end(store.reader().query(everything()), 16);
            let mut seen = answer.ids();
            if !seen.contains(&last) {
                let live = feed_until(&mut feed, |event| event.event.id() == last);
                let live = live.iter().filter(|event| event.sequence > answer.snapshot);
                seen.extend(live.map(|event| event.event.id()));
            }
            seen.sort();
            let mut expected: Vec<_> = events.iter().map(|event| event.id()).collect();
            expected.sort();
            assert_eq!(seen, expected);
        }
        writer.join().unwrap();
    });
}

/// What a feed has brought a query finds.
pub fn what_the_feed_brings_is_visible(store: Box<dyn EventStore>) {
    let mut feed = store.committed();
    for n in 0..20_u32 {
        let event = draft(n, 1, 100).build();
        let written = store.write(
            vec![crate::Write::Event {
                event: event.clone(),
                vanish: false,
            }],
            NOW,
        );
        assert_eq!(
            feed_until(&mut feed, |told| told.event.id() == event.id()).len(),
            1
        );
        Subject(&*store).has_all_of(&[&event]);
        drop(written);
    }
}

/// A feed ends when the store closes, after it has brought everything; a reader that is left does
/// not hold it open.
pub fn the_feed_ends_when_the_store_closes(store: Box<dyn EventStore>) {
    let mut feed = store.committed();
    let [first, second] = [100, 101].map(|at| draft(1, 1, at).build());
    Subject(&*store).store_all(&[first.clone(), second.clone()]);
    let reader = store.reader();
    drop(store);
    let events = feed_until(&mut feed, |_| false);
    let ids: Vec<_> = events.iter().map(|event| event.event.id()).collect();
    assert_eq!(ids, [first.id(), second.id()]);
    drop(reader);
}

/// A feed or a write that nobody waits for does no harm.
pub fn dropped_feeds_and_futures_do_no_harm(store: Box<dyn EventStore>) {
    drop(store.committed());
    let event = draft(1, 1, 100).build();
    let mut feed = store.committed();
    drop(store.write(
        vec![crate::Write::Event {
            event: event.clone(),
            vanish: false,
        }],
        NOW,
    ));
    assert_eq!(
        feed_until(&mut feed, |told| told.event.id() == event.id()).len(),
        1
    );
    let next = draft(1, 1, 101).build();
    Subject(&*store).store(&next);
    Subject(&*store).shows(any(), &[&event, &next]);
}
