//! Real events from the network, where they are present: they are other people's and not part of
//! this repository.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

use hikyaku_event::Event;
use serde_json::{Value, json};

use crate::{
    program::{Place, Relay},
    websocket::Client,
};

/// Looks for the file beside any folder that this one is in.
fn corpus() -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("shared/data/real-events.jsonl"))
        .find(|path| path.is_file());
    if found.is_none() {
        eprintln!("shared/data/real-events.jsonl is not there: this test claims nothing");
    }
    found
}

fn sum(counts: &Value) -> u64 {
    let counts = counts.as_object().unwrap().values();
    counts.map(|count| count.as_u64().unwrap()).sum()
}

#[test]
fn real_events_are_imported_exported_and_served() {
    let Some(corpus) = corpus() else { return };
    let text = std::fs::read_to_string(&corpus).unwrap();
    let events: HashMap<String, Event> = text
        .lines()
        .map(|line| Event::parse(line.as_bytes()).unwrap())
        .map(|event| (event.id().to_hex(), event))
        .collect();
    let place = Place::new();
    let path = corpus.to_str().unwrap();
    let report = place.run(&["import", "--json", path]).json();
    let number = |name: &str| report[name].as_u64().unwrap();
    let lines = text.lines().count() as u64;
    assert_eq!(number("events"), lines, "{report}");
    assert_eq!(sum(&report["invalid"]), 0, "{report}");
    assert_eq!(
        number("stored") + number("superseded") + sum(&report["refused"]),
        lines,
        "{report}"
    );

    let exported = place.run(&["export"]).ok();
    let kept: Vec<Event> = exported
        .lines()
        .map(|line| Event::parse(line.as_bytes()).unwrap())
        .collect();
    let mut order: Vec<_> = kept
        .iter()
        .map(|event| (std::cmp::Reverse(event.created_at()), event.id()))
        .collect();
    order.dedup();
    assert_eq!(order.len(), kept.len());
    assert!(order.is_sorted());
    for event in &kept {
        let original = events.get(&event.id().to_hex()).expect("one of them");
        assert_eq!(event.json(), original.json());
    }

    // What is not there was replaced or deleted by what is, expired, or is ephemeral.
    let again = place.run(&["import", "--json", path]).json();
    assert_eq!(again["stored"], 0, "{again}");
    assert_eq!(again["duplicates"], kept.len(), "{again}");
    assert_eq!(
        again["superseded"].as_u64().unwrap() + sum(&again["refused"]),
        lines - kept.len() as u64,
        "{again}"
    );

    let relay = Relay::start(&place);
    let mut client = Client::connect(&relay.address);
    let public: HashSet<String> = kept
        .iter()
        .filter(|event| !event.kind().is_private())
        .map(|event| event.id().to_hex())
        .collect();
    let mut served = HashSet::new();
    let ids: Vec<_> = events.keys().collect();
    for ids in ids.chunks(400) {
        for event in client.query(&json!({"ids": ids})) {
            let parsed = Event::parse(event.to_string().as_bytes()).unwrap();
            let original = &events[&parsed.id().to_hex()];
            assert_eq!(parsed.content(), original.content());
            assert_eq!(parsed.verify_id(), Ok(()));
            served.insert(parsed.id().to_hex());
        }
    }
    assert_eq!(served, public);
    relay.stop();
    assert_eq!(place.run(&["verify", "--json"]).json()["sound"], true);
}
