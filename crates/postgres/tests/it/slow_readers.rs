//! A client that does not read its answer costs nobody else anything.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hikyaku_event::{
    Event, Filter,
    testing::{Author, EventBuilder},
};
use hikyaku_postgres::{Options, PostgresStore, testing::shared};
use hikyaku_store::{
    Budget, EventStore, LimitPolicy, Query, QueryCursor, QueryStep, Reader, StoreReader, Write,
    testing::block_on,
};

const NOW: u64 = 4_000_000_000;
/// More than are fetched at once, and together more than any socket's buffers hold.
const EVENTS: u64 = 1_200;

fn open(connections: usize) -> PostgresStore {
    let (url, schema) = shared();
    let store = PostgresStore::open(&Options {
        schema,
        connections_per_worker: connections,
        ..Options::new(&url)
    })
    .unwrap();
    let content = "x".repeat(8_000);
    for begun in (0..EVENTS).step_by(100) {
        let write = |at| Write::Event {
            event: Arc::new(note(at, &content)),
            vanish: false,
        };
        block_on(store.write((begun..begun + 100).map(write).collect(), NOW)).unwrap();
    }
    store
}

fn note(at: u64, content: &str) -> Event {
    EventBuilder::new(1)
        .created_at(1_000 + at)
        .content(content)
        .sign(&Author::new(1))
}

fn ask(reader: &dyn StoreReader, filter: &str) -> Box<dyn QueryCursor> {
    reader.query(Query {
        filters: vec![Filter::parse(filter.as_bytes()).unwrap()],
        reader: Reader::anonymous(),
        limits: LimitPolicy::UNLIMITED,
        now: NOW,
    })
}

/// Reads to the end, while `meanwhile` is done again and again; returns how many events there were.
fn read(cursor: &mut dyn QueryCursor, mut meanwhile: impl FnMut(&mut Context<'_>)) -> u64 {
    let given_up = Instant::now() + Duration::from_mins(1);
    let mut found = 0;
    block_on(poll_fn(|cx| {
        meanwhile(cx);
        loop {
            match cursor.poll_next(cx, &mut Budget::new(1_000)) {
                Poll::Ready(Ok(QueryStep::Event(_))) => found += 1,
                Poll::Ready(Ok(QueryStep::End(_))) => return Poll::Ready(found),
                Poll::Ready(Ok(QueryStep::Yield)) => {}
                Poll::Ready(Err(error)) => panic!("{error}"),
                Poll::Pending => break,
            }
        }
        assert!(Instant::now() < given_up, "another's answer holds it up");
        cx.waker().wake_by_ref();
        Poll::Pending
    }))
}

#[test]
fn an_answer_that_is_half_read_holds_no_connection() {
    let store = open(1);
    let reader = store.reader();
    let mut slow = ask(&*reader, r#"{"kinds":[1]}"#);
    let first = poll_fn(|cx| slow.poll_next(cx, &mut Budget::new(1_000)));
    assert!(matches!(block_on(first), Ok(QueryStep::Event(_))));
    for _ in 0..3 {
        let mut other = ask(&*reader, r#"{"kinds":[1],"limit":300}"#);
        assert_eq!(read(&mut *other, |_| {}), 300);
        // Its client takes one more.
        let next = poll_fn(|cx| slow.poll_next(cx, &mut Budget::new(1_000)));
        assert!(matches!(block_on(next), Ok(QueryStep::Event(_))));
    }
    assert_eq!(read(&mut *slow, |_| {}), EVENTS - 4);
}

#[test]
fn what_was_begun_goes_on_though_nobody_takes_it() {
    let store = open(1);
    let reader = store.reader();
    let mut slow = ask(&*reader, r#"{"kinds":[1]}"#);
    let begun = block_on(poll_fn(|cx| {
        Poll::Ready(slow.poll_next(cx, &mut Budget::new(1_000)).is_pending())
    }));
    assert!(begun);
    let mut other = ask(&*reader, r#"{"kinds":[1],"limit":300}"#);
    assert_eq!(read(&mut *other, |cx| slow.go_on(cx)), 300);
    assert_eq!(read(&mut *slow, |_| {}), EVENTS);
}
