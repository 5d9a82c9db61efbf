//! REQ and CLOSE: the stored answer, the live part, and the seam between them.

use hikyaku_event::{
    Event,
    testing::{Author, EventBuilder},
};
use hikyaku_store::StoreError;
use serde_json::{Value, json};

use crate::driver::{NOW, Relay, assert_refused, event_for, note, publication, request};

const NOTHING: [Value; 0] = [];

fn eose(id: &str) -> Value {
    json!(["EOSE", id, ["finish"]])
}

fn at(created_at: u64, content: &str) -> Event {
    EventBuilder::new(1)
        .created_at(created_at)
        .content(content)
        .sign(&Author::new(1))
}

/// Publishes on a connection of its own, without anything being delivered yet.
fn publish_silently(relay: &mut Relay, event: &Event) {
    let publisher = relay.connect();
    relay.receive(publisher, publication(event));
}

#[test]
fn eose_tells_whether_the_answer_is_complete() {
    let mut relay = Relay::new();
    let client = relay.connect();
    for second in 0..3 {
        relay.publish(client, &at(NOW - second, ""));
    }
    let hint = |relay: &mut Relay, limit: u64| {
        let answer = relay.say(client, request("s", [json!({"limit": limit})]));
        answer.last().unwrap().clone()
    };
    assert_eq!(hint(&mut relay, 3), json!(["EOSE", "s", ["finish"]]));
    assert_eq!(hint(&mut relay, 2), json!(["EOSE", "s", ["more"]]));
    assert_eq!(hint(&mut relay, 0), json!(["EOSE", "s"]));
}

#[test]
fn limit_plays_no_part_after_eose() {
    let mut relay = Relay::new();
    let client = relay.connect();
    for limit in [0, 1] {
        relay.say(
            client,
            request("s", [json!({"kinds": [1], "limit": limit})]),
        );
        for number in 0..3 {
            let event = note(&Author::new(1), &format!("{limit} {number}"));
            let got = relay.say(client, publication(&event));
            assert!(got.contains(&event_for("s", &event)));
        }
    }
}

#[test]
fn since_and_until_hold_for_live_events_too() {
    let mut relay = Relay::new();
    let client = relay.connect();
    relay.say(
        client,
        request("s", [json!({"since": NOW - 10, "until": NOW})]),
    );
    for (created_at, wanted) in [
        (NOW - 11, false),
        (NOW - 10, true),
        (NOW, true),
        (NOW + 1, false),
    ] {
        let event = at(created_at, "");
        let got = relay.say(client, publication(&event));
        assert_eq!(got.contains(&event_for("s", &event)), wanted);
    }
}

#[test]
fn a_subscription_id_may_be_any_1_to_64_characters() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let event = note(&Author::new(1), "");
    relay.publish(client, &event);
    for id in [
        "x",
        " ",
        "\"\\\n\u{0}\u{7f}",
        &"あ".repeat(64),
        &"😀".repeat(64),
    ] {
        let answer = relay.say(client, request(id, [json!({})]));
        assert_eq!(answer, [event_for(id, &event), eose(id)]);
    }
    for id in ["", &"x".repeat(65)] {
        let answer = relay.say(client, request(id, [json!({})]));
        assert_eq!(answer.len(), 1);
        assert_eq!(answer[0][0], "NOTICE");
    }
}

#[test]
fn subscription_ids_are_each_connections_own() {
    let mut relay = Relay::new();
    let (one, other) = (relay.connect(), relay.connect());
    relay.say(one, request("s", [json!({"kinds": [1]})]));
    relay.say(other, request("s", [json!({"kinds": [2]})]));
    relay.say(other, r#"["CLOSE","s"]"#);
    let event = note(&Author::new(1), "");
    relay.publish(other, &event);
    assert_eq!(relay.take(one), [event_for("s", &event)]);
}

#[test]
fn the_same_id_again_replaces_the_subscription() {
    let mut relay = Relay::new();
    let client = relay.connect();
    relay.say(client, request("s", [json!({"kinds": [1]})]));
    relay.say(client, request("s", [json!({"kinds": [7]})]));
    assert_eq!(relay.index.len(), 1);
    let (note, like) = (
        note(&Author::new(1), ""),
        EventBuilder::new(7).created_at(NOW).sign(&Author::new(1)),
    );
    assert!(
        !relay
            .say(client, publication(&note))
            .contains(&event_for("s", &note))
    );
    assert!(
        relay
            .say(client, publication(&like))
            .contains(&event_for("s", &like))
    );
}

#[test]
fn a_replaced_subscription_leaves_no_stray_events() {
    let mut relay = Relay::new();
    let client = relay.connect();
    for second in 0..3 {
        relay.publish(client, &at(NOW - second, ""));
    }
    relay.receive(client, request("s", [json!({"kinds": [1]})]));
    relay.answer(client, 1);
    assert_eq!(relay.take(client).len(), 1);
    publish_silently(&mut relay, &note(&Author::new(2), "waits for the old one"));
    relay.deliver();
    let answer = relay.say(client, request("s", [json!({"kinds": [7]})]));
    assert_eq!(answer, [eose("s")]);
}

#[test]
fn a_refused_replacement_ends_the_old_subscription() {
    let mut relay = Relay::new();
    let client = relay.connect();
    relay.say(client, request("s", [json!({"kinds": [1]})]));
    let answer = relay.say(client, request("s", [json!({"ids": ["x"]})]));
    assert_refused(&answer[0], "invalid:");
    let event = note(&Author::new(1), "");
    assert_eq!(
        relay.say(client, publication(&event)).len(),
        1,
        "the OK only"
    );
    assert!(relay.index.is_empty());
}

#[test]
fn malformed_filters_are_closed_as_invalid() {
    let mut relay = Relay::new();
    let client = relay.connect();
    for filter in [
        json!({"ids": ["abc"]}),
        json!({"authors": ["A".repeat(64)]}),
        json!({"kinds": [65536]}),
        json!({"kinds": 1}),
        json!({"since": -1}),
        json!([]),
        json!("x"),
    ] {
        let answer = relay.say(client, request("s", [json!({}), filter]));
        assert_eq!(answer.len(), 1);
        assert_eq!(answer[0][1], "s");
        assert_refused(&answer[0], "invalid:");
    }
    let answer = relay.say(client, r#"["REQ","s"]"#);
    assert_refused(&answer[0], "invalid:");
}

#[test]
fn unknown_filter_keys_are_ignored() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let answer = relay.say(
        client,
        request("s", [json!({"kinds": [1], "mood": {"a": [1]}})]),
    );
    assert_eq!(answer, [eose("s")]);
}

#[test]
fn limits_on_subscriptions_and_filters_are_told() {
    let mut relay = Relay::with_limits(|limits| {
        limits.subscriptions_max = 2;
        limits.filters_max = 2;
        limits.filter_values_max = 5;
    });
    let client = relay.connect();
    let answer = relay.say(client, request("s", vec![json!({}); 3]));
    assert_refused(&answer[0], "invalid: more than 2 filters");
    let values = json!({"kinds": [1, 2], "#t": ["a", "b", "c"]});
    assert_eq!(
        relay.say(client, request("s", [values.clone()])),
        [eose("s")]
    );
    let answer = relay.say(client, request("s", [values, json!({"#e": ["d"]})]));
    assert_refused(&answer[0], "invalid: the filters have 6 values, at most 5");
    let empty = r##"["REQ","s",{"#a":[],"#b":[],"#c":[],"#d":[],"#e":[],"#f":[]}]"##;
    let answer = relay.say(client, empty);
    assert_refused(&answer[0], "invalid: the filters have 6 values, at most 5");
    for id in ["a", "b", "b"] {
        assert_eq!(relay.say(client, request(id, [json!({})])), [eose(id)]);
    }
    let answer = relay.say(client, request("c", [json!({})]));
    assert_refused(&answer[0], "error: too many subscriptions");
    relay.say(client, r#"["CLOSE","a"]"#);
    assert_eq!(relay.say(client, request("c", [json!({})])), [eose("c")]);
}

#[test]
fn five_thousand_authors_fit_in_one_filter() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let author = Author::new(1);
    let mut authors: Vec<_> = (1..5000u64)
        .map(|number| format!("{number:064x}"))
        .collect();
    authors.push(author.pubkey().to_hex());
    let answer = relay.say(client, request("s", [json!({"authors": authors})]));
    assert_eq!(answer, [eose("s")]);
    let event = note(&author, "");
    assert!(
        relay
            .say(client, publication(&event))
            .contains(&event_for("s", &event))
    );
}

#[test]
fn close_ends_a_subscription_and_says_nothing() {
    let mut relay = Relay::new();
    let client = relay.connect();
    relay.say(client, request("s", [json!({})]));
    assert_eq!(relay.say(client, r#"["CLOSE","s"]"#), NOTHING);
    assert_eq!(relay.say(client, r#"["CLOSE","s"]"#), NOTHING);
    assert_eq!(relay.say(client, r#"["CLOSE","other"]"#), NOTHING);
    assert!(relay.index.is_empty());
    assert_eq!(
        relay
            .say(client, publication(&note(&Author::new(1), "")))
            .len(),
        1
    );
}

#[test]
fn filters_that_match_nothing_are_answered_at_once_and_not_kept() {
    let mut relay = Relay::new();
    let client = relay.connect();
    for filter in [
        json!({"kinds": []}),
        json!({"ids": []}),
        json!({"authors": []}),
        json!({"#t": []}),
        json!({"since": 2, "until": 1}),
    ] {
        assert_eq!(relay.say(client, request("s", [filter])), [eose("s")]);
        assert!(relay.index.is_empty());
    }
    relay.say(
        client,
        request("s", [json!({"kinds": []}), json!({"kinds": [1]})]),
    );
    assert_eq!(relay.index.len(), 1);
}

#[test]
fn an_event_of_two_filters_comes_once() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let author = Author::new(1).pubkey().to_hex();
    let filters = [
        json!({"kinds": [1]}),
        json!({"authors": [author]}),
        json!({"#t": ["a", "b"]}),
    ];
    relay.say(client, request("s", filters.clone()));
    let event = EventBuilder::new(1)
        .created_at(NOW)
        .tag(["t", "a"])
        .tag(["t", "b"])
        .tag(["t", "a"])
        .sign(&Author::new(1));
    let got = relay.say(client, publication(&event));
    assert_eq!(
        got.iter().filter(|message| message[0] == "EVENT").count(),
        1
    );
    let answer = relay.say(client, request("again", filters));
    assert_eq!(answer, [event_for("again", &event), eose("again")]);
}

#[test]
fn an_event_between_the_stored_answer_and_the_live_part_comes_exactly_once() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let (old, older, new) = (at(NOW - 1, "old"), at(NOW - 2, "older"), at(NOW, "new"));
    relay.publish(client, &older);
    // Committed before the query starts, delivered after it: the stored answer has it.
    publish_silently(&mut relay, &old);
    relay.receive(client, request("s", [json!({"kinds": [1]})]));
    relay.answer(client, 1);
    publish_silently(&mut relay, &new);
    relay.deliver();
    relay.settle();
    assert_eq!(
        relay.take(client),
        [
            event_for("s", &old),
            event_for("s", &older),
            eose("s"),
            event_for("s", &new)
        ]
    );
}

#[test]
fn a_commit_that_arrives_after_eose_but_was_in_the_stored_answer_comes_once() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let event = note(&Author::new(1), "");
    publish_silently(&mut relay, &event);
    relay.receive(client, request("s", [json!({})]));
    while relay.is_answering(client) {
        relay.answer(client, 1);
    }
    relay.deliver();
    assert_eq!(relay.take(client), [event_for("s", &event), eose("s")]);
}

#[test]
fn an_ephemeral_event_before_eose_comes_after_it() {
    let mut relay = Relay::new();
    let client = relay.connect();
    relay.receive(client, request("s", [json!({})]));
    let event = EventBuilder::new(20001)
        .created_at(NOW)
        .sign(&Author::new(1));
    let publisher = relay.connect();
    relay.receive(publisher, publication(&event));
    assert_eq!(relay.take(publisher)[0][2], true);
    relay.settle();
    assert_eq!(relay.take(client), [eose("s"), event_for("s", &event)]);
}

#[test]
fn too_many_new_events_before_eose_close_the_subscription() {
    let mut relay = Relay::with_limits(|limits| limits.pending_live_max = 2);
    let client = relay.connect();
    relay.receive(client, request("s", [json!({"kinds": [1]})]));
    for number in 0..5 {
        publish_silently(&mut relay, &note(&Author::new(1), &number.to_string()));
        relay.deliver();
    }
    relay.settle();
    let got = relay.take(client);
    assert_eq!(got.len(), 1);
    assert_refused(&got[0], "error:");
    assert!(relay.index.is_empty());
}

#[test]
fn large_events_that_wait_for_stored_answers_are_bounded_for_the_whole_connection() {
    let mut relay = Relay::with_limits(|limits| limits.pending_live_bytes_max = 5_000);
    let client = relay.connect();
    relay.receive(client, request("a", [json!({"kinds": [1]})]));
    relay.receive(client, request("b", [json!({"kinds": [1]})]));
    for number in 0..3 {
        let content = number.to_string().repeat(1_000);
        publish_silently(&mut relay, &note(&Author::new(1), &content));
        relay.deliver();
    }
    let got = relay.take(client);
    assert_eq!(got.len(), 1, "one subscription made room for the other");
    assert_refused(&got[0], "error:");
    relay.settle();
    let got = relay.take(client);
    assert_eq!(
        got.iter().filter(|message| message[0] == "EVENT").count(),
        3
    );
    assert!(got.iter().any(|message| message[0] == "EOSE"));
}

#[test]
fn an_event_that_expires_while_it_waits_is_not_sent() {
    let mut relay = Relay::new();
    let client = relay.connect();
    relay.receive(client, request("s", [json!({})]));
    let event = EventBuilder::new(1)
        .created_at(NOW)
        .tag(["expiration", &(NOW + 5).to_string()])
        .sign(&Author::new(1));
    publish_silently(&mut relay, &event);
    relay.deliver();
    relay.now = NOW + 5;
    relay.settle();
    assert_eq!(relay.take(client), [eose("s")]);
}

#[test]
fn an_event_that_expires_before_it_is_delivered_is_not_sent() {
    let mut relay = Relay::new();
    let client = relay.connect();
    relay.say(client, request("s", [json!({})]));
    let event = EventBuilder::new(1)
        .created_at(NOW)
        .tag(["expiration", &(NOW + 5).to_string()])
        .sign(&Author::new(1));
    publish_silently(&mut relay, &event);
    relay.now = NOW + 5;
    relay.deliver();
    assert_eq!(relay.take(client), NOTHING);
}

#[test]
fn a_query_that_fails_closes_the_subscription() {
    let mut relay = Relay::new();
    let client = relay.connect();
    relay.receive(client, request("s", [json!({})]));
    relay.failure = Some(StoreError::Unavailable("/data: no space".to_owned()));
    relay.settle();
    let got = relay.take(client);
    assert_eq!(got.len(), 1);
    assert_refused(&got[0], "error:");
    assert!(
        !got[0].to_string().contains("/data"),
        "that is for the operator"
    );
    assert!(relay.index.is_empty());
}

#[test]
fn each_filter_keeps_its_own_limit_in_one_merged_answer() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let of = |kind: u16, second: u64| {
        EventBuilder::new(kind)
            .created_at(NOW - second)
            .sign(&Author::new(1))
    };
    let events = [of(1, 0), of(7, 1), of(1, 2), of(7, 3), of(1, 4)];
    for event in &events {
        relay.publish(client, event);
    }
    let filters = [
        json!({"kinds": [1], "limit": 2}),
        json!({"kinds": [7], "limit": 1}),
    ];
    let mut answer = relay.say(client, request("s", filters));
    assert_eq!(answer.pop().unwrap(), json!(["EOSE", "s", ["more"]]));
    let expected: Vec<_> = events[..3]
        .iter()
        .map(|event| event_for("s", event))
        .collect();
    assert_eq!(answer, expected);
}
