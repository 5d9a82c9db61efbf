//! COUNT (NIP-45).

use hikyaku_event::testing::{Author, EventBuilder};
use hikyaku_store::StoreError;
use serde_json::{Value, json};

use crate::driver::{NOW, Relay, assert_refused, count, event_for, note, request};

fn relay_with_notes(number: u64) -> (Relay, u64) {
    let mut relay = Relay::new();
    let client = relay.connect();
    for second in 0..number {
        let event = EventBuilder::new(1)
            .created_at(NOW - second)
            .tag(["t", "a"])
            .tag(["t", "b"])
            .sign(&Author::new(1));
        relay.publish(client, &event);
    }
    (relay, client)
}

#[test]
fn a_count_ignores_limit_and_counts_each_event_once() {
    let (mut relay, client) = relay_with_notes(5);
    let filters = [
        json!({"kinds": [1], "limit": 1}),
        json!({"#t": ["a", "b"], "limit": 0}),
        json!({}),
    ];
    let answer = relay.say(client, count("a \"c\"", filters));
    assert_eq!(answer, [json!(["COUNT", "a \"c\"", {"count": 5}])]);
}

#[test]
fn what_matches_nothing_counts_zero() {
    let (mut relay, client) = relay_with_notes(1);
    let answer = relay.say(client, count("c", [json!({"kinds": []})]));
    assert_eq!(answer, [json!(["COUNT", "c", {"count": 0}])]);
}

#[test]
fn a_count_that_can_not_be_answered_is_closed() {
    let (mut relay, client) = relay_with_notes(1);
    let answer = relay.say(client, count("c", [json!({"ids": ["x"]})]));
    assert_refused(&answer[0], "invalid:");
    relay.failure = Some(StoreError::Corrupt("/data/segment 7 at 42".to_owned()));
    let answer = relay.say(client, count("c", [json!({})]));
    assert_eq!(answer.len(), 1);
    assert_refused(&answer[0], "error:");
    assert!(
        !answer[0].to_string().contains("segment 7"),
        "that is for the operator"
    );
}

#[test]
fn a_count_of_what_is_indexed_so_far_says_so() {
    let (mut relay, client) = relay_with_notes(3);
    relay.is_indexing = true;
    let answer = relay.say(client, count("c", [json!({"#t": ["x"]})]));
    assert_eq!(
        answer,
        [json!(["COUNT", "c", {"count": 0, "approximate": true}])]
    );
}

#[test]
fn what_the_store_does_not_index_is_unsupported() {
    let (mut relay, client) = relay_with_notes(1);
    relay.failure = Some(StoreError::not_indexed("\"title\""));
    for message in [
        count("c", [json!({"#\"title\"": ["x"]})]),
        request("c", [json!({"#\"title\"": ["x"]})]),
    ] {
        let answer = relay.say(client, message);
        let reason = "unsupported: tags named \"\"title\"\" are not indexed here";
        assert_eq!(answer, [json!(["CLOSED", "c", reason])]);
    }
    assert!(relay.index.is_empty());
}

#[test]
fn a_count_leaves_the_subscription_of_the_same_id_alone() {
    let mut relay = Relay::new();
    let client = relay.connect();
    relay.say(client, request("s", [json!({"kinds": [1]})]));
    relay.say(client, count("s", [json!({"kinds": [2]})]));
    let event = note(&Author::new(1), "live");
    assert!(
        relay
            .say(client, crate::driver::publication(&event))
            .contains(&event_for("s", &event))
    );
}

#[test]
fn counts_of_the_same_id_are_all_answered() {
    let (mut relay, client) = relay_with_notes(2);
    relay.receive(client, count("c", [json!({"kinds": [1]})]));
    relay.receive(client, count("c", [json!({"kinds": [2]})]));
    relay.settle();
    let counts: Vec<Value> = relay
        .take(client)
        .iter()
        .map(|m| m[2]["count"].clone())
        .collect();
    assert_eq!(counts, [2, 0]);
}

#[test]
fn a_closed_count_is_not_answered() {
    let (mut relay, client) = relay_with_notes(2);
    relay.receive(client, count("c", [json!({})]));
    relay.receive(client, r#"["CLOSE","c"]"#);
    assert!(!relay.is_answering(client));
    relay.settle();
    assert_eq!(relay.take(client), [] as [Value; 0]);
}

#[test]
fn counts_under_way_use_up_room_for_subscriptions() {
    let mut relay = Relay::with_limits(|limits| limits.subscriptions_max = 1);
    let client = relay.connect();
    relay.receive(client, count("c", [json!({})]));
    let answer = relay.say(client, request("s", [json!({})]));
    assert_refused(&answer[0], "error:");
    let answer = relay.say(client, request("s", [json!({})]));
    assert_eq!(answer, [json!(["EOSE", "s", ["finish"]])]);
}
