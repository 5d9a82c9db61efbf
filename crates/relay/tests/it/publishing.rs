//! EVENT: what is accepted, what is refused, and with which words.

use hikyaku_event::{
    Event,
    testing::{Author, EventBuilder},
};
use serde_json::{Value, json};

use crate::driver::{NOW, Relay, URL, assert_refused, event_for, note, publication, request};

fn accepted(event: &Event) -> Value {
    json!(["OK", event.id().to_hex(), true, ""])
}

#[test]
fn a_stored_event_is_answered_ok_and_found_again() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let event = note(&Author::new(1), "hello \u{7f}\u{1} \"\\\u{1f600}");
    assert_eq!(relay.publish(client, &event), accepted(&event));
    let answer = relay.say(
        client,
        request("s", [json!({"ids": [event.id().to_hex()]})]),
    );
    assert_eq!(
        answer,
        [event_for("s", &event), json!(["EOSE", "s", ["finish"]])]
    );
}

#[test]
fn a_duplicate_is_ok_true_and_costs_no_signature_check() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let event = note(&Author::new(1), "hello");
    relay.publish(client, &event);
    // Only because nobody looks at the signature is this one not refused.
    let wrong = EventBuilder::new(1).created_at(NOW).content("hello").json(
        event.id(),
        event.pubkey(),
        hikyaku_event::Signature::new([1; 64]),
    );
    let answer = relay.publish(client, &Event::parse(&wrong).unwrap());
    assert_eq!(answer[2], true);
    assert_eq!(answer[3], "duplicate: already have this event");
}

#[test]
fn an_older_version_is_ok_true_with_duplicate_wording() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let author = Author::new(1);
    let newer = EventBuilder::new(0).created_at(NOW).sign(&author);
    let older = EventBuilder::new(0).created_at(NOW - 1).sign(&author);
    assert_eq!(relay.publish(client, &newer), accepted(&newer));
    let answer = relay.publish(client, &older);
    assert_eq!(answer[2], true);
    assert!(answer[3].as_str().unwrap().starts_with("duplicate:"));
}

#[test]
fn a_wrong_id_or_signature_is_invalid() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let author = Author::new(1);
    let right = note(&author, "hello");
    let builder = EventBuilder::new(1).created_at(NOW).content("other");
    let wrong_id = builder.json(right.id(), right.pubkey(), right.sig());
    let wrong_id = Event::parse(&wrong_id).unwrap();
    assert_refused(&relay.publish(client, &wrong_id), "invalid:");
    let id = builder.sign(&author).id();
    let wrong_signature = Event::parse(&builder.json(id, right.pubkey(), right.sig())).unwrap();
    assert_refused(&relay.publish(client, &wrong_signature), "invalid:");
}

#[test]
fn a_malformed_event_is_named_by_its_id_where_it_has_one() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let answer = relay.say(client, r#"["EVENT",{"id":"a \"b\"","kind":1e0}]"#);
    assert_eq!(answer.len(), 1);
    assert_eq!(answer[0][1], "a \"b\"");
    assert_refused(&answer[0], "invalid:");
    let answer = relay.say(client, r#"["EVENT",{"kind":1}]"#);
    assert_eq!(answer.len(), 1);
    assert_eq!(answer[0][0], "NOTICE");
    assert!(answer[0][1].as_str().unwrap().starts_with("invalid: "));
}

#[test]
fn what_is_no_message_is_answered_by_a_notice() {
    let mut relay = Relay::new();
    let client = relay.connect();
    for text in [
        "",
        "[]",
        "{}",
        r#"["HELLO"]"#,
        r#"["CLOSE"]"#,
        "\u{0}",
        "[[[[",
    ] {
        let answer = relay.say(client, text);
        assert_eq!(answer.len(), 1, "{text}");
        assert_eq!(answer[0][0], "NOTICE");
        assert!(answer[0][1].as_str().unwrap().starts_with("invalid: "));
    }
    assert_eq!(relay.say(client, [0xff, 0xfe])[0][0], "NOTICE");
}

#[test]
fn an_event_of_kind_22242_is_refused_and_never_broadcast() {
    let mut relay = Relay::new();
    let (client, other) = (relay.connect(), relay.connect());
    relay.say(other, request("all", [json!({})]));
    let auth = EventBuilder::new(22242)
        .created_at(NOW)
        .sign(&Author::new(1));
    assert_refused(&relay.publish(client, &auth), "invalid:");
    assert_eq!(relay.take(other), [] as [Value; 0]);
}

#[test]
fn created_at_may_be_fifteen_minutes_ahead_and_any_time_ago() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let at = |created_at| {
        EventBuilder::new(1)
            .created_at(created_at)
            .sign(&Author::new(1))
    };
    for created_at in [0, 1, NOW, NOW + 900] {
        let event = at(created_at);
        assert_eq!(relay.publish(client, &event), accepted(&event));
    }
    for created_at in [NOW + 901, NOW * 1000, u64::MAX] {
        assert_refused(
            &relay.publish(client, &at(created_at)),
            "invalid: created_at",
        );
    }
}

#[test]
fn a_configured_lower_bound_of_created_at_is_kept() {
    let mut relay = Relay::with_limits(|limits| limits.created_at_behind_seconds_max = Some(60));
    let client = relay.connect();
    let at = |created_at| {
        EventBuilder::new(1)
            .created_at(created_at)
            .sign(&Author::new(1))
    };
    assert_eq!(
        relay.publish(client, &at(NOW - 60)),
        accepted(&at(NOW - 60))
    );
    assert_refused(&relay.publish(client, &at(NOW - 61)), "invalid: created_at");
}

#[test]
fn an_expired_event_is_refused_from_its_very_second() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let until = |second: u64| {
        EventBuilder::new(1)
            .created_at(NOW - 10)
            .tag(["expiration", &second.to_string()])
            .sign(&Author::new(1))
    };
    assert_refused(&relay.publish(client, &until(NOW)), "invalid:");
    assert_eq!(
        relay.publish(client, &until(NOW + 1)),
        accepted(&until(NOW + 1))
    );
}

#[test]
fn a_protected_event_is_accepted_only_from_its_authenticated_author() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let (alice, bob) = (Author::new(1), Author::new(2));
    let protected = EventBuilder::new(1).created_at(NOW).tag(["-"]).sign(&alice);
    assert_refused(&relay.publish(client, &protected), "auth-required:");
    relay.authenticate(client, &bob);
    assert_refused(&relay.publish(client, &protected), "restricted:");
    relay.authenticate(client, &alice);
    assert_eq!(relay.publish(client, &protected), accepted(&protected));
}

#[test]
fn a_repost_that_embeds_a_protected_event_is_refused() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let (alice, bob) = (Author::new(1), Author::new(2));
    let protected = EventBuilder::new(1).created_at(NOW).tag(["-"]).sign(&alice);
    let protected = String::from_utf8(protected.json().to_vec()).unwrap();
    let open = String::from_utf8(note(&alice, "-").json().to_vec()).unwrap();
    let post = |kind, content: &str| {
        EventBuilder::new(kind)
            .created_at(NOW)
            .content(content)
            .sign(&bob)
    };
    for kind in [6, 16] {
        assert_refused(&relay.publish(client, &post(kind, &protected)), "blocked:");
        for harmless in [open.as_str(), "", "{", r#"{"tags":7}"#] {
            let event = post(kind, harmless);
            assert_eq!(relay.publish(client, &event), accepted(&event));
        }
    }
    let quote = post(1, &protected);
    assert_eq!(relay.publish(client, &quote), accepted(&quote));
}

#[test]
fn a_request_to_vanish_is_carried_out_if_it_names_us_or_all_relays() {
    for (relay_tag, carried_out) in [
        ("ALL_RELAYS", true),
        (URL, true),
        ("WSS://Relay.Example.COM:443/", true),
        ("all_relays", false),
        ("ws://127.0.0.1:7777", false),
        ("wss://other.example.com", false),
    ] {
        let mut relay = Relay::new();
        let client = relay.connect();
        let author = Author::new(1);
        let event = EventBuilder::new(1).created_at(NOW - 1).sign(&author);
        relay.publish(client, &event);
        let vanish = EventBuilder::new(62)
            .created_at(NOW)
            .tag(["relay", "wss://one.example.com"])
            .tag(["relay", relay_tag])
            .sign(&author);
        assert_eq!(relay.publish(client, &vanish), accepted(&vanish));
        let answer = relay.say(client, request("s", [json!({"kinds": [1]})]));
        assert_eq!(answer.len() == 1, carried_out, "{relay_tag}");
        if carried_out {
            assert_refused(&relay.publish(client, &event), "blocked:");
        }
    }
}

#[test]
fn a_request_to_vanish_that_names_no_relay_is_refused() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let vanish = EventBuilder::new(62).created_at(NOW).sign(&Author::new(1));
    assert_refused(&relay.publish(client, &vanish), "invalid:");
}

#[test]
fn what_was_deleted_can_not_be_published_again() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let author = Author::new(1);
    let event = note(&author, "hello");
    relay.publish(client, &event);
    let deletion = EventBuilder::new(5)
        .created_at(NOW)
        .tag(["e", &event.id().to_hex()])
        .sign(&author);
    assert_eq!(relay.publish(client, &deletion), accepted(&deletion));
    assert_refused(&relay.publish(client, &event), "blocked:");
}

#[test]
fn an_ephemeral_event_reaches_subscribers_and_is_not_stored() {
    let mut relay = Relay::new();
    let (client, other) = (relay.connect(), relay.connect());
    relay.say(other, request("s", [json!({"kinds": [20001]})]));
    let event = EventBuilder::new(20001)
        .created_at(NOW)
        .sign(&Author::new(1));
    assert_eq!(relay.publish(client, &event), accepted(&event));
    assert_eq!(relay.take(other), [event_for("s", &event)]);
    let answer = relay.say(client, request("late", [json!({"kinds": [20001]})]));
    assert_eq!(answer, [json!(["EOSE", "late", ["finish"]])]);
}

#[test]
fn an_ephemeral_event_that_nobody_listens_to_is_answered_mute() {
    let mut relay = Relay::new();
    let (client, other) = (relay.connect(), relay.connect());
    relay.say(other, request("s", [json!({"kinds": [20002]})]));
    let event = EventBuilder::new(20001)
        .created_at(NOW)
        .sign(&Author::new(1));
    assert_refused(&relay.publish(client, &event), "mute:");
}

#[test]
fn a_listener_who_may_not_read_an_ephemeral_event_is_none() {
    let mut relay = Relay::new();
    let (client, other) = (relay.connect(), relay.connect());
    let (alice, bob) = (Author::new(1), Author::new(2));
    relay.say(other, request("s", [json!({})]));
    let wrap = EventBuilder::new(21059)
        .created_at(NOW)
        .tag(["p", &bob.pubkey().to_hex()])
        .sign(&alice);
    assert_refused(&relay.publish(client, &wrap), "mute:");
    assert_eq!(relay.take(other), [] as [Value; 0]);
    relay.authenticate(other, &bob);
    assert_eq!(relay.publish(client, &wrap), accepted(&wrap));
    assert_eq!(relay.take(other), [event_for("s", &wrap)]);
}

#[test]
fn an_event_over_a_limit_is_refused_with_the_limit() {
    let mut relay = Relay::with_limits(|limits| {
        limits.event_bytes_max = 2000;
        limits.tags_max = 3;
        limits.content_characters_max = 10;
    });
    let client = relay.connect();
    let author = Author::new(1);
    let tagged = |count| {
        (0..count)
            .fold(EventBuilder::new(1).created_at(NOW), |event, _| {
                event.tag(["t", "x"])
            })
            .sign(&author)
    };
    let (fits, long) = (
        note(&author, &"あ".repeat(10)),
        note(&author, &"あ".repeat(11)),
    );
    assert_eq!(relay.publish(client, &fits), accepted(&fits));
    assert_refused(
        &relay.publish(client, &long),
        "invalid: the content has 11 characters",
    );
    assert_eq!(relay.publish(client, &tagged(3)), accepted(&tagged(3)));
    assert_refused(
        &relay.publish(client, &tagged(4)),
        "invalid: the event has 4 tags",
    );
    let fat = note(&author, &"a".repeat(2000));
    assert_refused(&relay.publish(client, &fat), "invalid: the event has");
}

#[test]
fn a_real_follow_list_of_6000_tags_is_within_the_default_limits() {
    let mut relay = Relay::new();
    let client = relay.connect();
    let list = (0..6000u64).fold(EventBuilder::new(3).created_at(NOW), |list, number| {
        list.tag(["p", &format!("{number:064x}")])
    });
    let list = list.sign(&Author::new(1));
    assert!(list.json().len() > 400_000);
    assert_eq!(relay.publish(client, &list), accepted(&list));
}

#[test]
fn a_message_that_is_too_long_ends_the_connection_with_the_reason() {
    let mut relay = Relay::with_limits(|limits| limits.message_bytes_max = 1000);
    let client = relay.connect();
    let message = publication(&note(&Author::new(1), &"x".repeat(1000)));
    let answer = relay.say(client, message);
    assert_eq!(answer[0][0], "NOTICE");
    assert!(
        relay
            .disconnected(client)
            .unwrap()
            .starts_with("invalid: the message has")
    );
}
