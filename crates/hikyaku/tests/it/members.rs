//! Who the members are, as the operator sees it.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{SystemTime, UNIX_EPOCH},
};

use hikyaku_event::testing::{Author, EventBuilder};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    program::{Place, Relay},
    sessions::base64,
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

/// Sends a request that a member has signed; returns status and body.
fn signed(relay: &Relay, author: u64, method: &str, path: &str) -> (u16, String) {
    let event = EventBuilder::new(27_235)
        .created_at(unix_now())
        // No two are the same.
        .content(&format!(
            "{author} {method} {:?}",
            std::time::Instant::now()
        ))
        .tag(["u", &format!("http://{}{path}", relay.address)])
        .tag(["method", method])
        .sign(&Author::new(author));
    let signature = format!("Authorization: Nostr {}\r\n", base64(event.json()));
    asked(relay, method, path, &signature)
}

fn asked(relay: &Relay, method: &str, path: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(&relay.address).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: 0\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

#[test]
fn a_member_turns_its_own_footprints_on_and_off() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let mut client = Client::connect(&relay.address);
    for author in 1..=3 {
        write(&mut client, author, 1, "hello");
    }
    while members(&place, &[])["members"] != 3 {}
    let page = |author: u64| {
        let (status, body) = signed(&relay, author, "GET", "/footprints");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).unwrap()
    };
    let visit = |visitor: u64, of: u64| {
        let path = format!("/footprints/{}", key(of));
        let (status, body) = signed(&relay, visitor, "POST", &path);
        assert!(
            (200..300).contains(&status) && body.is_empty(),
            "{status} {body}"
        );
    };
    assert_eq!(page(1), json!({"on": false, "visits": []}));
    // Neither of both wants them, then one, then both.
    visit(2, 1);
    assert_eq!(signed(&relay, 1, "PUT", "/footprints").0, 200);
    visit(2, 1);
    assert_eq!(page(1), json!({"on": true, "visits": []}));
    for visitor in [2, 3] {
        assert_eq!(signed(&relay, visitor, "PUT", "/footprints").0, 200);
        visit(visitor, 1);
    }
    let seen = page(1);
    let visitors: Vec<_> = seen["visits"].as_array().unwrap().iter().collect();
    let visitors: Vec<_> = visitors.iter().map(|visit| &visit["visitor"]).collect();
    // Those of one second have no order.
    assert_eq!(visitors.len(), 2);
    assert!(visitors.contains(&&json!(key(2))) && visitors.contains(&&json!(key(3))));
    assert_eq!(page(2), json!({"on": true, "visits": []}));
    let off = signed(&relay, 1, "DELETE", "/footprints");
    assert_eq!(off, (200, "{\"on\":false,\"visits\":[]}".to_owned()));
    assert_eq!(
        signed(&relay, 1, "PUT", "/footprints").1,
        "{\"on\":true,\"visits\":[]}"
    );
    // Nobody asks for another, and a stranger is none.
    assert_eq!(asked(&relay, "PUT", "/footprints", "").0, 401);
    assert_eq!(signed(&relay, 9, "GET", "/footprints").0, 404);
    let wrong = signed(&relay, 1, "POST", "/footprints/nobody");
    assert_eq!(wrong.0, 400, "{}", wrong.1);
    relay.stop();
}
