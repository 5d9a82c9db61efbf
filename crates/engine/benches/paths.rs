//! The engine's hot paths: `cargo bench -p hikyaku-engine --bench paths`. A store of 20,000 events,
//! in segments and on a real disk.

#![allow(clippy::unwrap_used, reason = "a measurement, not a product")]

use std::{
    cell::Cell,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use hikyaku_engine::{Durability, Engine, Options};
use hikyaku_event::{
    Event, Filter,
    testing::{Author, EventBuilder},
};
use hikyaku_store::{
    Budget, EventStore, LimitPolicy, Query, QueryStep, Reader, StoreReader, Write,
    testing::block_on,
};
use hikyaku_vfs::RealDisk;

const EVENTS: u64 = 20_000;
const AUTHORS: u64 = 500;
const BEGIN: u64 = 1_700_000_000;
const NOW: u64 = 4_000_000_000;
/// Events of one commit.
const BATCH: u64 = 100;

criterion_group! {
    name = paths;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3));
    targets = postings, append
}
criterion_main!(paths);

/// An event of an author, a reply to another one, with one of a hundred hashtags.
fn event(number: u64) -> Arc<Event> {
    let author = Author::new(number % AUTHORS);
    let event = EventBuilder::new(1)
        .created_at(BEGIN + number)
        .tag(["e", &format!("{:064x}", number / 10)])
        .tag(["t", &format!("tag{}", number % 100)])
        .content("Some text of a usual length, as people write it.")
        .sign(&author);
    Arc::new(event)
}

fn open(folder: &tempfile::TempDir, durability: Durability) -> Engine {
    let options = Options {
        durability,
        ..Options::default()
    };
    Engine::open(Arc::new(RealDisk), folder.path().join("data"), options).unwrap()
}

fn writes(numbers: impl Iterator<Item = u64>) -> Vec<Write> {
    let write = |number| Write::Event {
        event: event(number),
        vanish: false,
    };
    numbers.map(write).collect()
}

fn postings(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder, Durability::Interval(1_000));
    for begin in (0..EVENTS).step_by(1_000) {
        block_on(engine.write(writes(begin..begin + 1_000), NOW)).unwrap();
    }
    block_on(engine.compact()).unwrap();
    let reader = engine.reader();
    let mut group = criterion.benchmark_group("postings");
    let authors: Vec<_> = (0..300)
        .map(|number| format!("\"{}\"", Author::new(number).pubkey()))
        .collect();
    let id = event(EVENTS / 2).id();
    for (name, filter) in [
        ("one id", format!("{{\"ids\":[\"{id}\"]}}")),
        (
            "a timeline of 300 authors, 100 events",
            format!(
                "{{\"authors\":[{}],\"kinds\":[1],\"limit\":100}}",
                authors.join(",")
            ),
        ),
        (
            "a hashtag, 100 events",
            "{\"#t\":[\"tag7\"],\"limit\":100}".to_owned(),
        ),
        ("a thread", format!("{{\"#e\":[\"{:064x}\"]}}", EVENTS / 20)),
        ("nothing", format!("{{\"#e\":[\"{:064x}\"]}}", u64::MAX)),
    ] {
        let filter = Filter::parse(filter.as_bytes()).unwrap();
        group.bench_function(name, |bench| bench.iter(|| ask(&*reader, &filter)));
    }
    group.finish();
    drop(reader);
    engine.close();
}

/// Asks a question to its end; returns how many events came.
fn ask(reader: &dyn StoreReader, filter: &Filter) -> usize {
    let mut cursor = reader.query(Query {
        filters: vec![filter.clone()],
        reader: Reader::anonymous(),
        limits: LimitPolicy {
            default: 500,
            max: 5_000,
        },
        now: NOW,
    });
    let context = &mut Context::from_waker(Waker::noop());
    let mut count = 0;
    loop {
        match cursor.poll_next(context, &mut Budget::new(1_000_000)) {
            Poll::Ready(Ok(QueryStep::Event(event))) => {
                count += usize::from(!event.json.is_empty());
            }
            Poll::Ready(Ok(QueryStep::Yield)) => {}
            Poll::Ready(Ok(QueryStep::End(_))) => return count,
            other => panic!("{other:?}"),
        }
    }
}

fn append(criterion: &mut Criterion) {
    let next = Cell::new(0);
    let mut group = criterion.benchmark_group("log append, 100 events a commit");
    group.sample_size(20);
    for (name, durability) in [
        ("synced", Durability::Sync),
        ("synced later", Durability::Interval(1_000)),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(&folder, durability);
        group.bench_function(name, |bench| {
            bench.iter_batched(
                || {
                    let begin = next.replace(next.get() + BATCH);
                    writes(begin..begin + BATCH)
                },
                |batch| block_on(engine.write(batch, NOW)).unwrap(),
                BatchSize::PerIteration,
            );
        });
        engine.close();
    }
}
