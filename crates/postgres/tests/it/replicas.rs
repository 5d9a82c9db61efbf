//! Reading from a replica, and making one the server to write to.

use std::{ops::Range, sync::Arc, thread};

use hikyaku_event::{
    Event, Filter,
    testing::{Author, EventBuilder},
};
use hikyaku_postgres::{Options, PostgresStore, testing::Cluster};
use hikyaku_store::{
    Budget, CommittedFeed, CountStep, EventStore, LimitPolicy, Outcome, Query, QueryStep, Reader,
    StoreError, Write,
    testing::{Blocking, block_on, feed_until},
};

const NOW: u64 = 10_000;

fn event(number: u64) -> Arc<Event> {
    let event = EventBuilder::new(1).created_at(number).tag(["t", "x"]);
    Arc::new(event.content(&number.to_string()).sign(&Author::new(1)))
}

fn query() -> Query {
    Query {
        filters: vec![Filter::default()],
        reader: Reader::anonymous(),
        limits: LimitPolicy::UNLIMITED,
        now: NOW,
    }
}

/// Reads everything by one worker's reader; returns how much it is.
fn read(store: &PostgresStore) -> Result<u64, StoreError> {
    let reader = store.reader();
    let mut cursor = reader.query(query());
    let mut found = 0;
    loop {
        let mut budget = Budget::new(1_000);
        match block_on(std::future::poll_fn(|cx| cursor.poll_next(cx, &mut budget)))? {
            QueryStep::Event(_) => found += 1,
            QueryStep::Yield => {}
            QueryStep::End(_) => break,
        }
    }
    let mut count = reader.count(query());
    loop {
        let mut budget = Budget::new(1_000);
        let step = block_on(std::future::poll_fn(|cx| count.poll_count(cx, &mut budget)))?;
        if let CountStep::Done(count) = step {
            assert_eq!(count, found);
            return Ok(found);
        }
    }
}

/// Waits until a read succeeds.
fn wait_for_read(store: &PostgresStore) -> u64 {
    loop {
        match read(store) {
            Ok(found) => return found,
            Err(_) => thread::yield_now(),
        }
    }
}

#[test]
fn reads_see_what_was_written_wherever_the_replica_is() {
    let mut primary = Cluster::start(&[]);
    let mut replica = primary.replica(&[]);
    let store = PostgresStore::open(&Options {
        read_url: Some(replica.url()),
        ..Options::new(&primary.url())
    })
    .unwrap();
    let mut written = 0;
    let mut write_and_read = |count: u64| {
        for _ in 0..count {
            Blocking(&store).put(&event(written), NOW);
            written += 1;
            assert_eq!(read(&store).unwrap(), written);
        }
        written
    };
    write_and_read(20);
    // One that stands still is far behind at once, and is not waited for.
    replica.sql("SELECT pg_wal_replay_pause()");
    write_and_read(20);
    replica.sql("SELECT pg_wal_replay_resume()");
    write_and_read(20);
    replica.kill();
    write_and_read(20);
    replica.restart();
    let written = write_and_read(20);
    // With nobody else there, only the replica can answer: it is read from again.
    primary.kill();
    assert_eq!(wait_for_read(&store), written);
}

#[test]
fn what_was_answered_is_kept_when_a_replica_takes_over() {
    let mut primary = Cluster::start(&["synchronous_standby_names = '*'"]);
    let mut replica = primary.replica(&["synchronous_standby_names = ''"]);
    let (one, other) = (primary.port(), replica.port());
    let url = format!(
        "postgres://postgres@127.0.0.1:{one},127.0.0.1:{other}/postgres\
         ?target_session_attrs=read-write"
    );
    let store = PostgresStore::open(&Options::new(&url)).unwrap();
    let mut feed = store.committed();
    let write = |event: Arc<Event>| {
        let vanish = false;
        block_on(store.write(vec![Write::Event { event, vanish }], NOW))
    };
    for number in 0..50 {
        assert!(matches!(
            write(event(number)).unwrap()[..],
            [Outcome::Stored(_)]
        ));
    }
    primary.kill();
    replica.promote();
    for number in 50..100 {
        // One that was refused meanwhile is sent again, as clients do.
        while write(event(number)).is_err() {}
    }
    let last = event(99).id();
    let told = feed_until(&mut feed, |told| told.event.id() == last);
    assert_eq!(told.len(), 100, "each is told once");
    assert_eq!(wait_for_read(&store), 100);
}

/// Writes events from one number to another at two nodes in turn, and returns how many of them each node
/// tells its subscribers until the last one. What is refused meanwhile is sent again, as clients do.
fn write_and_hear(
    nodes: &[PostgresStore; 2],
    feeds: &mut [CommittedFeed; 2],
    numbers: Range<u64>,
) -> [usize; 2] {
    let last = event(numbers.end - 1).id();
    for number in numbers {
        let node = &nodes[number as usize % 2];
        let write = || {
            let event = event(number);
            block_on(node.write(
                vec![Write::Event {
                    event,
                    vanish: false,
                }],
                NOW,
            ))
        };
        while write().is_err() {}
    }
    feeds
        .each_mut()
        .map(|feed| feed_until(feed, |told| told.event.id() == last).len())
}

#[test]
fn after_a_failover_that_loses_events_everybody_hears_what_comes() {
    let mut primary = Cluster::start(&[]);
    let mut replica = primary.replica(&[]);
    let (one, other) = (primary.port(), replica.port());
    let url = format!(
        "postgres://postgres@127.0.0.1:{one},127.0.0.1:{other}/postgres\
         ?target_session_attrs=read-write"
    );
    let nodes = [(); 2].map(|()| PostgresStore::open(&Options::new(&url)).unwrap());
    let mut feeds = nodes.each_ref().map(EventStore::committed);
    assert_eq!(write_and_hear(&nodes, &mut feeds, 0..10), [10, 10]);
    replica.kill();
    assert_eq!(write_and_hear(&nodes, &mut feeds, 10..30), [20, 20]);
    primary.kill();
    replica.restart();
    replica.promote();
    assert_eq!(write_and_hear(&nodes, &mut feeds, 30..60), [30, 30]);
    assert_eq!(wait_for_read(&nodes[0]), 40, "all but what was lost");
}

#[test]
fn in_a_database_that_has_gone_back_everybody_hears_what_comes() {
    let cluster = Cluster::start(&[]);
    let nodes = [(); 2].map(|()| PostgresStore::open(&Options::new(&cluster.url())).unwrap());
    let mut feeds = nodes.each_ref().map(EventStore::committed);
    assert_eq!(write_and_hear(&nodes, &mut feeds, 0..30), [30, 30]);
    // As a copy of it would be that was made before.
    cluster.sql(
        "DELETE FROM hikyaku.events WHERE seq > 10; DELETE FROM hikyaku.event_tags WHERE seq > 10; \
         SELECT setval('hikyaku.position', 10)",
    );
    assert_eq!(write_and_hear(&nodes, &mut feeds, 30..60), [30, 30]);
    assert_eq!(read(&nodes[0]).unwrap(), 40);
}
