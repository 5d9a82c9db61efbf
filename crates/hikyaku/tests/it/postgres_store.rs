//! The store in PostgreSQL: moving in, the index of tags, and a database that does not answer in time.

use hikyaku_event::{
    Event,
    testing::{Author, EventBuilder},
};
use hikyaku_postgres::testing::Cluster;
use hikyaku_sources::testing::NostreamDatabase;
use serde_json::{Value, json};

use crate::{
    program::{Ended, Place, Relay, ids, lines},
    websocket::Client,
};

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

fn serve(place: &Place, url: &str) -> Relay {
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0", "--store", url]);
    command.env("HIKYAKU_TIMEOUTS_CLOSE_SECONDS", "1");
    Relay::spawn(command)
}

/// Asks for a topic's notes; returns how many there are, and what stands behind the name in EOSE.
fn topic(client: &mut Client, topic: &str) -> (usize, Option<Value>) {
    client.send(&json!(["REQ", "topic", {"#t": [topic]}]));
    let mut found = 0;
    loop {
        let message = client.next().unwrap();
        if message[0] == "EOSE" {
            client.send(&json!(["CLOSE", "topic"]));
            return (found, message.get(2).cloned());
        }
        assert_eq!(message[0], "EVENT", "{message}");
        found += 1;
    }
}

#[test]
fn a_running_relay_says_finish_only_while_all_events_are_indexed() {
    let cluster = Cluster::start(&[]);
    let url = cluster.url();
    let place = Place::new();
    let run = |arguments: &[&str]| {
        let arguments = [arguments, &["--store", &url, "--json"]].concat();
        place.run(&arguments).json()
    };
    let wait_for =
        |state: &str| while run(&["postgres", "backfill", "status"])["state"] != state {};
    let events = notes(1001);
    let (last, first) = events.split_last().unwrap();
    let import = place.run_with(&["import", "--store", &url, "--json"], &lines(first));
    assert_eq!(import.json()["stored"], 1000);
    let relay = serve(&place, &url);
    let mut client = Client::connect(&relay.address);
    let whole = Some(json!(["finish"]));
    assert_eq!(topic(&mut client, "topic 0"), (200, whole.clone()));

    run(&["postgres", "drop-tag", "t"]);
    wait_for("idle");
    run(&[
        "postgres", "backfill", "pace", "--share", "100", "--rate", "1",
    ]);
    run(&["postgres", "index-tag", "t"]);
    run(&["postgres", "backfill", "pause"]);
    let (found, said) = topic(&mut client, "topic 0");
    assert!(found < 200, "{found} in a moment at one a second");
    assert_eq!(said, None);
    // What comes meanwhile is indexed at once.
    assert_eq!(last.created_at() % 5, 0);
    assert_eq!(client.publish(last.json())[2], true);
    let (more, said) = topic(&mut client, "topic 0");
    assert!(more > found, "{more} after {found}");
    assert_eq!(said, None);
    client.send(&json!(["COUNT", "count", {"#t": ["topic 0"]}]));
    assert_eq!(client.next().unwrap()[2]["approximate"], true);

    run(&["postgres", "backfill", "pace", "--share", "100"]);
    run(&["postgres", "backfill", "resume"]);
    wait_for("idle");
    assert_eq!(topic(&mut client, "topic 0"), (201, whole));
    client.send(&json!(["COUNT", "count", {"#t": ["topic 0"]}]));
    assert_eq!(client.next().unwrap()[2], json!({"count": 201}));
    relay.stop();
}

#[test]
fn a_statement_that_is_given_up_is_an_error_and_the_node_comes_back() {
    let cluster = Cluster::start(&[]);
    let place = Place::new();
    let events = notes(5);
    let mut stored = 0;
    for setting in ["statement_timeout", "lock_timeout"] {
        let options = format!("options=-c%20{setting}%3D300");
        let relay = serve(&place, &format!("{}?{options}", cluster.url()));
        let mut client = Client::connect(&relay.address);
        let mut publish = |number: usize| client.publish(events[number].json());
        assert_eq!(publish(stored)[2], true);
        stored += 1;
        let held = cluster.hold("LOCK TABLE hikyaku.events IN ACCESS EXCLUSIVE MODE");
        let refused = publish(stored);
        assert_eq!(refused[2], false, "{setting}: {refused}");
        let reason = refused[3].as_str().unwrap();
        assert!(reason.starts_with("error: "), "{setting}: {reason}");
        client.send(&json!(["REQ", "all", {}]));
        let closed = client.next().unwrap();
        assert_eq!(closed[0], "CLOSED", "{setting}: {closed}");
        let reason = closed[2].as_str().unwrap();
        assert!(reason.starts_with("error: "), "{setting}: {reason}");
        drop(held);
        // Nothing of what was refused is there, and it can be sent again.
        assert_eq!(client.query(&json!({})).len(), stored, "{setting}");
        assert_eq!(client.publish(events[stored].json())[2], true, "{setting}");
        stored += 1;
        assert_eq!(client.query(&json!({})).len(), stored, "{setting}");
        relay.stop();
    }
    let log = cluster.log();
    for reason in ["statement timeout", "lock timeout"] {
        let reason = format!("canceling statement due to {reason}");
        assert!(log.contains(&reason), "{log}");
    }
}
