//! What the engine's queries cost, without a server: loads a corpus (JSON lines of events, signatures
//! not checked) into a store, or opens the store that an earlier run made, and asks.
//!
//! `cargo run --release -p hikyaku-engine --example query_cost -- CORPUS FOLDER`
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement, not a program"
)]

use std::{
    io::BufRead,
    path::PathBuf,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use hikyaku_engine::{Engine, Options};
use hikyaku_event::{Event, EventId, Filter, Kind, PublicKey, TagCondition, TagName};
use hikyaku_store::{
    Budget, EventStore, LimitPolicy, Query, QueryStep, Reader, StoreReader, Write,
    testing::block_on,
};
use hikyaku_vfs::RealDisk;

const NOW: u64 = 4_000_000_000;
/// Corpus events kept to draw questions from.
const SAMPLE: usize = 20_000;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, corpus, folder] = arguments.as_slice() else {
        panic!("CORPUS FOLDER")
    };
    let folder = PathBuf::from(folder);
    let is_new = !folder.join("MANIFEST").exists();
    let started = Instant::now();
    let engine = Engine::open(Arc::new(RealDisk), folder, Options::default()).unwrap();
    println!(
        "opened in {:?}: {:?}",
        started.elapsed(),
        engine.opening_report()
    );
    let sample = load(&engine, corpus, is_new);
    if is_new {
        let started = Instant::now();
        block_on(engine.compact()).unwrap();
        println!("compacted in {:?}", started.elapsed());
    }
    println!("{:?}", block_on(engine.statistics()));
    let reader = engine.reader();
    for (name, filters) in questions(&sample) {
        ask(&*reader, name, &filters);
    }
}

fn load(engine: &Engine, corpus: &str, store: bool) -> Vec<Arc<Event>> {
    let lines = std::io::BufReader::new(std::fs::File::open(corpus).unwrap()).lines();
    let (mut sample, mut batch, mut seen) = (Vec::new(), Vec::new(), 0usize);
    let started = Instant::now();
    for line in lines {
        let line = line.unwrap();
        seen += 1;
        if !store && !seen.is_multiple_of(50) {
            continue;
        }
        let event = Arc::new(Event::parse(line.as_bytes()).unwrap());
        if seen.is_multiple_of(50) && sample.len() < SAMPLE {
            sample.push(event.clone());
        }
        batch.push(Write::Event {
            event,
            vanish: false,
        });
        if store && batch.len() == 1000 {
            block_on(engine.write(std::mem::take(&mut batch), 0)).unwrap();
        }
    }
    if store {
        block_on(engine.write(batch, 0)).unwrap();
        let rate = seen as f64 / started.elapsed().as_secs_f64();
        println!(
            "stored {seen} events in {:?}: {rate:.0}/s",
            started.elapsed()
        );
    }
    sample
}

type Shape = (&'static str, Vec<Filter>);

fn questions(sample: &[Arc<Event>]) -> Vec<Shape> {
    let instances = 300;
    let pick =
        |number: usize, step: usize| &sample[(number * 7919 + step * 104_729) % sample.len()];
    let many = |make: &dyn Fn(usize) -> Filter| (0..instances).map(make).collect::<Vec<_>>();
    let authors = |number: usize, count: usize| -> Vec<PublicKey> {
        let mut keys: Vec<_> = (0..count).map(|step| pick(number, step).pubkey()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    };
    let kinds = |kinds: &[u16]| Some(kinds.iter().copied().map(Kind).collect::<Vec<_>>());
    let tag = |letter: u8, value: &str| TagCondition {
        name: TagName::of_letter(letter),
        values: vec![value.to_owned()],
    };
    let tagged = |number: usize, letter: u8| -> String {
        (0..)
            .find_map(|step| pick(number, step).tag_values(letter).next().map(Into::into))
            .unwrap()
    };
    let base = Filter::default;
    vec![
        (
            "timeline of 300",
            many(&|n| Filter {
                authors: Some(authors(n, 300)),
                kinds: kinds(&[1]),
                limit: Some(50),
                ..base()
            }),
        ),
        (
            "timeline of 300, 3 kinds",
            many(&|n| Filter {
                authors: Some(authors(n, 300)),
                kinds: kinds(&[1, 6, 7]),
                limit: Some(50),
                ..base()
            }),
        ),
        (
            "notifications",
            many(&|n| Filter {
                tags: vec![tag(b'p', &tagged(n, b'p'))],
                kinds: kinds(&[1, 6, 7]),
                limit: Some(100),
                ..base()
            }),
        ),
        (
            "thread",
            many(&|n| Filter {
                tags: vec![tag(b'e', &tagged(n, b'e'))],
                limit: Some(100),
                ..base()
            }),
        ),
        (
            "hashtag",
            many(&|n| Filter {
                tags: vec![tag(b't', &tagged(n, b't'))],
                limit: Some(50),
                ..base()
            }),
        ),
        (
            "hashtag within 300",
            many(&|n| Filter {
                tags: vec![tag(b't', &tagged(n, b't'))],
                authors: Some(authors(n, 300)),
                limit: Some(50),
                ..base()
            }),
        ),
        (
            "author with hashtag",
            many(&|n| Filter {
                tags: vec![tag(b't', &tagged(n, b't'))],
                authors: Some(authors(n, 1)),
                limit: Some(50),
                ..base()
            }),
        ),
        (
            "profiles of 300",
            many(&|n| Filter {
                authors: Some(authors(n, 300)),
                kinds: kinds(&[0]),
                ..base()
            }),
        ),
        (
            "author page",
            many(&|n| Filter {
                authors: Some(authors(n, 1)),
                until: Some(pick(n, 1).created_at()),
                limit: Some(100),
                ..base()
            }),
        ),
        (
            "global",
            many(&|_| Filter {
                kinds: kinds(&[1]),
                limit: Some(200),
                ..base()
            }),
        ),
        (
            "50 ids",
            many(&|n| {
                let mut ids: Vec<EventId> = (0..50).map(|step| pick(n, step).id()).collect();
                ids.sort_unstable();
                Filter {
                    ids: Some(ids),
                    ..base()
                }
            }),
        ),
    ]
}

fn ask(reader: &dyn StoreReader, name: &str, filters: &[Filter]) {
    let mut times = Vec::new();
    let (mut examined, mut returned) = (0u64, 0u64);
    for _ in 0..3 {
        for filter in filters {
            let started = Instant::now();
            let mut cursor = reader.query(Query {
                filters: vec![filter.clone()],
                reader: Reader::anonymous(),
                limits: LimitPolicy {
                    default: 500,
                    max: 5000,
                },
                now: NOW,
            });
            let cx = &mut Context::from_waker(Waker::noop());
            loop {
                let mut budget = Budget::new(1_000_000);
                let step = cursor.poll_next(cx, &mut budget);
                examined += u64::from(1_000_000 - budget.left());
                match step {
                    Poll::Ready(Ok(QueryStep::Event(event))) => {
                        returned += 1;
                        std::hint::black_box(event.json.len());
                    }
                    Poll::Ready(Ok(QueryStep::Yield)) => {}
                    Poll::Ready(Ok(QueryStep::End(_))) => break,
                    other => panic!("{other:?}"),
                }
            }
            times.push(started.elapsed().as_nanos() as u64);
        }
    }
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100] as f64 / 1000.0;
    println!(
        "{name:26} p50 {:8.1} us  p99 {:8.1} us  returned {:6.1}  examined per returned {:6.2}",
        at(50),
        at(99),
        returned as f64 / times.len() as f64,
        examined as f64 / returned.max(1) as f64,
    );
}
