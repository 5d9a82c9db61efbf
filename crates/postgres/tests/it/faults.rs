//! The server goes away and comes back, while it is written to and read from.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use hikyaku_event::{
    Event, Filter,
    testing::{Author, EventBuilder},
};
use hikyaku_postgres::{Options, PostgresStore, testing::Cluster};
use hikyaku_store::{
    EventStore, LimitPolicy, Outcome, Query, QueryStep, Reader, StoreError, Write,
    testing::{Blocking, block_on},
};

const NOW: u64 = 10_000;

fn options(cluster: &Cluster) -> Options {
    Options {
        retry_time: Duration::from_millis(300),
        ..Options::new(&cluster.url())
    }
}

fn event(writer: u64, number: u64) -> Arc<Event> {
    let event = EventBuilder::new(1).created_at(number).tag(["t", "x"]);
    Arc::new(
        event
            .content(&number.to_string())
            .sign(&Author::new(writer)),
    )
}

/// Reads everything; an error is an answer too.
fn everything(store: &PostgresStore) -> Result<usize, StoreError> {
    let query = Query {
        filters: vec![Filter::default()],
        reader: Reader::anonymous(),
        limits: LimitPolicy::UNLIMITED,
        now: NOW,
    };
    let mut cursor = store.reader().query(query);
    let mut count = 0;
    loop {
        let mut budget = hikyaku_store::Budget::new(1_000);
        let step = block_on(std::future::poll_fn(|cx| cursor.poll_next(cx, &mut budget)))?;
        match step {
            QueryStep::Event(_) => count += 1,
            QueryStep::Yield => {}
            QueryStep::End(_) => return Ok(count),
        }
    }
}

#[test]
fn nothing_that_was_answered_is_lost_when_the_server_is_killed_under_load() {
    let mut cluster = Cluster::start(&[]);
    let store = PostgresStore::open(&options(&cluster)).unwrap();
    let (stop, failed_reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    let answered = AtomicUsize::new(0);
    let wait_for_answers = |more: usize| {
        let goal = answered.load(Ordering::Relaxed) + more;
        while answered.load(Ordering::Relaxed) < goal {
            thread::yield_now();
        }
    };
    let stored: Vec<Arc<Event>> = thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (store, stop, answered) = (&store, &stop, &answered);
                scope.spawn(move || {
                    let mut stored = Vec::new();
                    for number in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let event = event(writer, number);
                        let write = Write::Event {
                            event: Arc::clone(&event),
                            vanish: false,
                        };
                        match block_on(store.write(vec![write], NOW)) {
                            Ok(outcomes) => {
                                assert!(matches!(
                                    outcomes[..],
                                    [Outcome::Stored(_) | Outcome::Duplicate]
                                ));
                                stored.push(event);
                                answered.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => assert!(matches!(error, StoreError::Unavailable(_))),
                        }
                    }
                    stored
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if everything(&store).is_err() {
                    failed_reads.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        wait_for_answers(20);
        for _ in 0..3 {
            cluster.kill();
            // Reads must fail while it is away, and not wait for ever.
            let failed = failed_reads.load(Ordering::Relaxed);
            while failed_reads.load(Ordering::Relaxed) == failed {
                thread::yield_now();
            }
            cluster.restart();
            wait_for_answers(20);
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap())
            .collect()
    });
    let ids: Vec<_> = stored.iter().map(|event| event.id()).collect();
    let kept = Blocking(&store).contains(&ids);
    assert!(
        kept.iter().all(|kept| *kept),
        "an event answered OK is gone"
    );
    assert!(everything(&store).unwrap() >= ids.len());
}

#[test]
fn cut_connections_are_made_again() {
    let cluster = Cluster::start(&[]);
    let store = PostgresStore::open(&options(&cluster)).unwrap();
    let mut feed = store.committed();
    Blocking(&store).put(&event(1, 0), NOW);
    assert_eq!(everything(&store).unwrap(), 1);
    for number in 1..5 {
        cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'hikyaku%'");
        // The writer tries again by itself.
        assert!(matches!(
            Blocking(&store).put(&event(1, number), NOW),
            Outcome::Stored(_) | Outcome::Duplicate
        ));
        while everything(&store).is_err() {}
        assert_eq!(everything(&store).unwrap(), number as usize + 1);
    }
    let last = event(1, 4).id();
    let told = hikyaku_store::testing::feed_until(&mut feed, |told| told.event.id() == last);
    assert_eq!(told.len(), 5, "each is told once");
}

#[test]
fn a_lock_that_is_never_released_refuses_writes_until_it_is() {
    let cluster = Cluster::start(&[]);
    let options = Options {
        lock_timeout: Duration::from_millis(100),
        ..options(&cluster)
    };
    let store = PostgresStore::open(&options).unwrap();
    let holder = cluster.hold("LOCK TABLE hikyaku.events IN ACCESS EXCLUSIVE MODE");
    let write = |number| {
        let write = Write::Event {
            event: event(1, number),
            vanish: false,
        };
        block_on(store.write(vec![write], NOW))
    };
    let error = write(0).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert!(everything(&store).is_err());
    drop(holder);
    assert!(matches!(write(0).unwrap()[..], [Outcome::Stored(_)]));
    assert_eq!(everything(&store).unwrap(), 1);
}
