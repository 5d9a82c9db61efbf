//! What holds for anything at all, tried on random input.

use hikyaku_event::{
    Event, Filter, TagCondition, TagName, escape,
    testing::{Author, EventBuilder, fuzz_event, fuzz_filter, fuzz_message},
};
use proptest::{collection::vec, prelude::*, sample::Index};

use crate::wire::Draft;

/// Text with much of what has to be escaped, and some that is not.
fn text() -> impl Strategy<Value = String> {
    let special = prop::sample::select(vec![
        '"',
        '\\',
        '/',
        '\n',
        '\r',
        '\t',
        '\u{8}',
        '\u{c}',
        '\0',
        '\u{1}',
        '\u{1f}',
        ' ',
        '\u{7f}',
        '\u{80}',
        '\u{2028}',
        '\u{d7ff}',
        '\u{e000}',
        '\u{ffff}',
        '🦀',
        '\u{10ffff}',
        'u',
        'é',
    ]);
    let letter = prop::char::range('a', 'z');
    vec(
        prop_oneof![2 => special, 3 => letter, 1 => any::<char>()],
        0..40,
    )
    .prop_map(String::from_iter)
}

fn tags() -> impl Strategy<Value = Vec<Vec<String>>> {
    let name = prop_oneof![
        2 => prop::sample::select(vec!["e", "p", "t", "d", "-", "expiration", ""])
            .prop_map(str::to_owned),
        1 => text(),
    ];
    let tag = (name, vec(text(), 0..4)).prop_map(|(name, rest)| [vec![name], rest].concat());
    vec(prop_oneof![9 => tag, 1 => Just(Vec::new())], 0..6)
}

fn drafts() -> impl Strategy<Value = Draft> {
    (any::<u64>(), any::<u16>(), tags(), text()).prop_map(|(created_at, kind, tags, content)| {
        Draft {
            pubkey: Author::new(1).pubkey().to_hex(),
            created_at,
            kind,
            tags,
            content,
        }
    })
}

/// Spells a text as JSON in one of the many ways there are.
fn spell(text: &str, choices: &[u8]) -> String {
    let mut json = String::from("\"");
    let mut units = [0; 2];
    for (index, c) in text.chars().enumerate() {
        let choice = choices
            .get(index % choices.len().max(1))
            .copied()
            .unwrap_or_default();
        let escaped = escape(&c.to_string());
        let units = c.encode_utf16(&mut units).iter();
        json += &match choice % 4 {
            0 => units
                .map(|unit| format!("\\u{unit:04x}"))
                .collect::<Vec<_>>()
                .concat(),
            1 => units
                .map(|unit| format!("\\u{unit:04X}"))
                .collect::<Vec<_>>()
                .concat(),
            2 if c == '/' => "\\/".to_owned(),
            _ => escaped[1..escaped.len() - 1].to_owned(),
        };
    }
    json + "\""
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_event_is_read_as_a_second_implementation_wrote_it(draft in drafts()) {
        let json = draft.json();
        fuzz_event(json.as_bytes());
        let event = Event::parse(json.as_bytes()).unwrap();
        prop_assert_eq!(event.json(), json.as_bytes());
        prop_assert_eq!(event.verify_id(), Ok(()));
        prop_assert_eq!(event.id(), draft.id());
        prop_assert_eq!(event.created_at(), draft.created_at);
        prop_assert_eq!(event.kind().0, draft.kind);
        prop_assert_eq!(event.content(), draft.content.as_str());
        let tags: Vec<Vec<String>> =
            event.tags().map(|tag| tag.strings().map(Into::into).collect()).collect();
        prop_assert_eq!(tags, draft.tags);
    }

    #[test]
    fn any_spelling_of_an_event_means_the_same(draft in drafts(), choices in vec(any::<u8>(), 1..9)) {
        let tag = |tag: &Vec<String>| {
            let strings: Vec<_> = tag.iter().map(|string| spell(string, &choices)).collect();
            format!("[{}]", strings.join(" , "))
        };
        let spelt_tags: Vec<_> = draft.tags.iter().map(tag).collect();
        let spelt_tags = format!("[ {} ]", spelt_tags.join(",\n"));
        let content = spell(&draft.content, &choices);
        let respelt = draft.json_with_all(&[("tags", &spelt_tags), ("content", &content)]);
        fuzz_event(respelt.as_bytes());
        let event = Event::parse(respelt.as_bytes()).unwrap();
        prop_assert_eq!(event.verify_id(), Ok(()));
        let expected = draft.json();
        prop_assert_eq!(event.json(), expected.as_bytes(), "white space makes it canonical");
    }

    #[test]
    fn escaped_text_is_what_serde_json_writes(text in text()) {
        prop_assert_eq!(escape(&text), serde_json::to_string(&text).unwrap());
    }

    #[test]
    fn the_builder_makes_events_that_a_second_implementation_agrees_with(draft in drafts()) {
        let mut builder =
            EventBuilder::new(draft.kind).created_at(draft.created_at).content(&draft.content);
        for tag in &draft.tags {
            builder = builder.tag(tag);
        }
        prop_assert_eq!(builder.sign(&Author::new(1)).id(), draft.id());
    }

    #[test]
    fn a_mutated_event_is_refused_or_an_event_as_serde_json_sees_it(
        draft in drafts(),
        mutations in vec((any::<Index>(), mutation()), 1..4),
    ) {
        let mut json = draft.json().into_bytes();
        for (index, mutation) in mutations {
            mutation.apply(&mut json, index);
        }
        fuzz_event(&json);
        fuzz_message(&[b"[\"EVENT\",", &*json, b"]"].concat());
        if Event::parse(&json).is_ok() {
            // serde_json merges doubles and knows no fields, so this is one direction only.
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&json).is_ok());
        }
    }

    #[test]
    fn any_json_value_is_passed_over_as_serde_json_would(
        value in json_text(),
        mutations in vec((any::<Index>(), mutation()), 0..3),
    ) {
        let mut value = value.into_bytes();
        for (index, mutation) in mutations {
            mutation.apply(&mut value, index);
        }
        let filter = [b"{\"unknown\":", &*value, b"}"].concat();
        let accepted = serde_json::from_slice::<serde_json::Value>(&filter).is_ok();
        // Mutations may make a key of the filter; numbers may be beyond serde_json's floats.
        let comparable = !value.iter().any(|byte| b"ids#eE".contains(byte));
        if comparable {
            prop_assert_eq!(Filter::parse(&filter).is_ok(), accepted);
        }
    }

    #[test]
    fn any_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..200)) {
        fuzz_event(&bytes);
        fuzz_filter(&bytes);
        fuzz_message(&bytes);
    }

    #[test]
    fn any_tokens_do_not_panic(tokens in vec(token(), 0..40)) {
        let text = tokens.concat();
        fuzz_event(text.as_bytes());
        fuzz_filter(text.as_bytes());
        fuzz_message(text.as_bytes());
        for name in ["EVENT", "AUTH"] {
            fuzz_message(format!("[\"{name}\",{{{text}}}]").as_bytes());
        }
        for name in ["REQ", "COUNT"] {
            fuzz_message(format!("[\"{name}\",\"a\",{{{text}}}]").as_bytes());
        }
    }

    #[test]
    fn filters_are_read_back_as_they_were_written(filter in filters()) {
        let json = filter.to_json();
        prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
        fuzz_filter(json.as_bytes());
        prop_assert_eq!(Filter::parse(json.as_bytes()), Ok(filter));
    }

    #[test]
    fn filters_match_as_a_naive_matcher_does(
        filter in filters(),
        kind in 0..4_u16,
        created_at in 0..10_u64,
        author in 0..3_u64,
        tags in vec(few_tags(), 0..5),
    ) {
        let mut builder = EventBuilder::new(kind).created_at(created_at);
        for tag in &tags {
            builder = builder.tag(tag);
        }
        let event = builder.sign(&Author::new(author));
        let has_value = |condition: &TagCondition| {
            let name = condition.name.as_str();
            tags.iter().any(|tag| {
                tag.first().is_some_and(|first| first == name)
                    && tag.get(1).is_some_and(|value| condition.values.contains(value))
            })
        };
        let naive = filter.ids.as_ref().is_none_or(|ids| ids.contains(&event.id()))
            && filter.authors.as_ref().is_none_or(|keys| keys.contains(&event.pubkey()))
            && filter.kinds.as_ref().is_none_or(|kinds| kinds.contains(&event.kind()))
            && filter.since.is_none_or(|since| created_at >= since)
            && filter.until.is_none_or(|until| created_at <= until)
            && filter.tags.iter().all(has_value);
        prop_assert_eq!(filter.matches(&event), naive);
        prop_assert!(!naive || !filter.matches_nothing());
    }
}

/// One change to some bytes.
#[derive(Debug, Clone)]
enum Mutation {
    Set(u8),
    Insert(Vec<u8>),
    Remove(usize),
    Truncate,
}

impl Mutation {
    fn apply(&self, bytes: &mut Vec<u8>, index: Index) {
        if bytes.is_empty() {
            return;
        }
        let at = index.index(bytes.len());
        match self {
            Self::Set(byte) => bytes[at] = *byte,
            Self::Insert(inserted) => drop(bytes.splice(at..at, inserted.iter().copied())),
            Self::Remove(count) => drop(bytes.drain(at..(at + count).min(bytes.len()))),
            Self::Truncate => bytes.truncate(at),
        }
    }
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        any::<u8>().prop_map(Mutation::Set),
        prop::sample::select(b"\"\\[]{},:0u9e-. ".to_vec()).prop_map(Mutation::Set),
        token().prop_map(|token| Mutation::Insert(token.into_bytes())),
        vec(any::<u8>(), 1..4).prop_map(Mutation::Insert),
        (1..80_usize).prop_map(Mutation::Remove),
        Just(Mutation::Truncate),
    ]
}

fn token() -> impl Strategy<Value = String> {
    let tokens = vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        " ",
        "\\u",
        "\\ud83e",
        "\\udd80",
        "\\n",
        "0",
        "1",
        "1e9",
        "-",
        "null",
        "\"id\":",
        "\"pubkey\":",
        "\"created_at\":1",
        "\"kind\":1",
        "\"tags\":[[\"e\",\"x\"]]",
        "\"content\":\"\"",
        "\"sig\":",
        "\"x\":{}",
        "\"limit\":1",
        "\"ids\":[]",
        "\"#e\":[\"\\u0041\"]",
        "\"kinds\":[1,1]",
        "\"since\":5",
        "\u{1f980}",
    ];
    let hex = prop_oneof![Just(32), Just(64)].prop_map(|len| format!("\"{}\"", "0e".repeat(len)));
    prop_oneof![9 => prop::sample::select(tokens).prop_map(str::to_owned), 1 => hex]
}

fn json_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i64>().prop_map(|value| value.to_string()),
        (-1000..1000_i32, 0..1000_u32).prop_map(|(whole, part)| format!("{whole}.{part}")),
        text().prop_map(|text| escape(&text)),
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        let object = vec((text(), inner.clone()), 0..4).prop_map(|members| {
            let members: Vec<_> = members
                .iter()
                .map(|(key, value)| format!("{} :{value}", escape(key)))
                .collect();
            format!("{{{}}}", members.join(", "))
        });
        let array = vec(inner, 0..4).prop_map(|elements| format!("[{}]", elements.join(" ,")));
        prop_oneof![object, array]
    })
}

/// Values few enough that filters and events meet.
fn few_values() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "", "a", "ab", "b", "\"", "\\", "\n", "\u{1}", "é", "🦀",
    ])
    .prop_map(str::to_owned)
}

fn few_tags() -> impl Strategy<Value = Vec<String>> {
    let name = prop::sample::select(vec!["t", "T", "e", "tt", ""]).prop_map(str::to_owned);
    (name, vec(few_values(), 0..3)).prop_map(|(name, values)| [vec![name], values].concat())
}

fn filters() -> impl Strategy<Value = Filter> {
    let known = EventBuilder::new(1)
        .created_at(5)
        .sign(&Author::new(0))
        .id();
    let ids = prop::option::weighted(0.1, Just(vec![known]));
    let keys = (0..4_u64).prop_map(|seed| Author::new(seed).pubkey());
    let authors = prop::option::weighted(0.4, vec(keys, 0..3));
    let kinds = prop::option::weighted(0.4, vec((0..4_u16).prop_map(hikyaku_event::Kind), 0..4));
    let names = prop::sample::subsequence(vec!["T", "e", "t", "tt", "\"\\"], 0..3);
    let tags = (names, vec(vec(few_values(), 0..5), 3)).prop_map(|(names, values)| {
        let conditions = names.into_iter().zip(values);
        conditions
            .map(|(name, values)| TagCondition {
                name: TagName::new(name).unwrap(),
                values,
            })
            .collect()
    });
    let time = || prop::option::weighted(0.3, 0..10_u64);
    (
        ids,
        authors,
        kinds,
        tags,
        time(),
        time(),
        prop::option::of(any::<u64>()),
    )
        .prop_map(|(ids, authors, kinds, tags, since, until, limit)| {
            Filter {
                ids,
                authors,
                kinds,
                tags,
                since,
                until,
                limit,
            }
            .sorted()
        })
}
