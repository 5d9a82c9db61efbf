//! AUTH (NIP-42).

use hikyaku_event::{
    Event, Signature,
    testing::{Author, EventBuilder},
};
use serde_json::json;

use crate::driver::{ClientId, NOW, Relay, URL, assert_refused, authentication, challenge};

fn answer_to(client: ClientId) -> EventBuilder {
    EventBuilder::new(22242)
        .created_at(NOW)
        .tag(["relay", URL])
        .tag(["challenge", &challenge(client)])
}

fn assert_not_authenticated(relay: &mut Relay, client: ClientId, event: &Event, prefix: &str) {
    let answer = relay.say(client, authentication(event));
    assert_eq!(answer.len(), 1);
    assert_refused(&answer[0], prefix);
    assert!(relay.authenticated(client).is_empty());
    let protected = EventBuilder::new(1)
        .created_at(NOW)
        .tag(["-"])
        .sign(&Author::new(1));
    assert_refused(&relay.publish(client, &protected), "auth-required:");
}

#[test]
fn the_challenge_comes_first() {
    let mut relay = Relay::new();
    let client = relay.greet();
    assert_eq!(relay.take(client), [json!(["AUTH", challenge(client)])]);
}

#[test]
fn every_key_that_authenticated_on_a_connection_counts() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let authors = [1, 2, 3].map(Author::new);
    for author in &authors {
        relay.authenticate(client, author);
    }
    for author in &authors {
        let protected = EventBuilder::new(1).created_at(NOW).tag(["-"]).sign(author);
        assert_eq!(relay.publish(client, &protected)[2], true);
    }
}

#[test]
fn authenticating_the_same_key_again_is_ok() {
    let mut relay = Relay::with_limits(|limits| limits.auth_keys_max = 1);
    let client = relay.connect();
    relay.authenticate(client, &Author::new(1));
    relay.authenticate(client, &Author::new(1));
}

#[test]
fn a_connection_has_room_for_a_bounded_number_of_keys() {
    let mut relay = Relay::with_limits(|limits| limits.auth_keys_max = 1);
    let client = relay.connect();
    relay.authenticate(client, &Author::new(1));
    let answer = relay.say(
        client,
        authentication(&answer_to(client).sign(&Author::new(2))),
    );
    assert_refused(&answer[0], "restricted:");
}

#[test]
fn another_connections_challenge_does_not_count() {
    let mut relay = Relay::new();
    let (client, other) = (relay.connect(), relay.connect());
    let event = answer_to(other).sign(&Author::new(1));
    assert_not_authenticated(&mut relay, client, &event, "invalid: the challenge");
}

#[test]
fn an_auth_without_challenge_or_relay_does_not_count() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let author = Author::new(1);
    let plain = EventBuilder::new(22242).created_at(NOW);
    let without_challenge = plain.clone().tag(["relay", URL]).sign(&author);
    assert_not_authenticated(
        &mut relay,
        client,
        &without_challenge,
        "invalid: the challenge",
    );
    let without_relay = plain.tag(["challenge", &challenge(client)]).sign(&author);
    assert_not_authenticated(&mut relay, client, &without_relay, "invalid: the relay tag");
}

#[test]
fn an_auth_for_another_relay_does_not_count() {
    let mut relay = Relay::new();
    let client = relay.connect();
    for other in [
        "wss://other.example.com",
        "ws://localhost:7777",
        "",
        "ALL_RELAYS",
    ] {
        let event = EventBuilder::new(22242)
            .created_at(NOW)
            .tag(["relay", other])
            .tag(["challenge", &challenge(client)])
            .sign(&Author::new(1));
        assert_not_authenticated(&mut relay, client, &event, "invalid: the relay tag");
    }
}

#[test]
fn an_auth_counts_for_ten_minutes_before_and_after_its_time() {
    for (created_at, counts) in [
        (NOW - 601, false),
        (NOW - 600, true),
        (NOW + 600, true),
        (NOW + 601, false),
        (0, false),
        (u64::MAX, false),
    ] {
        let mut relay = Relay::new();
        let client = relay.connect();
        let event = answer_to(client)
            .created_at(created_at)
            .sign(&Author::new(1));
        let answer = relay.say(client, authentication(&event));
        assert_eq!(answer[0][2], counts, "{created_at}");
    }
}

#[test]
fn an_auth_of_another_kind_does_not_count() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let event = EventBuilder::new(1)
        .created_at(NOW)
        .tag(["relay", URL])
        .tag(["challenge", &challenge(client)])
        .sign(&Author::new(1));
    assert_not_authenticated(&mut relay, client, &event, "invalid:");
}

#[test]
fn an_auth_with_a_wrong_id_or_signature_does_not_count() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let author = Author::new(1);
    let builder = answer_to(client);
    let right = builder.sign(&author);
    let no_signature = builder.json(right.id(), right.pubkey(), Signature::new([0; 64]));
    let no_signature = Event::parse(&no_signature).unwrap();
    assert_not_authenticated(&mut relay, client, &no_signature, "invalid:");
    let other = EventBuilder::new(22242).sign(&author);
    let wrong_id = Event::parse(&builder.json(other.id(), other.pubkey(), other.sig())).unwrap();
    assert_not_authenticated(&mut relay, client, &wrong_id, "invalid:");
}

#[test]
fn a_malformed_auth_is_answered_like_a_malformed_event() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let answer = relay.say(client, r#"["AUTH",{"id":"x"}]"#);
    assert_eq!(answer[0][1], "x");
    assert_refused(&answer[0], "invalid:");
    assert_eq!(relay.say(client, r#"["AUTH","x"]"#)[0][0], "NOTICE");
}
