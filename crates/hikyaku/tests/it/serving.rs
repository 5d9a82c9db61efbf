//! `serve`: ready, one at a time, stopped in order.

use std::{fs, io::Write, net::TcpStream, os::unix::fs::PermissionsExt, process::Stdio};

use hikyaku_event::testing::{Author, EventBuilder};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    program::{Place, Relay, lines, notes, read_all},
    websocket::Client,
};

/// Asks over HTTP; returns the body.
fn get(address: &str, path: &str, accept: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {address}\r\naccept: {accept}\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let answer = read_all(stream);
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    body.to_owned()
}

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn what_is_published_is_there_for_the_commands_and_after_a_restart() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let event = EventBuilder::new(1).content("hello").sign(&Author::new(1));
    let id = event.id().to_hex();
    let mut client = Client::connect(&relay.address);
    let ok = client.publish(event.json());
    assert_eq!(ok, json!(["OK", id, true, ""]));
    assert_eq!(place.run(&["query", "{}"]).ok().as_bytes(), lines([&event]));
    relay.stop();
    assert_eq!(place.run(&["count", "{}"]).ok(), "1\n");
    let relay = Relay::start(&place);
    let mut client = Client::connect(&relay.address);
    assert_eq!(client.query(&json!({"ids": [id]})).len(), 1);
    relay.stop();
}

#[test]
fn an_import_reaches_live_subscribers() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let mut client = Client::connect(&relay.address);
    client.send(&json!(["REQ", "live", {"kinds": [1]}]));
    assert_eq!(client.next().unwrap()[0], "EOSE");
    let events = notes(3);
    place.import(&events);
    for event in &events {
        let message = client.next().unwrap();
        assert_eq!(message[2]["id"], event.id().to_hex());
    }
    relay.stop();
}

#[test]
fn a_second_process_is_refused() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let error = place.run(&["serve", "--listen", "127.0.0.1:0"]).failed(3);
    assert!(error.contains("another process"), "{error}");
    let error = place.run(&["repair"]).failed(3);
    assert!(error.contains("stop it first"), "{error}");
    // A server that can't be reached still keeps others out.
    fs::remove_file(place.data().join("control.sock")).unwrap();
    let error = place.run(&["stats"]).failed(3);
    assert!(error.contains("another process"), "{error}");
    assert_eq!(relay_answers(&relay), 0);
    relay.signal(Signal::TERM);
    assert_eq!(relay.wait().0.code(), Some(0));
}

fn relay_answers(relay: &Relay) -> usize {
    Client::connect(&relay.address).query(&json!({})).len()
}

#[test]
fn an_address_in_use_is_named() {
    let (first, second) = (Place::new(), Place::new());
    let relay = Relay::start(&first);
    let error = second.run(&["serve", "--listen", &relay.address]).failed(1);
    assert!(error.contains(&relay.address), "{error}");
    assert!(error.contains("--listen"), "{error}");
    relay.stop();
}

#[test]
fn the_key_and_the_socket_are_the_owners_alone() {
    let place = Place::new();
    let relay = Relay::start(&place);
    assert_eq!(mode(&place.data().join("relay.key")), 0o600);
    assert_eq!(mode(&place.data().join("control.sock")), 0o600);
    relay.stop();
    assert!(!place.data().join("control.sock").exists());
}

#[test]
fn the_relays_key_stays_the_same() {
    let place = Place::new();
    let key = || {
        let relay = Relay::start(&place);
        let body = get(&relay.address, "/", "application/nostr+json");
        relay.stop();
        serde_json::from_str::<Value>(&body).unwrap()["self"].clone()
    };
    let first = key();
    assert_eq!(first.as_str().unwrap().len(), 64);
    assert_eq!(key(), first);
}

#[test]
fn a_configured_key_is_used_and_never_shown() {
    let place = Place::new();
    let secret = format!("{:064x}", 3);
    // The x coordinate of three times the generator (BIP-340's first test vector).
    let public = "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9";
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("HIKYAKU_RELAY_KEY", &secret);
    command.env("HIKYAKU_INFORMATION_NAME", "A relay");
    let relay = Relay::spawn(command);
    let body = get(&relay.address, "/", "application/nostr+json");
    let document: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(document["self"], public);
    assert_eq!(document["name"], "A relay");
    relay.stop();
    assert!(!place.data().join("relay.key").exists());
    let mut command = place.command(&["config"]);
    command.env("HIKYAKU_RELAY_KEY", &secret);
    let shown = crate::program::ended(command).ok();
    assert!(!shown.contains(&secret), "{shown}");
}

#[test]
fn a_signal_ends_it_in_order() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let relay = Relay::start(&place);
        let mut client = Client::connect(&relay.address);
        assert_eq!(client.query(&json!({})).len(), 0);
        relay.signal(signal);
        assert_eq!(client.close_code(), 1001);
        let (status, log) = relay.wait();
        assert_eq!(status.code(), Some(0), "{log}");
        let report = place.run(&["stats", "--json"]).json();
        assert_eq!(report["torn_tail"], Value::Null);
    }
}

#[test]
fn a_dead_servers_socket_is_no_hindrance() {
    let place = Place::new();
    let relay = Relay::start(&place);
    place.import(&notes(3));
    relay.signal(Signal::KILL);
    assert_eq!(relay.wait().0.code(), None);
    assert!(place.data().join("control.sock").exists());
    assert_eq!(place.run(&["count", "{}"]).ok(), "3\n");
    let relay = Relay::start(&place);
    assert_eq!(relay_answers(&relay), 3);
    relay.stop();
}

#[test]
fn an_import_under_way_ends_with_the_server() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let mut command = place.command(&["import", "--json"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&lines(&notes(5))).unwrap();
    while place.run(&["count", "{}"]).ok() != "5\n" {}
    relay.stop();
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["stored"], 5, "{report}");
    assert_eq!(report["end"], "interrupted", "{report}");
    assert_eq!(output.status.code(), Some(130));
    drop(input);
    assert_eq!(place.run(&["count", "{}"]).ok(), "5\n");
}

#[test]
fn an_interrupted_import_says_what_is_stored() {
    for served in [false, true] {
        let place = Place::new();
        let relay = served.then(|| Relay::start(&place));
        let mut command = place.command(&["import", "--json"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(&lines(&notes(5))).unwrap();
        if served {
            while place.run(&["count", "{}"]).ok() != "5\n" {}
        } else {
            // The store is there once the command listens to signals and reads.
            while !place.data().join("events/MANIFEST").exists() {}
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        drop(input);
        assert_eq!(output.status.code(), Some(130), "served: {served}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["end"], "interrupted", "{report}");
        let stored = format!("{}\n", report["stored"]);
        if let Some(relay) = relay {
            assert_eq!(report["stored"], 5, "{report}");
            relay.stop();
        }
        assert_eq!(place.run(&["count", "{}"]).ok(), stored);
    }
}

#[test]
fn the_stores_figures_are_among_the_metrics() {
    let place = Place::new();
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("HIKYAKU_METRICS_LISTEN", "127.0.0.1:0");
    let relay = Relay::spawn(command);
    place.import(&notes(7));
    let (_, address) = relay.opening.split_once("metrics at http://").unwrap();
    let (address, _) = address.split_once('/').unwrap();
    let metrics = get(address, "/metrics", "text/plain");
    assert!(metrics.contains("hikyaku_store_events 7\n"), "{metrics}");
    relay.stop();
}

#[test]
fn log_lines_are_objects_if_that_is_wanted() {
    let place = Place::new();
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("HIKYAKU_LOG_FORMAT", "json");
    command.env("HIKYAKU_LOG_FILTER", "debug");
    let relay = Relay::spawn(command);
    place.run(&["count", "{}"]).ok();
    relay.signal(Signal::TERM);
    let (_, log) = relay.wait();
    assert!(log.lines().count() >= 3, "{log}");
    for line in log.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
}
