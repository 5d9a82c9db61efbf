//! What was answered is there after the store was closed and opened again.

use std::{sync::Arc, task::Context};

use hikyaku_engine::{Engine, Options};
use hikyaku_event::{
    Event, Filter,
    testing::{Author, EventBuilder},
};
use hikyaku_store::{
    Budget, Completeness, EventStore, LimitPolicy, Outcome, Query, QueryStep, Reader, Write,
    testing::block_on,
};
use hikyaku_vfs::{Disk, RealDisk};

fn disk() -> Disk {
    Arc::new(RealDisk)
}

fn events(count: u64) -> Vec<Arc<Event>> {
    (0..count)
        .map(|number| {
            let builder = EventBuilder::new(1).created_at(1_000 + number);
            Arc::new(
                builder
                    .content(&format!("note {number}"))
                    .sign(&Author::new(number % 7)),
            )
        })
        .collect()
}

fn all(engine: &Engine) -> (Vec<Arc<[u8]>>, Completeness) {
    let query = Query {
        filters: vec![Filter::default()],
        reader: Reader::operator(),
        limits: LimitPolicy::UNLIMITED,
        now: 5_000,
    };
    let mut cursor = engine.reader().query(query);
    let mut found = Vec::new();
    loop {
        let mut budget = Budget::new(10);
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        match cursor.poll_next(cx, &mut budget) {
            std::task::Poll::Ready(Ok(QueryStep::Event(event))) => {
                found.push(Arc::from(&event.json[..]));
            }
            std::task::Poll::Ready(Ok(QueryStep::Yield)) => {}
            std::task::Poll::Ready(Ok(QueryStep::End(completeness))) => {
                return (found, completeness);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn stored_events_come_back_newest_first_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk();
    let options = Options {
        memory_events_max: 100,
        ..Options::default()
    };
    let engine = Engine::open(disk.clone(), folder.path().into(), options.clone()).unwrap();
    let events = events(1_050);
    for batch in events.chunks(7) {
        let writes = batch
            .iter()
            .map(|event| Write::Event {
                event: event.clone(),
                vanish: false,
            })
            .collect();
        let outcomes = block_on(engine.write(writes, 5_000)).unwrap();
        assert!(
            outcomes
                .iter()
                .all(|outcome| matches!(outcome, Outcome::Stored(_)))
        );
    }
    let mut expected: Vec<Arc<[u8]>> = events
        .iter()
        .map(|event| Arc::from(&event.json()[..]))
        .collect();
    expected.reverse();
    assert_eq!(all(&engine), (expected.clone(), Completeness::Finish));
    engine.close();
    let engine = Engine::open(disk, folder.path().into(), options).unwrap();
    assert_eq!(all(&engine), (expected.clone(), Completeness::Finish));
    block_on(engine.compact()).unwrap();
    assert_eq!(all(&engine), (expected, Completeness::Finish));
    let figures = block_on(engine.statistics());
    assert_eq!(
        (figures.events, figures.segments),
        (1_050, 1),
        "{figures:?}"
    );
}
