//! What clients may say, and how they are told what is wrong.

use hikyaku_event::{ClientMessage, Event, SubscriptionId, testing::fuzz_message};

use crate::wire::Draft;

fn parse(text: &str) -> ClientMessage {
    fuzz_message(text.as_bytes());
    ClientMessage::parse(text.as_bytes(), 3).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn refusal(text: &str) -> String {
    ClientMessage::parse(text.as_bytes(), 3)
        .unwrap_err()
        .to_string()
}

#[test]
fn events_come_with_event_and_auth() {
    let json = Draft::new(&[&["t", "x"]], "hello").json();
    for text in [
        format!("[\"EVENT\",{json}]"),
        format!(" [ \"EVENT\" , {json} ] \n"),
        format!("[\"\\u0045VENT\",{json}]"),
        format!("[\"EVENT\",{json},{{\"later\":1}},null]"),
    ] {
        let ClientMessage::Event(Ok(event)) = parse(&text) else {
            panic!("{text}")
        };
        assert_eq!(event.json(), json.as_bytes());
        assert_eq!(event.verify_id(), Ok(()));
        assert_eq!(
            event.content(),
            Event::parse(json.as_bytes()).unwrap().content()
        );
    }
    let text = format!("[\"AUTH\",{json}]");
    let ClientMessage::Auth(Ok(event)) = parse(&text) else {
        panic!("{text}")
    };
    assert_eq!(event.json(), json.as_bytes());
}

#[test]
fn a_malformed_events_id_is_found_if_there_is_one() {
    let draft = Draft::new(&[], "hello");
    let id = draft.id().to_hex();
    let long = "a".repeat(129);
    for (event, claimed, says) in [
        (
            draft.json_with("kind", "-1"),
            Some(id.as_str()),
            "kind must be",
        ),
        (draft.json_with("sig", "1"), Some(&id), "sig must be"),
        (draft.json_with("id", "\"x\\n\""), Some("x\n"), "id must be"),
        (draft.json_with("id", "5"), None, "id must be"),
        (
            draft.json_with("id", &format!("\"{long}\"")),
            None,
            "id must be",
        ),
        (
            format!("{{\"kind\":-1,\"id\":\"{id}\"}}"),
            Some(&id),
            "kind must be",
        ),
        (format!("{{\"id\":\"{id}\""), Some(&id), "expected , or }"),
        ("{\"kind\":1}".into(), None, "the event has no"),
        ("null".into(), None, "expected an event object"),
        ("\"sub\"".into(), None, "expected an event object"),
        (
            format!("{} null", draft.json()),
            Some(&id),
            "expected , or ]",
        ),
        (format!("{},]", draft.json()), Some(&id), "expected a value"),
    ] {
        for name in ["EVENT", "AUTH"] {
            let text = format!("[\"{name}\",{event}]");
            let (ClientMessage::Event(Err(refused)) | ClientMessage::Auth(Err(refused))) =
                parse(&text)
            else {
                panic!("{text}")
            };
            assert_eq!(refused.0.as_deref(), claimed, "{text}");
            assert!(
                refused.1.to_string().starts_with(says),
                "{text}: {}",
                refused.1
            );
        }
    }
    let ClientMessage::Event(Err((None, _))) = parse("[\"EVENT\"]") else {
        panic!()
    };
}

#[test]
fn queries_have_an_id_and_filters() {
    for (text, count) in [
        ("[\"REQ\",\"a\",{}]", 1),
        ("[\"REQ\",\"a\",{},{\"kinds\":[1]}]", 2),
        ("[\"REQ\",\"a\" , { } , {} ,{}]", 3),
    ] {
        let ClientMessage::Req(id, Ok(filters)) = parse(text) else {
            panic!("{text}")
        };
        assert_eq!((id.as_str(), filters.len()), ("a", count));
        let text = text.replace("REQ", "COUNT");
        let ClientMessage::Count(id, Ok(filters)) = parse(&text) else {
            panic!("{text}")
        };
        assert_eq!((id.as_str(), filters.len()), ("a", count));
    }
    for (text, says) in [
        ("[\"REQ\",\"a\"]", "at least one filter is needed"),
        ("[\"REQ\",\"a\",{},{},{},{}]", "more than 3 filters"),
        ("[\"REQ\",\"a\",[]]", "expected a filter object"),
        ("[\"REQ\",\"a\",null]", "expected a filter object"),
        ("[\"REQ\",\"a\",{\"ids\":[\"x\"]}]", "ids must be"),
        ("[\"REQ\",\"a\",{}", "expected , or ]"),
        ("[\"REQ\",\"a\",{}]]", "unexpected text after the end"),
    ] {
        let ClientMessage::Req(id, Err(error)) = parse(text) else {
            panic!("{text}")
        };
        assert_eq!(id.as_str(), "a");
        assert!(error.to_string().starts_with(says), "{text}: {error}");
        let text = text.replace("REQ", "COUNT");
        let ClientMessage::Count(_, Err(_)) = parse(&text) else {
            panic!("{text}")
        };
    }
    let ClientMessage::Close(id) = parse("[\"CLOSE\",\"a\"]") else {
        panic!()
    };
    assert_eq!(id.as_str(), "a");
}

#[test]
fn subscription_ids_have_1_to_64_characters() {
    let crabs = "🦀".repeat(64);
    let escaped = "\\ud83e\\udd80".repeat(64);
    for (spelt, text) in [
        ("x", "x"),
        ("\\\"\\n\\u0000", "\"\n\0"),
        (&crabs, &crabs),
        (&escaped, &crabs),
    ] {
        let ClientMessage::Close(id) = parse(&format!("[\"CLOSE\",\"{spelt}\"]")) else {
            panic!()
        };
        assert_eq!(id.as_str(), text);
        assert_eq!(SubscriptionId::new(text), Some(id));
    }
    let long = format!("\"{}\"", "🦀".repeat(65));
    for id in ["\"\"", &long, "5", "null", "{}"] {
        for name in ["REQ", "COUNT", "CLOSE"] {
            let text = refusal(&format!("[\"{name}\",{id},{{}}]"));
            assert!(
                text.starts_with("the subscription id must be a string of 1 to 64"),
                "{text}"
            );
        }
    }
    refusal("[\"REQ\"]");
    refusal("[\"CLOSE\"]");
}

#[test]
fn anything_else_is_not_a_message() {
    for (text, says) in [
        ("", "expected a JSON array"),
        ("{}", "expected a JSON array"),
        ("hello", "expected a JSON array"),
        ("[]", "expected the name of a message"),
        ("[5]", "expected the name of a message"),
        ("[\"event\",{}]", "unknown message"),
        ("[\"NEG-OPEN\",\"a\",{},\"\"]", "unknown message"),
        ("[\"CLOSE\",\"a\"", "expected , or ]"),
        ("[\"CLOSE\",\"a\"] x", "unexpected text after the end"),
    ] {
        assert!(refusal(text).starts_with(says), "{text}: {}", refusal(text));
    }
    let error = ClientMessage::parse(b"[\"CLOSE\",\"\xff\"]", 3).unwrap_err();
    assert!(error.to_string().starts_with("not valid UTF-8"));
}
