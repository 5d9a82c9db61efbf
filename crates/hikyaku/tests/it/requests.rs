//! `slow` and `top`: what the running server's requests cost, by their shape.

use std::{fs, process::Stdio};

use hikyaku_event::testing::{Author, EventBuilder};
use serde_json::{Value, json};

use crate::{
    program::{Place, Relay, ended, notes},
    websocket::Client,
};

/// Returns the figures of the one shape with this name.
fn shape<'a>(report: &'a Value, name: &str) -> &'a Value {
    let shapes = report["shapes"].as_array().unwrap();
    let found = shapes.iter().find(|shape| shape["shape"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {report:#}"))
}

fn slow(place: &Place, args: &[&str]) -> Value {
    place.run(&[&["slow", "--json"], args].concat()).json()
}

#[test]
fn requests_are_told_by_shape_and_compared_with_what_was() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let mut client = Client::connect(&relay.address);
    let events = notes(30);
    for event in &events {
        client.publish(event.json());
    }
    client.publish(events[0].json());
    let author = Author::new(1).pubkey().to_hex();
    for limit in [10, 20] {
        let asked = json!({"authors": [author], "kinds": [1], "limit": limit});
        assert_eq!(client.query(&asked).len(), limit);
    }
    assert_eq!(client.query(&json!({"#t": ["none"]})).len(), 0);

    let report = slow(&place, &["--save", "before.json"]);
    let stored = shape(&report, "EVENT regular stored");
    assert_eq!(stored["calls"], 30);
    assert!(stored["phases"]["handler_us"].as_f64() > Some(0.0));
    assert!(stored["phases"]["write_us"].as_f64() > Some(0.0));
    let bytes: usize = events.iter().map(|event| event.json().len()).sum();
    assert_eq!(stored["bytes"], bytes);
    assert_eq!(shape(&report, "EVENT regular duplicate")["calls"], 1);
    let home = "REQ {authors:1 kinds:1 limit:\u{2264}20}";
    let asked = shape(&report, home);
    assert_eq!(
        (&asked["calls"], &asked["returned"]),
        (&json!(2), &json!(30))
    );
    let ratio = asked["examined_per_returned"].as_f64().unwrap();
    assert!((1.0..1.5).contains(&ratio), "{ratio}");
    let example = asked["example"].as_str().unwrap();
    assert!(example.contains(&author), "{example}");
    for (less, more) in [
        ("p50_us", "p95_us"),
        ("p95_us", "p99_us"),
        ("p99_us", "max_us"),
    ] {
        assert!(asked[less].as_f64().unwrap() <= asked[more].as_f64().unwrap());
        assert!(asked[less].as_f64().unwrap() > 0.0);
    }
    let nothing = shape(&report, "REQ {#t:1}");
    assert_eq!(nothing["returned"], 0);
    assert_eq!(nothing["examined_per_returned"], Value::Null);
    assert_eq!(shape(&report, "GET / (WebSocket)")["calls"], 1);

    client.send(&json!(["COUNT", "c", {"kinds": [1]}]));
    assert_eq!(client.next().unwrap()[2]["count"], 30);
    assert_eq!(
        client
            .query(&json!({"authors": [author], "kinds": [1], "limit": 5}))
            .len(),
        5
    );
    let since = slow(&place, &["--since", "before.json"]);
    assert_eq!(since["restarted"], false);
    let asked = shape(&since, home);
    assert_eq!(
        (&asked["calls"], &asked["before"]["calls"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(shape(&since, "COUNT {kinds:1}")["before"], Value::Null);
    let names = since["shapes"].to_string();
    assert!(!names.contains("EVENT"), "{names}");
    let text = place.run(&["slow", "--since", "before.json"]).ok();
    assert!(text.contains("before: p50"), "{text}");
    assert!(text.contains("not seen before"), "{text}");
    relay.stop();

    let error = place.run(&["slow"]).failed(1);
    assert!(error.contains("no server runs"), "{error}");
    let relay = Relay::start(&place);
    assert_eq!(slow(&place, &["--since", "before.json"])["restarted"], true);
    relay.stop();
    place.write("other.json", "{}\n");
    let relay = Relay::start(&place);
    let error = place.run(&["slow", "--since", "other.json"]).failed(2);
    assert!(error.contains("not a snapshot"), "{error}");
    relay.stop();
}

#[test]
fn shapes_that_a_client_makes_up_take_no_more_room() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let mut client = Client::connect(&relay.address);
    let letters: Vec<char> = ('a'..='z').chain('A'..='Z').collect();
    let mut asked = 0;
    for first in &letters {
        for second in letters.iter().take(20).filter(|second| *second != first) {
            let filter = json!({format!("#{first}"): ["x"], format!("#{second}"): ["x"]});
            assert_eq!(client.query(&filter).len(), 0);
            asked += 1;
        }
    }
    place.run(&["slow", "--save", "kept.json"]).ok();
    let kept: Value =
        serde_json::from_slice(&fs::read(place.path().join("kept.json")).unwrap()).unwrap();
    let shapes = kept["shapes"].as_array().unwrap();
    let calls = |shape: &Value| shape["calls"].as_u64().unwrap();
    let all: u64 = shapes.iter().map(calls).sum();
    // The handshake too.
    assert_eq!(all, asked + 1);
    assert!(shapes.len() < 700, "{}", shapes.len());
    relay.stop();
}

#[test]
fn top_prints_each_interval_where_there_is_no_terminal() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let mut client = Client::connect(&relay.address);
    let mut command = place.command(&["top", "--interval", "1", "--count", "2"]);
    command.stdout(Stdio::piped());
    let top = std::thread::spawn(move || ended(command));
    let author = Author::new(3);
    let mut count = 0;
    while !top.is_finished() {
        count += 1;
        let event = EventBuilder::new(1)
            .content(&count.to_string())
            .sign(&author);
        client.publish(event.json());
    }
    let text = top.join().unwrap().ok();
    assert_eq!(text.matches("hikyaku top: ").count(), 2, "{text}");
    assert!(text.contains("EVENT regular stored"), "{text}");
    relay.stop();
}

#[test]
fn nothing_is_measured_where_it_is_switched_off() {
    let place = Place::new();
    place.write("hikyaku.toml", "[metrics]\nrequests = false\n");
    let relay = Relay::start(&place);
    Client::connect(&relay.address).query(&json!({}));
    let error = place.run(&["slow"]).failed(1);
    assert!(error.contains("metrics.requests"), "{error}");
    relay.stop();
}

#[test]
fn a_databases_statements_are_told_with_the_line_that_makes_them() {
    let cluster = hikyaku_postgres::testing::Cluster::start(&[]);
    let place = Place::new();
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("HIKYAKU_STORE_URL", cluster.url());
    command.env("HIKYAKU_TIMEOUTS_CLOSE_SECONDS", "1");
    let relay = Relay::spawn(command);
    let mut client = Client::connect(&relay.address);
    for event in &notes(5) {
        client.publish(event.json());
    }
    assert_eq!(client.query(&json!({"kinds": [1]})).len(), 5);
    let report = slow(&place, &[]);
    let asked = shape(&report, "REQ {kinds:1}");
    assert!(
        asked["phases"]["query_us"].as_f64() > Some(0.0),
        "{asked:#}"
    );
    let statements = report["statements"].as_array().unwrap();
    let sites: Vec<_> = statements
        .iter()
        .map(|s| s["site"].as_str().unwrap())
        .collect();
    let from = |file: &str| sites.iter().any(|site| site.contains(file));
    assert!(from("postgres/src/query/statement.rs:"), "{sites:?}");
    assert!(from("postgres/src/reader.rs:"), "{sites:?}");
    relay.stop();
}
