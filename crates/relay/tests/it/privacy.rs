//! Who gets private kinds (NIP-42, NIP-17, NIP-59), by every door.

use std::slice;

use hikyaku_event::{
    Event,
    testing::{Author, EventBuilder},
};
use serde_json::{Value, json};

use crate::driver::{NOW, Relay, assert_refused, count, event_for, note, request};

fn to(recipient: &Author, kind: u16) -> EventBuilder {
    EventBuilder::new(kind)
        .created_at(NOW)
        .tag(["p", &recipient.pubkey().to_hex()])
}

fn eose(id: &str) -> Value {
    json!(["EOSE", id, ["finish"]])
}

#[test]
fn a_filter_of_private_kinds_only_needs_auth() {
    let mut relay = Relay::new();
    let client = relay.connect();
    for kinds in [vec![4], vec![1059], vec![21059], vec![4, 1059, 21059]] {
        let filters = [json!({"kinds": [1]}), json!({"kinds": kinds})];
        for question in [request("s", filters.clone()), count("s", filters.clone())] {
            let answer = relay.say(client, question);
            assert_eq!(answer.len(), 1);
            assert_refused(&answer[0], "auth-required:");
        }
    }
    assert!(relay.index.is_empty());
}

#[test]
fn a_filter_that_names_other_kinds_too_leaves_private_events_out() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let (alice, bob) = (Author::new(1), Author::new(2));
    let open = note(&alice, "for all");
    for event in [
        &to(&bob, 4).sign(&alice),
        &to(&bob, 1059).sign(&alice),
        &open,
    ] {
        assert_eq!(relay.publish(client, event)[2], true);
    }
    for filter in [
        json!({"kinds": [1, 4, 1059]}),
        json!({}),
        json!({"authors": [alice.pubkey().to_hex()]}),
    ] {
        let answer = relay.say(client, request("s", [filter.clone()]));
        assert_eq!(answer, [event_for("s", &open), eose("s")]);
        let answer = relay.say(client, count("c", [filter]));
        assert_eq!(answer, [json!(["COUNT", "c", {"count": 1}])]);
    }
}

#[test]
fn the_id_of_a_private_event_gives_nothing_away() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let wrap = to(&Author::new(2), 1059).sign(&Author::new(1));
    relay.publish(client, &wrap);
    relay.authenticate(client, &Author::new(3));
    let filter = json!({"ids": [wrap.id().to_hex()]});
    assert_eq!(
        relay.say(client, request("s", [filter.clone()])),
        [eose("s")]
    );
    let answer = relay.say(client, count("c", [filter]));
    assert_eq!(answer, [json!(["COUNT", "c", {"count": 0}])]);
}

#[test]
fn parties_get_their_private_events_stored_counted_and_live() {
    let mut relay = Relay::new();
    let (client, sender) = (relay.connect(), relay.connect());
    let (alice, bob) = (Author::new(1), Author::new(2));
    let stored = to(&bob, 1059).sign(&alice);
    relay.publish(sender, &stored);
    relay.authenticate(client, &bob);
    let filter = json!({"kinds": [1059], "#p": [bob.pubkey().to_hex()]});
    let answer = relay.say(client, request("s", [filter.clone()]));
    assert_eq!(answer, [event_for("s", &stored), eose("s")]);
    let answer = relay.say(client, count("c", [filter]));
    assert_eq!(answer, [json!(["COUNT", "c", {"count": 1}])]);
    let live = to(&bob, 1059).content("live").sign(&alice);
    relay.publish(sender, &live);
    assert_eq!(relay.take(client), [event_for("s", &live)]);
}

#[test]
fn live_private_events_go_to_their_parties_only() {
    let mut relay = Relay::new();
    let sender = relay.connect();
    let people = [1, 2, 3].map(Author::new);
    let clients = people.each_ref().map(|person| {
        let client = relay.connect();
        relay.say(client, request("s", [json!({})]));
        relay.authenticate(client, person);
        client
    });
    let message = to(&people[1], 4).sign(&people[0]);
    let wrap = to(&people[1], 1059).sign(&people[0]);
    relay.publish(sender, &message);
    relay.publish(sender, &wrap);
    let [message, wrap] = [&message, &wrap].map(|event| event_for("s", event));
    assert_eq!(
        relay.take(clients[0]),
        slice::from_ref(&message),
        "the author reads kind 4 only"
    );
    assert_eq!(relay.take(clients[1]), [message, wrap]);
    assert_eq!(relay.take(clients[2]), [] as [Value; 0]);
}

#[test]
fn a_stranger_who_asks_for_private_events_is_restricted() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let [alice, bob, carol] = [1, 2, 3].map(Author::new);
    relay.authenticate(client, &carol);
    let [alice, bob, carol] = [alice, bob, carol].map(|author| author.pubkey().to_hex());
    for filter in [
        json!({"kinds": [1059], "#p": [bob]}),
        json!({"kinds": [1059, 21059], "#p": [bob, alice]}),
        json!({"kinds": [4], "authors": [alice], "#p": [bob]}),
    ] {
        for question in [request("s", [filter.clone()]), count("s", [filter.clone()])] {
            let answer = relay.say(client, question);
            assert_eq!(answer.len(), 1);
            assert_refused(&answer[0], "restricted:");
        }
    }
    for filter in [
        json!({"kinds": [1059]}),
        json!({"kinds": [1059], "#p": [bob, carol]}),
        json!({"kinds": [4], "#p": [bob]}),
        json!({"kinds": [4], "authors": [alice]}),
        json!({"kinds": [4], "authors": [carol], "#p": [bob]}),
        json!({"kinds": [1, 4], "authors": [alice], "#p": [bob]}),
    ] {
        assert_eq!(relay.say(client, request("s", [filter])), [eose("s")]);
    }
}

#[test]
fn an_open_subscription_gets_private_events_once_its_client_authenticates() {
    let mut relay = Relay::new();
    let (client, sender) = (relay.connect(), relay.connect());
    let bob = Author::new(2);
    relay.say(client, request("s", [json!({})]));
    let send = |relay: &mut Relay, content: &str| -> Event {
        let wrap = to(&bob, 1059).content(content).sign(&Author::new(1));
        relay.publish(sender, &wrap);
        wrap
    };
    send(&mut relay, "before");
    assert_eq!(relay.take(client), [] as [Value; 0]);
    relay.authenticate(client, &bob);
    let after = send(&mut relay, "after");
    assert_eq!(relay.take(client), [event_for("s", &after)]);
}

#[test]
fn events_a_client_may_not_read_do_not_use_up_its_limit() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let alice = Author::new(1);
    let open = EventBuilder::new(1).created_at(NOW - 1).sign(&alice);
    relay.publish(client, &open);
    relay.publish(client, &to(&Author::new(2), 1059).sign(&alice));
    let answer = relay.say(client, request("s", [json!({"limit": 1})]));
    assert_eq!(answer, [event_for("s", &open), eose("s")]);
}
