//! What is read off an event's tags.

use hikyaku_event::{Address, Event, Kind, Tag, testing::Author};

use crate::wire::{Draft, parse};

fn with_tags(kind: u16, tags: &[&[&str]]) -> Event {
    let mut draft = Draft::new(tags, "");
    draft.kind = kind;
    parse(&draft.json())
}

#[test]
fn tags_are_read_as_they_are() {
    let event = with_tags(
        1,
        &[
            &[],
            &["t", "a", "b"],
            &["T"],
            &["tt", "x"],
            &["é", "y"],
            &["", "z"],
        ],
    );
    let tags: Vec<_> = event.tags().collect();
    let names: Vec<_> = tags.iter().map(|tag| tag.name().into_owned()).collect();
    assert_eq!(names, ["", "t", "T", "tt", "é", ""]);
    let letters: Vec<_> = tags.iter().map(Tag::letter).collect();
    assert_eq!(letters, [None, Some(b't'), Some(b'T'), None, None, None]);
    let values: Vec<_> = tags.iter().map(Tag::value).collect();
    assert_eq!(values[1].as_deref(), Some("a"));
    assert_eq!((values[0].as_deref(), values[2].as_deref()), (None, None));
    assert_eq!(
        (tags[1].get(2).as_deref(), tags[1].get(3)),
        (Some("b"), None)
    );
    assert_eq!(format!("{:?}", tags[1]), r#"["t", "a", "b"]"#);
    let indexed: Vec<_> = event.indexed_tags().collect();
    assert_eq!(indexed, [(b't', "a".into())]);
}

#[test]
fn addresses_follow_the_class_of_the_kind() {
    let d = |kind, tags: &[&[&str]]| with_tags(kind, tags).address().map(|address| address.d);
    let some = |d: &str| Some(d.to_owned());
    assert_eq!(d(1, &[&["d", "x"]]), None);
    assert_eq!(d(41, &[&["d", "x"]]), None);
    assert_eq!(d(20_000, &[&["d", "x"]]), None);
    assert_eq!(d(40_000, &[&["d", "x"]]), None);
    for replaceable in [0, 3, 10_000, 19_999] {
        assert_eq!(d(replaceable, &[&["d", "x"]]), some(""));
    }
    for addressable in [30_000, 39_999] {
        assert_eq!(
            d(addressable, &[&["D", "no"], &["d", "x"], &["d", "y"]]),
            some("x")
        );
        assert_eq!(d(addressable, &[]), some(""));
        assert_eq!(d(addressable, &[&["d"], &["d", "y"]]), some(""));
        assert_eq!(d(addressable, &[&["d", ""]]), some(""));
        assert_eq!(d(addressable, &[&["d", "a:b\"\n"]]), some("a:b\"\n"));
    }
}

#[test]
fn addresses_parse_as_a_tags_have_them() {
    let key = "ab".repeat(32);
    let d = |text: &str| Address::parse(&text.replace("KEY", &key)).map(|address| address.d);
    assert_eq!(d("30023:KEY:x").as_deref(), Some("x"));
    assert_eq!(d("30023:KEY:a:b").as_deref(), Some("a:b"));
    assert_eq!(d("30023:KEY:").as_deref(), Some(""));
    assert_eq!(d("0:KEY:").as_deref(), Some(""));
    assert_eq!(d("10002:KEY").as_deref(), Some(""));
    assert_eq!(Address::parse(&format!("3:{key}")).unwrap().kind, Kind(3));
    for refused in [
        "",
        ":",
        "::",
        "30023",
        "30023:KEY",
        "30023::x",
        "0:KEY:x",
        "1:KEY:x",
        "20000:KEY:x",
        "030023:KEY:x",
        "+30023:KEY:x",
        " 30023:KEY:x",
        "95559:KEY:x",
        "30023:KEYa:x",
        "x:KEY:x",
    ] {
        assert_eq!(d(refused), None, "{refused}");
    }
    assert_eq!(
        Address::parse(&format!("30023:{}:x", key.to_uppercase())),
        None
    );
}

#[test]
fn expiration_counts_if_it_is_digits() {
    let expires = |tags: &[&[&str]]| with_tags(1, tags).expires_at();
    assert_eq!(
        expires(&[&["expiration", "1700000000"]]),
        Some(1_700_000_000)
    );
    assert_eq!(
        expires(&[&["expiration", "18446744073709551615"]]),
        Some(u64::MAX)
    );
    assert_eq!(
        expires(&[&["expiration"], &["expiration", "x"], &["expiration", "5"]]),
        Some(5)
    );
    for value in [
        "",
        "+5",
        "-5",
        "5.0",
        "1e9",
        " 5",
        "5 ",
        "٥",
        "18446744073709551616",
    ] {
        assert_eq!(expires(&[&["expiration", value]]), None, "{value}");
    }
    assert_eq!(expires(&[&["Expiration", "5"], &["x", "expiration"]]), None);
}

#[test]
fn protection_and_parties_are_read_off_the_tags() {
    assert!(with_tags(1, &[&["e"], &["-"]]).is_protected());
    assert!(!with_tags(1, &[&["x", "-"], &["--"], &[]]).is_protected());

    let [author, alice, bob] = [1, 2, 3].map(|seed| Author::new(seed).pubkey());
    let hex = alice.to_hex();
    let upper = bob.to_hex().to_uppercase();
    for (kind, author_is_party) in [(4, true), (1059, false), (21059, false)] {
        let event = with_tags(
            kind,
            &[&["e", &bob.to_hex()], &["p", &upper], &["p", &hex, "x"]],
        );
        assert!(event.is_party(&alice));
        assert!(!event.is_party(&bob));
        assert_eq!(event.is_party(&author), author_is_party);
    }
}
