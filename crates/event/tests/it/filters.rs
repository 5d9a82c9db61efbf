//! What is a filter, and what it matches.

use hikyaku_event::{
    Event, Filter,
    testing::{Author, EventBuilder, fuzz_filter},
};

fn parse(json: &str) -> Filter {
    fuzz_filter(json.as_bytes());
    Filter::parse(json.as_bytes()).unwrap_or_else(|error| panic!("{error}: {json}"))
}

fn event() -> Event {
    EventBuilder::new(7)
        .created_at(1000)
        .tag(["e", "not hex"])
        .tag(["t", "a"])
        .tag(["t", "b\"\\\n\u{1}é🦀", "c"])
        .tag(["T", "upper"])
        .tag(["tt", "two"])
        .tag(["x", ""])
        .tag(["y"])
        .tag(["z", &"long ".repeat(2000)])
        .sign(&Author::new(1))
}

#[test]
fn a_filter_asks_for_so_many_names_at_most() {
    let named = |names: usize| {
        let members: Vec<_> = (0..names).map(|name| format!("\"#n{name}\":[]")).collect();
        format!("{{{}}}", members.join(","))
    };
    assert_eq!(parse(&named(128)).tags.len(), 128);
    let error = Filter::parse(named(129).as_bytes()).unwrap_err();
    assert!(error.to_string().contains("at most 128 names"), "{error}");
    // And is not looked at further.
    Filter::parse(named(100_000).as_bytes()).unwrap_err();
}

#[test]
fn conditions_are_an_and_of_ors() {
    let event = event();
    let (id, key) = (event.id().to_hex(), event.pubkey().to_hex());
    let other = "00".repeat(32);
    let long = "long ".repeat(2000);
    let matching = [
        "{}",
        &format!(r#"{{"ids":["{other}","{id}"]}}"#),
        &format!(r#"{{"authors":["{key}","{other}","{key}"],"kinds":[9,7,7,8]}}"#),
        r#"{"since":1000,"until":1000}"#,
        r#"{"since":0,"until":18446744073709551615,"limit":0}"#,
        r##"{"#t":["z","a"],"#T":["upper"]}"##,
        r##"{"#t":["b\"\\\n\u0001é\ud83e\udd80"]}"##,
        r##"{"#e":["not hex"],"#x":[""]}"##,
        &format!(r##"{{"#z":["{long}"]}}"##),
        r##"{"#tt":["two","three"],"#t":["a"]}"##,
        r##"{"#":{},"search":"x","":1,"tt":["unknown key"]}"##,
    ];
    for json in matching {
        assert!(parse(json).matches(&event), "{json}");
        assert!(!parse(json).matches_nothing(), "{json}");
    }
    let different = [
        &format!(r#"{{"ids":["{other}"]}}"#),
        &format!(r#"{{"authors":["{other}"],"kinds":[7]}}"#),
        &format!(r#"{{"authors":["{key}"],"kinds":[8]}}"#),
        r#"{"since":1001}"#,
        r#"{"until":999}"#,
        r##"{"#t":["A"]}"##,
        r##"{"#T":["a"]}"##,
        r##"{"#t":["a"],"#T":["lower"]}"##,
        r##"{"#t":["c"]}"##,
        r##"{"#t":["b"]}"##,
        r##"{"#t":[""]}"##,
        r##"{"#y":[""]}"##,
        r##"{"#q":["a"]}"##,
        r##"{"#tt":["a"]}"##,
        r##"{"#ttt":["two"]}"##,
        r##"{"#t":["two"]}"##,
        r##"{"#é":["two"]}"##,
    ];
    for json in different {
        assert!(!parse(json).matches(&event), "{json}");
        assert!(!parse(json).matches_nothing(), "{json}");
    }
    let nothing = [
        r#"{"ids":[]}"#,
        r#"{"authors":[],"kinds":[7]}"#,
        r#"{"kinds":[]}"#,
        r##"{"#t":[]}"##,
        r##"{"#t":["a"],"#q":[]}"##,
        r#"{"since":2,"until":1}"#,
    ];
    for json in nothing {
        assert!(!parse(json).matches(&event), "{json}");
        assert!(parse(json).matches_nothing(), "{json}");
    }
}

#[test]
fn limits_saturate_and_empty_lists_stay_apart_from_absent_ones() {
    assert_eq!(
        parse(r#"{"limit":99999999999999999999999}"#).limit,
        Some(u64::MAX)
    );
    assert_eq!(parse(r#"{"limit":0}"#).limit, Some(0));
    assert_eq!(parse("{}"), Filter::default());
    assert_eq!(parse(r#"{"ids":[]}"#).ids, Some(vec![]));
}

#[test]
fn malformed_values_of_known_keys_are_refused() {
    let hex = "ab".repeat(32);
    let cases = [
        (r#"{"ids":["abc"]}"#.into(), "ids must be"),
        (
            format!(r#"{{"ids":["{}"]}}"#, hex.to_uppercase()),
            "ids must be",
        ),
        (format!(r#"{{"ids":["{hex}ab"]}}"#), "ids must be"),
        (format!(r#"{{"ids":"{hex}"}}"#), "ids must be"),
        (
            format!(r#"{{"authors":["{}"]}}"#, &hex[..62]),
            "authors must be",
        ),
        (r#"{"authors":[null]}"#.into(), "authors must be"),
        (r#"{"authors":null}"#.into(), "authors must be"),
        (r#"{"kinds":[65536]}"#.into(), "kinds must be"),
        (r#"{"kinds":[-1]}"#.into(), "kinds must be"),
        (r#"{"kinds":["1"]}"#.into(), "kinds must be"),
        (r#"{"kinds":1}"#.into(), "kinds must be"),
        (r#"{"since":-1}"#.into(), "since must be"),
        (r#"{"since":1.5}"#.into(), "since must be"),
        (r#"{"since":"1"}"#.into(), "since must be"),
        (r#"{"until":1e9}"#.into(), "until must be"),
        (r#"{"until":18446744073709551616}"#.into(), "until must be"),
        (r#"{"limit":-1}"#.into(), "limit must be"),
        (r#"{"limit":null}"#.into(), "limit must be"),
        (r##"{"#t":"a"}"##.into(), "tag values must be"),
        (r##"{"#t":[1]}"##.into(), "tag values must be"),
        (r##"{"#tt":{}}"##.into(), "tag values must be"),
        (
            r##"{"#tt":["a"],"#\u0074t":["b"]}"##.into(),
            "the same key twice",
        ),
        (r##"{"#a\nb":["a"]}"##.into(), "a tag's name has"),
        (
            format!(r##"{{"#{}":["a"]}}"##, "x".repeat(65)),
            "a tag's name has",
        ),
        (r##"{"#t":["\ud800"]}"##.into(), "lone surrogate"),
        (r##"{"#t":["a"],"#t":["b"]}"##.into(), "the same key twice"),
        (r#"{"kinds":[1],"kinds":[1]}"#.into(), "the same key twice"),
        (r#"{"limit":1,"\u006cimit":1}"#.into(), "the same key twice"),
        (r#"{"search":[}"#.into(), "expected a value"),
        ("[]".into(), "expected a filter object"),
        ("{}{}".into(), "unexpected text after the end"),
        ("{".into(), "expected a key"),
    ];
    for (json, says) in cases {
        let json: String = json;
        let text = Filter::parse(json.as_bytes()).unwrap_err().to_string();
        assert!(text.starts_with(says), "{json}: {text}");
    }
}

#[test]
fn five_thousand_authors_work() {
    let keys: Vec<_> = (0..5000_u32).map(|n| format!("\"{n:064x}\"")).collect();
    let json = format!("{{\"authors\":[{}]}}", keys.join(","));
    let filter = parse(&json);
    assert_eq!(filter.authors.as_ref().unwrap().len(), 5000);
    assert!(!filter.matches(&event()));
    let known = format!(
        "{{\"authors\":[{},\"{}\"]}}",
        keys.join(","),
        Author::new(1).pubkey()
    );
    assert!(parse(&known).matches(&event()));
}
