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

type Work<'a, T> = (&'static str, Box<dyn FnMut(&T) + 'a>);

fn main() {
    let lines = events();
    let bytes: usize = lines.iter().map(Vec::len).sum();
    println!(
        "{} events, {} bytes on average",
        lines.len(),
        bytes / lines.len()
    );
    report(
        &lines,
        vec![
            (
                "parse, serde_json",
                Box::new(|json: &Vec<u8>| {
                    black_box(
                        serde_json::from_slice::<SerdeEvent>(json)
                            .unwrap()
                            .sig
                            .len(),
                    );
                }),
            ),
            (
                "parse",
                Box::new(|json| {
                    black_box(Event::parse(json).unwrap());
                }),
            ),
            (
                "parse and id, serde_json",
                Box::new(|json| {
                    let e: SerdeEvent = serde_json::from_slice(json).unwrap();
                    let fields = (0, &e.pubkey, e.created_at, e.kind, &e.tags, &e.content);
                    let hash = Sha256::digest(serde_json::to_vec(&fields).unwrap());
                    assert_eq!(faster_hex::hex_string(&hash), e.id);
                }),
            ),
            (
                "parse and id",
                Box::new(|json| {
                    Event::parse(json).unwrap().verify_id().unwrap();
                }),
            ),
            (
                "UTF-8 check alone",
                Box::new(|json| {
                    black_box(simdutf8::basic::from_utf8(json).is_ok());
                }),
            ),
            (
                "SHA-256 of the JSON alone",
                Box::new(|json| {
                    black_box(Sha256::digest(json));
                }),
            ),
        ],
    );

    let parsed: Vec<_> = lines
        .iter()
        .map(|json| Event::parse(json).unwrap())
        .collect();
    let filter = Filter::parse(filter(&parsed).as_bytes()).unwrap();
    report(
        &parsed,
        vec![
            (
                "match a filter of 5,000 authors and 2 x 100 tag values",
                Box::new(|event| {
                    black_box(filter.matches(event));
                }),
            ),
            (
                "read the indexed tags",
                Box::new(|event| {
                    black_box(
                        event
                            .indexed_tags()
                            .map(|(_, value)| value.len())
                            .sum::<usize>(),
                    );
                }),
            ),
        ],
    );

    let mut verifier = Verifier::new();
    let some = parsed.get(..parsed.len().min(500)).unwrap();
    report(
        some,
        vec![("verify", Box::new(|event| verifier.verify(event).unwrap()))],
    );
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

/// Prints the nanoseconds that one call of each work takes, in the best of several passes; the works
/// take turns, so that what else the machine does falls on all of them.
fn report<T>(items: &[T], mut works: Vec<Work<'_, T>>) {
    let mut best = vec![f64::INFINITY; works.len()];
    for _ in 0..PASSES {
        for ((_, work), best) in works.iter_mut().zip(&mut best) {
            let start = Instant::now();
            items.iter().for_each(work);
            *best = best.min(start.elapsed().as_nanos() as f64 / items.len() as f64);
        }
    }
    for ((name, _), ns) in works.iter().zip(best) {
        println!("{ns:9.0} ns  {name}");
    }
}
