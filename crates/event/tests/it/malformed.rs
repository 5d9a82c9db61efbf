//! What is not an event, and how that is said.

use hikyaku_event::{Event, EventError};

use crate::wire::{Draft, object, parse};

fn refusal(json: &str) -> String {
    match Event::parse(json.as_bytes()) {
        Err(EventError::Malformed(text)) => text,
        other => panic!("{other:?} for {json}"),
    }
}

#[test]
fn numbers_are_whole_and_written_in_digits() {
    let draft = Draft::new(&[], "");
    for number in ["0", "1", "10", "1694192155914", "18446744073709551615"] {
        let event = parse(&draft.json_with("created_at", number));
        assert_eq!(event.created_at().to_string(), number);
    }
    for number in ["0", "1", "65535"] {
        assert_eq!(
            parse(&draft.json_with("kind", number)).kind().0.to_string(),
            number
        );
    }
    let never = [
        "1e9",
        "1E9",
        "1.0",
        "0.0",
        "-0",
        "-5",
        "+5",
        "00",
        "01",
        "\"1\"",
        "null",
        "true",
        "[]",
        "{}",
        "",
        "1e",
        "1.",
        ".5",
        "NaN",
        "Infinity",
        "18446744073709551616",
        "99999999999999999999999999",
    ];
    for number in never {
        let text = refusal(&draft.json_with("created_at", number));
        assert!(
            text.starts_with("created_at must be a whole number"),
            "{number}: {text}"
        );
        let text = refusal(&draft.json_with("kind", number));
        assert!(
            text.starts_with("kind must be a whole number"),
            "{number}: {text}"
        );
    }
    for number in ["65536", "4294967297", "18446744073709551615"] {
        let text = refusal(&draft.json_with("kind", number));
        assert!(
            text.starts_with("kind must be a whole number from 0 to 65535"),
            "{text}"
        );
    }
}

#[test]
fn malformed_fields_are_refused_by_name() {
    let draft = Draft::new(&[&["e", "x"]], "hello");
    let hex = |digit: &str, count| format!("\"{}\"", digit.repeat(count));
    for (key, value, says) in [
        ("id", hex("a", 63), "id must be 64 lower-case hex digits"),
        ("id", hex("a", 65), "id must be 64 lower-case hex digits"),
        ("id", hex("A", 64), "id must be 64 lower-case hex digits"),
        ("id", hex("g", 64), "id must be 64 lower-case hex digits"),
        ("id", "null".into(), "id must be 64 lower-case hex digits"),
        (
            "pubkey",
            hex("a", 62),
            "pubkey must be 64 lower-case hex digits",
        ),
        (
            "pubkey",
            hex("é", 32),
            "pubkey must be 64 lower-case hex digits",
        ),
        ("sig", hex("a", 64), "sig must be 128 lower-case hex digits"),
        (
            "sig",
            hex("F", 128),
            "sig must be 128 lower-case hex digits",
        ),
        ("tags", "null".into(), "tags must be an array"),
        ("tags", "{}".into(), "tags must be an array"),
        (
            "tags",
            "[\"e\"]".into(),
            "each tag must be an array of strings",
        ),
        (
            "tags",
            "[null]".into(),
            "each tag must be an array of strings",
        ),
        (
            "tags",
            "[[1]]".into(),
            "each tag must be an array of strings",
        ),
        (
            "tags",
            "[[null]]".into(),
            "each tag must be an array of strings",
        ),
        (
            "tags",
            "[[\"e\",[\"x\"]]]".into(),
            "each tag must be an array of strings",
        ),
        (
            "tags",
            "[[\"e\",]]".into(),
            "each tag must be an array of strings",
        ),
        (
            "tags",
            "[[\"e\"],]".into(),
            "each tag must be an array of strings",
        ),
        (
            "tags",
            "[[\"e\"]".into(),
            "each tag must be an array of strings",
        ),
        ("tags", "[[\"e\"\"x\"]]".into(), "expected , or ]"),
        ("content", "null".into(), "content must be a string"),
        ("content", "5".into(), "content must be a string"),
        (
            "content",
            "\"a\nb\"".into(),
            "unescaped control character in a string",
        ),
        (
            "content",
            "\"\u{0}\"".into(),
            "unescaped control character in a string",
        ),
        (
            "content",
            "\"\u{1f}\"".into(),
            "unescaped control character in a string",
        ),
        ("content", "\"\\x\"".into(), "malformed escape in a string"),
        ("content", "\"\\'\"".into(), "malformed escape in a string"),
        (
            "content",
            "\"\\u12g4\"".into(),
            "malformed escape in a string",
        ),
        (
            "content",
            "\"\\u+123\"".into(),
            "malformed escape in a string",
        ),
        (
            "content",
            "\"\\ud83e\"".into(),
            "lone surrogate in a string",
        ),
        (
            "content",
            "\"\\udd80\"".into(),
            "lone surrogate in a string",
        ),
        (
            "content",
            "\"\\ud83e\\ud83e\"".into(),
            "lone surrogate in a string",
        ),
        (
            "content",
            "\"\\ud83e\\n\"".into(),
            "lone surrogate in a string",
        ),
        (
            "content",
            "\"\\ud83e\\u0041\"".into(),
            "lone surrogate in a string",
        ),
    ] {
        let text = refusal(&draft.json_with(key, &value));
        assert!(text.starts_with(says), "{key} {value}: {text}");
    }
}

#[test]
fn malformed_objects_are_refused() {
    let draft = Draft::new(&[&["e", "x"]], "hello");
    let json = draft.json();
    for index in 0..7 {
        let mut members = draft.members();
        let (key, value) = members.remove(index);
        let text = refusal(&object(&members));
        assert!(
            text.starts_with(&format!("the event has no {key}")),
            "{text}"
        );
        members.insert(0, (key.clone(), value.clone()));
        members.push((key, value));
        let text = refusal(&object(&members));
        assert!(
            text.starts_with("the same field twice in an event"),
            "{text}"
        );
    }
    let escaped_twice = json.replace("\"sig\"", "\"\\u0069d\":\"\",\"sig\"");
    refusal(&escaped_twice);
    let nested = |depth| {
        let value = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        json.replacen('{', &format!("{{\"deep\":{value},"), 1)
    };
    parse(&nested(64));
    for depth in [65, 100_000] {
        assert!(refusal(&nested(depth)).starts_with("nested too deeply"));
    }
    for extra in [
        "nul", "tru", "-", "01", "1.", "1e", ".1", "+1", "'a'", "[1,]", "{\"a\"}", "{,}",
    ] {
        refusal(&json.replacen('{', &format!("{{\"extra\":{extra},"), 1));
    }
    let cases = [
        String::new(),
        "null".into(),
        "[]".into(),
        "\"\"".into(),
        format!("{json}x"),
        format!("{json},"),
        format!("{json}{json}"),
        format!("{json}\0"),
        format!("[{json}]"),
        format!("\u{feff}{json}"),
        json.replace(",\"kind", ",,\"kind"),
        json.replace("\"kind\"", "kind"),
        json.replace("\"kind\"", "'kind'"),
        json.replace("\"kind\":", "\"kind\" "),
        json.replacen('{', "{,", 1),
        json.replace('}', ",}"),
    ];
    for case in cases {
        refusal(&case);
    }
    for length in 0..json.len() {
        refusal(&json[..length]);
    }
}

#[test]
fn what_is_not_utf8_is_refused() {
    let json = Draft::new(&[], "hello").json();
    for bytes in [
        &b"\xff"[..],
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xe3\x81",
        b"\xf4\x90\x80\x80",
    ] {
        let mut broken = json.clone().into_bytes();
        let at = json.find("hello").unwrap();
        broken.splice(at..at, bytes.iter().copied());
        let error = Event::parse(&broken).unwrap_err();
        assert_eq!(error.to_string(), format!("not valid UTF-8 at byte {at}"));
    }
}
