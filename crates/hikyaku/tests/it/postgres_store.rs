//! The store in PostgreSQL: moving in, and the index of tags.

use hikyaku_event::{
    Event,
    testing::{Author, EventBuilder},
};
use hikyaku_postgres::testing::Cluster;
use hikyaku_sources::testing::NostreamDatabase;
use serde_json::Value;

use crate::program::{Ended, Place, ids};

/// Returns so many notes, of five topics.
fn notes(count: u64) -> Vec<Event> {
    let alice = Author::new(1);
    (0..count)
        .map(|number| {
            EventBuilder::new(1)
                .created_at(1_700_000_000 + number)
                .tag(["t", &format!("topic {}", number % 5)])
                .sign(&alice)
        })
        .collect()
}

fn number(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap()
}

#[test]
fn a_nostream_operator_moves_in_and_an_index_is_made_again() {
    let cluster = Cluster::start(&[]);
    cluster.sql("CREATE DATABASE nostream");
    let store = cluster.url();
    let (server, _) = store.rsplit_once('/').unwrap();
    let nostreams = format!("{server}/nostream");
    let nostream = NostreamDatabase::create(&nostreams);
    let place = Place::new();
    let run = |arguments: &[&str]| place.run(&[arguments, &["--store", &store]].concat());
    let import = || run(&["import", "--json", "--from-nostream", &nostreams]).json();

    let events = notes(1200);
    nostream.add(&events[..1000]);
    nostream.delete(&events[3]);
    let report = import();
    assert_eq!(
        ["events", "stored", "left_out"].map(|name| number(&report, name)),
        [1000, 999, 1]
    );
    nostream.add(&events[1000..]);
    let report = import();
    assert_eq!(
        ["events", "stored", "duplicates"].map(|name| number(&report, name)),
        [1200, 200, 999]
    );
    let found = || ids(&run(&["query", r##"{"#t":["topic 2"]}"##]).ok());
    let all = events
        .iter()
        .rev()
        .filter(|event| event.created_at() % 5 == 2);
    let all: Vec<_> = all.map(|event| event.id().to_hex()).collect();
    assert_eq!(found(), all);

    // The index of `t` is taken away and made again, here by a process of its own.
    let state = |ended: Ended| ended.json()["state"].as_str().unwrap().to_owned();
    run(&["postgres", "drop-tag", "t", "--json"]).ok();
    assert_eq!(
        state(run(&["postgres", "backfill", "run", "--json"])),
        "idle"
    );
    for whole in [
        &["query", r##"{"#t":["topic 2"]}"##][..],
        &["export", "--filter", r##"{"#t":["topic 2"]}"##],
        &["count", r##"{"#t":["topic 2"]}"##],
    ] {
        let error = run(whole).failed(1);
        assert!(error.contains("not all events are indexed"), "{error}");
    }
    run(&["query", r##"{"#t":["topic 2"],"limit":0}"##]).ok();
    assert_eq!(
        state(run(&["postgres", "index-tag", "t", "--json"])),
        "running"
    );
    assert_eq!(
        state(run(&["postgres", "backfill", "pause", "--json"])),
        "paused"
    );
    let text = run(&["postgres", "backfill", "status"]).ok();
    assert!(text.contains("being indexed: t; 0 of "), "{text}");
    assert!(text.contains("paused; pace: 25 % of the time"), "{text}");
    run(&["postgres", "backfill", "pace", "--share", "100"]).ok();
    assert_eq!(
        state(run(&["postgres", "backfill", "resume", "--json"])),
        "running"
    );
    let done = run(&["postgres", "backfill", "run", "--json"]).json();
    assert_eq!(
        (done["state"].as_str(), number(&done, "done")),
        (Some("idle"), 1199)
    );
    assert_eq!(found(), all);

    let error = run(&["postgres", "drop-tag", "p"]).failed(2);
    assert!(error.contains("`p` stays indexed"), "{error}");
    let error = place.run(&["postgres", "backfill", "status"]).failed(2);
    assert!(error.contains("--store postgres://"), "{error}");
}
