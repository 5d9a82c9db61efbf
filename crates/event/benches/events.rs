//! Nanoseconds per event for what a worker does with each one, beside `serde_json` doing the same.
//!
//! Reads the file of events (one a line) named by the first argument or `EVENTS`; without one it
//! makes and signs its own. Each figure is the best of several passes over all events.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a measurement, not a product"
)]

use std::{hint::black_box, time::Instant};

use hikyaku_event::{
    Event, Filter, Verifier, escape,
    testing::{Author, EventBuilder},
};
use serde::Deserialize;
use sha2::{Digest, Sha256};

const PASSES: usize = 15;

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

fn main() {
    let lines = events();
    let bytes: usize = lines.iter().map(Vec::len).sum();
    println!(
        "{} events, {} bytes on average",
        lines.len(),
        bytes / lines.len()
    );

    let serde_parse = per_event(&lines, |json| {
        black_box(
            serde_json::from_slice::<SerdeEvent>(json)
                .unwrap()
                .sig
                .len(),
        );
    });
    let serde_id = per_event(&lines, |json| {
        let e: SerdeEvent = serde_json::from_slice(json).unwrap();
        let fields = (0, &e.pubkey, e.created_at, e.kind, &e.tags, &e.content);
        let hash = Sha256::digest(serde_json::to_vec(&fields).unwrap());
        assert_eq!(faster_hex::hex_string(&hash), e.id);
    });
    let parse = per_event(&lines, |json| {
        black_box(Event::parse(json).unwrap());
    });
    let parse_id = per_event(&lines, |json| {
        Event::parse(json).unwrap().verify_id().unwrap();
    });
    println!(
        "parse             {parse:7.0} ns   serde_json {serde_parse:7.0} ns   {:.1} x",
        serde_parse / parse
    );
    println!(
        "parse and id      {parse_id:7.0} ns   serde_json {serde_id:7.0} ns   {:.1} x",
        serde_id / parse_id
    );

    let utf8 = per_event(&lines, |json| {
        black_box(simdutf8::basic::from_utf8(json).is_ok());
    });
    let hash = per_event(&lines, |json| {
        black_box(Sha256::digest(json));
    });
    println!("  of which        {utf8:7.0} ns UTF-8, {hash:.0} ns SHA-256 (of the whole JSON)");

    let parsed: Vec<_> = lines
        .iter()
        .map(|json| Event::parse(json).unwrap())
        .collect();
    let filter = Filter::parse(filter(&parsed).as_bytes()).unwrap();
    let matching = per_event(&parsed, |event| {
        black_box(filter.matches(event));
    });
    println!(
        "match a filter    {matching:7.0} ns   (5,000 authors, 2 tag names with 100 values each)"
    );
    let indexed = per_event(&parsed, |event| {
        black_box(
            event
                .indexed_tags()
                .map(|(_, value)| value.len())
                .sum::<usize>(),
        );
    });
    println!("read indexed tags {indexed:7.0} ns");

    let some = parsed.get(..parsed.len().min(1000)).unwrap();
    let mut verifier = Verifier::new();
    let verify = per_event(some, |event| verifier.verify(event).unwrap());
    println!("verify            {verify:7.0} ns");
}

/// A filter that has to look at everything.
fn filter(events: &[Event]) -> String {
    let list = |values: Vec<String>| values.join(",");
    let authors = (0..4999).map(|n| format!("\"{n:064x}\""));
    let authors = list(
        authors
            .chain([format!("\"{}\"", events.first().unwrap().pubkey())])
            .collect(),
    );
    let values = || list((0..100).map(|n| escape(&format!("value {n}"))).collect());
    format!(
        "{{\"authors\":[{authors}],\"#t\":[{}],\"#p\":[{}]}}",
        values(),
        values()
    )
}

fn events() -> Vec<Vec<u8>> {
    let file = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    if let Some(path) = file.or_else(|| std::env::var("EVENTS").ok()) {
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
    (0..5000).map(event).collect()
}

/// Returns the nanoseconds that one call takes, in the best of several passes.
fn per_event<T>(items: &[T], mut work: impl FnMut(&T)) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..PASSES {
        let start = Instant::now();
        items.iter().for_each(&mut work);
        best = best.min(start.elapsed().as_nanos() as f64);
    }
    best / items.len() as f64
}
