//! Who the members are, as the operator sees it.

use std::time::{SystemTime, UNIX_EPOCH};

use hikyaku_event::testing::{Author, EventBuilder};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    program::{Place, Relay},
    websocket::Client,
};

fn unix_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

fn key(author: u64) -> String {
    Author::new(author).pubkey().to_hex()
}

/// Publishes an event of this moment.
fn write(client: &mut Client, author: u64, kind: u16, content: &str) {
    let event = EventBuilder::new(kind)
        .created_at(unix_now())
        .content(content)
        .sign(&Author::new(author));
    assert_eq!(client.publish(event.json())[2], true);
}

fn members(place: &Place, args: &[&str]) -> Value {
    place.run(&[&["members", "--json"], args].concat()).json()
}

#[test]
fn who_writes_is_a_member_while_the_relay_serves_and_afterwards() {
    let place = Place::new();
    let began = unix_now();
    let relay = Relay::start(&place);
    let mut client = Client::connect(&relay.address);
    write(&mut client, 1, 1, "a");
    write(&mut client, 1, 1, "b");
    write(&mut client, 2, 7, "+");
    while members(&place, &[])["members"] != 2 {}
    relay.stop();
    let report = members(&place, &[]);
    assert_eq!(report["seen_today"], 2);
    let listed = report["listed"].as_array().unwrap();
    assert_eq!(listed[0]["key"], key(1));
    assert_eq!(listed[0]["events"], json!([{"kind": 1, "count": 2}]));
    assert_eq!(listed[0]["address_family"], "IPv4");
    assert!(listed[0]["seen_at"].as_u64().unwrap() >= began);
    assert_eq!(listed[1]["number"], 2);
    assert_eq!(listed[1]["events"], json!([{"kind": 7, "count": 1}]));
    let text = place.run(&["members", &key(1)]).ok();
    assert!(
        text.contains("2 events") && text.contains("kind 1 "),
        "{text}"
    );
}

#[test]
fn members_are_listed_in_parts() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let mut client = Client::connect(&relay.address);
    for author in 1..=5 {
        write(&mut client, author, 1, "hello");
    }
    while members(&place, &[])["members"] != 5 {}
    let first = members(&place, &["--limit", "2"]);
    assert_eq!(first["listed"].as_array().unwrap().len(), 2);
    assert_eq!(first["more"], true);
    let rest = members(&place, &["--after", "2", "--limit", "3"]);
    assert_eq!(rest["listed"][2]["key"], key(5));
    assert_eq!(rest["more"], false);
    assert_eq!(
        members(&place, &["--seen-within", "1h"])["listed"]
            .as_array()
            .unwrap()
            .len(),
        5
    );
    relay.stop();
}

#[test]
fn members_keep_their_numbers_through_kill_nine() {
    let place = Place::new();
    for round in 0..3 {
        let relay = Relay::start(&place);
        let mut client = Client::connect(&relay.address);
        for author in [1, 2, 10 + round] {
            write(&mut client, author, 1, &format!("round {round}"));
        }
        while members(&place, &[])["members"] != 3 + round {}
        relay.signal(Signal::KILL);
        relay.wait();
    }
    let report = members(&place, &[]);
    let listed: Vec<_> = report["listed"].as_array().unwrap().iter().collect();
    for (place, author) in [1, 2, 10, 11, 12].into_iter().enumerate() {
        assert_eq!(listed[place]["key"], key(author), "{report}");
    }
}

#[test]
fn footprints_are_off_until_they_are_switched_on() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let mut client = Client::connect(&relay.address);
    write(&mut client, 1, 1, "hello");
    while members(&place, &[])["members"] != 1 {}
    let key = key(1);
    let footprints = |args: &[&str]| {
        let command = [&["footprints", &key, "--json"], args].concat();
        place.run(&command).json()["on"].clone()
    };
    assert_eq!(footprints(&[]), false);
    assert_eq!(footprints(&["--on"]), true);
    relay.stop();
    assert_eq!(footprints(&[]), true);
    assert_eq!(footprints(&["--off"]), false);
}

#[test]
fn wrong_keys_and_strangers_are_told_apart() {
    let place = Place::new();
    place.run(&["members", "nonsense"]).failed(2);
    place.run(&["footprints", &key(1)]).failed(1);
    Relay::start(&place).stop();
    let said = place.run(&["members", &key(1)]).failed(1);
    assert!(said.contains("is not a member"), "{said}");
}

#[test]
fn an_operator_may_keep_nothing_about_members() {
    let place = Place::new();
    place.write("hikyaku.toml", "[members]\nkeep = false\n");
    let relay = Relay::start(&place);
    let mut client = Client::connect(&relay.address);
    write(&mut client, 1, 1, "hello");
    let said = place.run(&["members"]).failed(1);
    assert!(said.contains("members.keep"), "{said}");
    relay.stop();
    assert!(!place.data().join("members").exists());
}
