//! Measures the store alone on a running server: storing a corpus (one event's JSON a line, its checks
//! left out), and questions like those of `hikyaku bench relay`.
//!
//!     cargo run --release -p hikyaku-postgres --example measure -- URL SCHEMA CORPUS [EVENTS]
//!
//! An empty schema is filled as an import fills it, its indexes made at the end; one that has events
//! already is only asked. CONNECTIONS=1 in the environment keeps each request to one connection.
//!
//!     cargo run --release -p hikyaku-postgres --example measure -- URL SCHEMA --backfill SHARE SECONDS
//!
//! fills the index of tags again from nothing, with the names that most rows have.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measuring program"
)]

use std::{
    collections::{HashMap, VecDeque},
    env,
    fs::File,
    io::{BufRead, BufReader},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use hikyaku_event::{Event, Filter, Kind, PublicKey, TagCondition, TagName};
use hikyaku_postgres::{Backfill, Options, Pace, PostgresStore};
use hikyaku_store::{
    EventStore, LimitPolicy, Query, Reader, StoreReader, Write, WriteFuture,
    testing::{block_on, read_to_end},
};
use tokio::runtime::Builder;
use tokio_postgres::NoTls;

/// Events of one write, and writes in flight: some twelve megabytes, as an import hands over.
const BATCH: usize = 700;
const IN_FLIGHT: usize = 12;
const QUESTIONS: usize = 200;
const NOW: u64 = 4_000_000_000;

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [url, schema, corpus] = &arguments[..3] else {
        panic!("URL SCHEMA CORPUS [EVENTS]")
    };
    if corpus == "--backfill" {
        return backfill(
            &Options {
                schema: schema.clone(),
                ..Options::new(url)
            },
            arguments[3].parse().unwrap(),
            Duration::from_secs(arguments[4].parse().unwrap()),
        );
    }
    let most = arguments
        .get(3)
        .map_or(usize::MAX, |text| text.parse().unwrap());
    let defaults = Options::new(url);
    let connections = env::var("CONNECTIONS").map(|text| text.parse().unwrap());
    let options = Options {
        schema: schema.clone(),
        defer_indexes: true,
        connections_per_worker: connections.unwrap_or(defaults.connections_per_worker),
        ..defaults
    };
    let store = PostgresStore::open(&options).unwrap();
    let lines = BufReader::new(File::open(corpus).unwrap())
        .lines()
        .take(most);
    let events: Vec<_> = lines
        .map(|line| Arc::new(Event::parse(line.unwrap().as_bytes()).unwrap()))
        .collect();
    if block_on(store.statistics()).unwrap().position == 0 {
        fill(&store, &events);
    }
    let reader = store.reader();
    let mut all = Vec::new();
    for (name, filters) in shapes(&events) {
        all.extend(ask(&*reader, name, &filters));
    }
    tell("all of these", all, "");
}

/// Takes the rows away at once, which no operator could, and has them made again at this pace.
fn backfill(options: &Options, share: u32, most: Duration) {
    let sql = format!(
        "TRUNCATE {0}.event_tags; UPDATE {0}.tag_names SET filled = false, filled_age = NULL, \
         filled_tie = NULL WHERE name IN ('a', 'd', 'e', 'l', 'p', 't'); UPDATE {0}.backfill SET \
         paused = false, done = 0, milliseconds = 0, total = (SELECT count(*) FROM {0}.events)",
        options.schema
    );
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&options.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&sql).await.unwrap();
    });
    let backfill = Backfill::open(options).unwrap();
    backfill.set_pace(Pace { share, rate: None }).unwrap();
    let (stop, started) = (AtomicBool::new(false), Instant::now());
    let ended = backfill.run(&stop, |_| {
        stop.store(started.elapsed() > most, Ordering::Relaxed);
    });
    let (status, took) = (backfill.status().unwrap(), started.elapsed().as_secs_f64());
    println!(
        "backfill of six names at {share} %: {} of {} events in {took:.1} s: {:.0}/s; ended: {}",
        status.done,
        status.total,
        status.done as f64 / took,
        ended.unwrap()
    );
}

fn fill(store: &PostgresStore, events: &[Arc<Event>]) {
    let started = Instant::now();
    let mut in_flight: VecDeque<WriteFuture> = VecDeque::new();
    for (number, batch) in events.chunks(BATCH).enumerate() {
        let write = |event: &Arc<Event>| Write::Event {
            event: Arc::clone(event),
            vanish: false,
        };
        in_flight.push_back(store.write(batch.iter().map(write).collect(), 1));
        if in_flight.len() == IN_FLIGHT {
            block_on(in_flight.pop_front().unwrap()).unwrap();
        }
        if number % 100 == 99 {
            let rate = ((number + 1) * BATCH) as f64 / started.elapsed().as_secs_f64();
            println!("{} events, {rate:.0}/s", (number + 1) * BATCH);
        }
    }
    for write in in_flight {
        block_on(write).unwrap();
    }
    let stored = started.elapsed().as_secs_f64();
    block_on(store.make_indexes()).unwrap();
    let all = started.elapsed().as_secs_f64();
    println!(
        "stored {} events in {stored:.1} s, and made indexes in {:.1} s: {:.0}/s",
        events.len(),
        all - stored,
        events.len() as f64 / all
    );
}

/// Asks each question in turn, on one connection after the other.
fn ask(reader: &dyn StoreReader, name: &str, questions: &[Vec<Filter>]) -> Vec<Duration> {
    let mut times: Vec<Duration> = Vec::new();
    let mut answers = 0;
    for filters in questions {
        let query = Query {
            filters: filters.clone(),
            reader: Reader::anonymous(),
            limits: LimitPolicy {
                default: 500,
                max: 500,
            },
            now: NOW,
        };
        let started = Instant::now();
        let answer = read_to_end(reader.query(query), 1_000);
        times.push(started.elapsed());
        answers += answer.events.len();
    }
    let found = format!("  {:4} events an answer", answers / times.len());
    tell(name, times.clone(), &found);
    times
}

fn tell(name: &str, mut times: Vec<Duration>, found: &str) {
    times.sort();
    let ms = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
    println!(
        "{name:28} p50 {:7.2} ms  p99 {:7.2} ms  max {:7.2} ms{found}",
        ms(50),
        ms(99),
        ms(100),
    );
}

/// Draws from the corpus without chance: every so many events.
fn shapes(events: &[Arc<Event>]) -> Vec<(&'static str, Vec<Vec<Filter>>)> {
    let pick = |n: usize| &events[(n * 7_919 + 13) % events.len()];
    let kinds = |kinds: &[u16]| Some(kinds.iter().map(|kind| Kind(*kind)).collect());
    let follows =
        |n: usize| -> Vec<PublicKey> { (0..300).map(|i| pick(n * 300 + i).pubkey()).collect() };
    let value = |n: usize, letter: u8| -> String {
        let mut places = n * 31..;
        places
            .find_map(|at| {
                pick(at)
                    .tag_values(letter)
                    .next()
                    .map(std::borrow::Cow::into_owned)
            })
            .unwrap()
    };
    let tagged = |letter: u8, values: Vec<String>| Filter {
        tags: vec![TagCondition {
            name: TagName::of_letter(letter),
            values,
        }],
        ..Filter::default()
    };
    let limit = |limit: u64, filter: Filter| Filter {
        limit: Some(limit),
        ..filter.sorted()
    };
    let mut counts: HashMap<PublicKey, usize> = HashMap::new();
    let mut hashtags: HashMap<String, usize> = HashMap::new();
    for event in events {
        *counts.entry(event.pubkey()).or_default() += 1;
        for tag in event.tag_values(b't') {
            *hashtags.entry(tag.into_owned()).or_default() += 1;
        }
    }
    let popular = hashtags
        .iter()
        .max_by_key(|(_, count)| **count)
        .unwrap()
        .0
        .clone();
    let mut rare: Vec<_> = counts
        .iter()
        .filter(|(_, count)| **count <= 5)
        .map(|(key, _)| *key)
        .collect();
    rare.sort();
    let many = |n: usize, letter| {
        (0..76)
            .map(|i| value(n * 76 + i, letter))
            .collect::<Vec<_>>()
    };
    let questions =
        |question: &dyn Fn(usize) -> Vec<Filter>| (0..QUESTIONS).map(question).collect();
    vec![
        (
            "timeline of 300",
            questions(&|n| {
                vec![limit(
                    50,
                    Filter {
                        authors: Some(follows(n)),
                        kinds: kinds(&[1]),
                        ..Filter::default()
                    },
                )]
            }),
        ),
        (
            "notifications",
            questions(&|n| {
                vec![limit(
                    100,
                    Filter {
                        kinds: kinds(&[1, 6, 7, 9735]),
                        ..tagged(b'p', vec![value(n, b'p')])
                    },
                )]
            }),
        ),
        (
            "thread",
            questions(&|n| {
                vec![limit(
                    500,
                    Filter {
                        kinds: kinds(&[1, 1111]),
                        ..tagged(b'e', vec![value(n, b'e')])
                    },
                )]
            }),
        ),
        (
            "engagement of 70 notes",
            questions(&|n| {
                vec![limit(
                    500,
                    Filter {
                        kinds: kinds(&[1, 6, 7, 9735]),
                        ..tagged(b'e', many(n, b'e')[..70].to_vec())
                    },
                )]
            }),
        ),
        (
            "hashtag",
            questions(&|n| {
                vec![limit(
                    50,
                    Filter {
                        kinds: kinds(&[1]),
                        ..tagged(b't', vec![value(n, b't')])
                    },
                )]
            }),
        ),
        (
            "hashtag within follows",
            questions(&|n| {
                vec![limit(
                    50,
                    Filter {
                        authors: Some(follows(n)),
                        kinds: kinds(&[1]),
                        ..tagged(b't', vec![popular.clone()])
                    },
                )]
            }),
        ),
        (
            "two tags",
            questions(&|n| {
                let mut filter = tagged(b't', vec![popular.clone()]);
                filter.tags.extend(tagged(b'p', vec![value(n, b'p')]).tags);
                vec![limit(50, filter)]
            }),
        ),
        (
            "rare author, popular tag",
            questions(&|n| {
                vec![limit(
                    50,
                    Filter {
                        authors: Some(vec![rare[n * 97 % rare.len()]]),
                        ..tagged(b't', vec![popular.clone()])
                    },
                )]
            }),
        ),
        (
            "author page",
            questions(&|n| {
                vec![limit(
                    50,
                    Filter {
                        authors: Some(vec![pick(n).pubkey()]),
                        kinds: kinds(&[1, 6]),
                        ..Filter::default()
                    },
                )]
            }),
        ),
        (
            "global page",
            questions(&|_| {
                vec![limit(
                    200,
                    Filter {
                        kinds: kinds(&[1]),
                        ..Filter::default()
                    },
                )]
            }),
        ),
        (
            "50 ids",
            questions(&|n| {
                vec![
                    Filter {
                        ids: Some((0..50).map(|i| pick(n * 50 + i).id()).collect()),
                        ..Filter::default()
                    }
                    .sorted(),
                ]
            }),
        ),
        (
            "the story",
            questions(&|n| {
                vec![
                    limit(
                        100,
                        Filter {
                            kinds: kinds(&[1]),
                            ..tagged(b'e', many(2 * n, b'e'))
                        },
                    ),
                    limit(
                        100,
                        Filter {
                            kinds: kinds(&[7]),
                            ..tagged(b'e', many(2 * n + 1, b'e'))
                        },
                    ),
                ]
            }),
        ),
    ]
}
