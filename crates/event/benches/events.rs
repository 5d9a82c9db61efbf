//! What a worker does with each event, beside `serde_json` doing the same: `cargo bench -p
//! hikyaku-event --bench events`. An iteration is one event.
//!
//! The environment variable `EVENTS` may name a file of events (one a line); without it the events are
//! made and signed here. Signatures alone and in batches: `cargo bench -p hikyaku-schnorr`.

#![allow(clippy::unwrap_used, reason = "a measurement, not a product")]

use std::{hint::black_box, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use hikyaku_event::{
    Event, Filter, Verifier, escape,
    testing::{Author, EventBuilder},
};
use serde::Deserialize;
use sha2::{Digest, Sha256};

#[derive(Deserialize)]
struct SerdeEvent {
    id: String,
    pubkey: String,
    created_at: u64,
    kind: u16,
    tags: Vec<Vec<String>>,
    content: String,
    sig: String,
}

criterion_group! {
    name = events;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = parse, hash, verify, filters
}
criterion_main!(events);

fn parse(criterion: &mut Criterion) {
    let lines = corpus();
    let mut group = criterion.benchmark_group("parse");
    group.bench_function("hikyaku", |bench| {
        let mut lines = lines.iter().cycle();
        bench.iter(|| Event::parse(lines.next().unwrap()).unwrap());
    });
    group.bench_function("serde_json", |bench| {
        let mut lines = lines.iter().cycle();
        bench.iter(|| {
            let event: SerdeEvent = serde_json::from_slice(lines.next().unwrap()).unwrap();
            event.sig.len()
        });
    });
    group.bench_function("UTF-8 check alone", |bench| {
        let mut lines = lines.iter().cycle();
        bench.iter(|| simdutf8::basic::from_utf8(lines.next().unwrap()).is_ok());
    });
}

fn hash(criterion: &mut Criterion) {
    let lines = corpus();
    let parsed = parsed(&lines);
    let mut group = criterion.benchmark_group("hash");
    group.bench_function("id of a parsed event", |bench| {
        let mut events = parsed.iter().cycle();
        bench.iter(|| events.next().unwrap().verify_id().unwrap());
    });
    group.bench_function("parse and id, serde_json", |bench| {
        let mut lines = lines.iter().cycle();
        bench.iter(|| {
            let e: SerdeEvent = serde_json::from_slice(lines.next().unwrap()).unwrap();
            let fields = (0, &e.pubkey, e.created_at, e.kind, &e.tags, &e.content);
            let hash = Sha256::digest(serde_json::to_vec(&fields).unwrap());
            assert_eq!(faster_hex::hex_string(&hash), e.id);
        });
    });
    group.bench_function("SHA-256 of the JSON alone", |bench| {
        let mut lines = lines.iter().cycle();
        bench.iter(|| Sha256::digest(lines.next().unwrap()));
    });
}

fn verify(criterion: &mut Criterion) {
    let parsed = parsed(&corpus());
    criterion.bench_function("verify/one signature", |bench| {
        let (mut events, mut verifier) = (parsed.iter().cycle(), Verifier::new());
        bench.iter(|| verifier.verify(events.next().unwrap()).unwrap());
    });
}

fn filters(criterion: &mut Criterion) {
    let parsed = parsed(&corpus());
    let filter = Filter::parse(filter(&parsed).as_bytes()).unwrap();
    let mut group = criterion.benchmark_group("match");
    group.bench_function("5,000 authors and 2 x 100 tag values", |bench| {
        let mut events = parsed.iter().cycle();
        bench.iter(|| filter.matches(black_box(events.next().unwrap())));
    });
    group.bench_function("read the indexed tags", |bench| {
        let mut events = parsed.iter().cycle();
        bench.iter(|| {
            let tags = events.next().unwrap().indexed_tags();
            tags.map(|(_, value)| value.len()).sum::<usize>()
        });
    });
}

/// A filter that has to look at everything.
fn filter(events: &[Event]) -> String {
    let authors = (0..4999).map(|n| format!("\"{n:064x}\""));
    let last = format!("\"{}\"", events.first().unwrap().pubkey());
    let authors: Vec<_> = authors.chain([last]).collect();
    let values: Vec<_> = (0..100).map(|n| escape(&format!("value {n}"))).collect();
    let values = values.join(",");
    format!(
        "{{\"authors\":[{}],\"#t\":[{values}],\"#p\":[{values}]}}",
        authors.join(",")
    )
}

fn parsed(lines: &[Vec<u8>]) -> Vec<Event> {
    lines
        .iter()
        .map(|json| Event::parse(json).unwrap())
        .collect()
}

fn corpus() -> Vec<Vec<u8>> {
    if let Ok(path) = std::env::var("EVENTS") {
        let jsonl = std::fs::read(path).unwrap();
        let lines = jsonl
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty());
        return lines.map(Into::into).collect();
    }
    let authors: Vec<_> = (0..50).map(Author::new).collect();
    let event = |n: usize| {
        let author = authors.get(n % authors.len()).unwrap();
        EventBuilder::new(1)
            .created_at(1_700_000_000 + n as u64)
            .tag([
                "e",
                &format!("{n:064x}"),
                "wss://relay.example.com",
                "reply",
            ])
            .tag(["p", &author.pubkey().to_hex()])
            .tag(["t", "hikyaku"])
            .content(&"Some text, a little of it 日本語, with \"quotes\".\n".repeat(n % 8))
            .sign_json(author)
    };
    (0..2000).map(event).collect()
}
