//! The disk of the server is full, and has room again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hikyaku_event::{
    Event, Filter,
    testing::{Author, EventBuilder},
};
use hikyaku_postgres::{
    Options, PostgresStore,
    testing::{Cluster, SmallDisk},
};
use hikyaku_store::{
    EventStore, Outcome, Reader, StoreError, Write,
    testing::{Blocking, block_on},
};

const NOW: u64 = 10_000;

/// Events of some kilobytes that can't be made smaller.
fn batch(number: u64) -> Vec<Arc<Event>> {
    let author = Author::new(1);
    let one = |n: u64| {
        let mut state = n + 1;
        let noise: String = (0..6_000)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                char::from(b'0' + (state >> 33) as u8 % 70)
            })
            .collect();
        let event = EventBuilder::new(1).created_at(n).tag(["t", "x"]);
        Arc::new(event.content(&noise.replace('\\', "/")).sign(&author))
    };
    (number * 20..(number + 1) * 20).map(one).collect()
}

fn write(store: &PostgresStore, events: &[Arc<Event>]) -> Result<Vec<Outcome>, StoreError> {
    let write = |event: &Arc<Event>| Write::Event {
        event: Arc::clone(event),
        vanish: false,
    };
    block_on(store.write(events.iter().map(write).collect(), NOW))
}

fn count(store: &PostgresStore) -> usize {
    let all = Blocking(store).all(Filter::default(), &Reader::anonymous(), NOW);
    all.events.len()
}

#[test]
fn a_full_disk_refuses_loses_nothing_and_is_forgotten_when_there_is_room() {
    let Some(disk) = SmallDisk::mount(8) else {
        return;
    };
    let mut cluster = Cluster::start(&[]);
    cluster.sql(&format!(
        "CREATE TABLESPACE small LOCATION '{}'",
        disk.folder()
    ));
    let url = format!("{}?options=-c%20default_tablespace%3Dsmall", cluster.url());
    let options = Options {
        retry_time: Duration::from_millis(300),
        ..Options::new(&url)
    };
    let store = PostgresStore::open(&options).unwrap();
    let mut batches = 0;
    let error = loop {
        match write(&store, &batch(batches)) {
            Ok(outcomes) => assert!(outcomes.iter().all(|end| matches!(end, Outcome::Stored(_)))),
            Err(error) => break error,
        }
        batches += 1;
        assert!(batches < 200, "8 MiB hold no 24 MB");
    };
    assert!(batches > 10, "{batches}: {error}");
    // SQLSTATE 53100: the disk is full.
    assert!(
        matches!(&error, StoreError::Unavailable(text) if text.contains("53100")),
        "{error}"
    );
    let stored: usize = batches as usize * 20;
    assert_eq!(
        count(&store),
        stored,
        "what was stored can be read meanwhile"
    );
    write(&store, &batch(batches)).unwrap_err();

    disk.grow(32);
    let outcomes = write(&store, &batch(batches)).unwrap();
    assert!(outcomes.iter().all(|end| matches!(end, Outcome::Stored(_))));
    assert_eq!(count(&store), stored + 20);

    cluster.kill();
    cluster.restart();
    let ids: Vec<_> = (0..=batches)
        .flat_map(batch)
        .map(|event| event.id())
        .collect();
    let store = PostgresStore::open(&options).unwrap();
    assert!(Blocking(&store).contains(&ids).iter().all(|kept| *kept));
}

#[test]
fn a_full_disk_under_the_log_answers_no_and_the_node_comes_back() {
    let Some(disk) = SmallDisk::mount(80) else {
        return;
    };
    // So that the log needs room for more than the disk has before a checkpoint frees any.
    let mut cluster = Cluster::start(&["max_wal_size = 4GB", "checkpoint_timeout = 1h"]);
    cluster.stop();
    cluster.log_on(disk.folder());
    cluster.restart();
    let options = Options {
        retry_time: Duration::from_millis(300),
        ..Options::new(&cluster.url())
    };
    let store = PostgresStore::open(&options).unwrap();
    let mut stored = 0;
    let error = loop {
        match write(&store, &batch(stored)) {
            Ok(outcomes) => assert!(outcomes.iter().all(|end| matches!(end, Outcome::Stored(_)))),
            Err(error) => break error,
        }
        stored += 1;
        assert!(stored < 2_000, "80 MiB hold no 240 MB");
    };
    assert!(stored > 10, "{stored}: {error}");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    // PostgreSQL gives up where it can't write its log, and can't start again before there is room.
    assert!(cluster.log().contains("No space left on device"));

    disk.grow(400);
    cluster.revive();
    // The store finds the server by itself; what is answered no may be asked again.
    let again = batch(stored);
    let deadline = Instant::now() + Duration::from_mins(2);
    let outcomes = loop {
        match write(&store, &again) {
            Ok(outcomes) => break outcomes,
            Err(error) => {
                assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
                assert!(Instant::now() < deadline, "it does not come back: {error}");
            }
        }
    };
    let is_there = |end: &Outcome| matches!(end, Outcome::Stored(_) | Outcome::Duplicate);
    assert!(outcomes.iter().all(is_there), "{outcomes:?}");
    let events = (0..=stored).flat_map(batch);
    let ids: Vec<_> = events.map(|event| event.id()).collect();
    assert!(Blocking(&store).contains(&ids).iter().all(|kept| *kept));
    assert_eq!(count(&store), ids.len());
}
