//! What is kept of an event.

use hikyaku_event::{
    Address, Event, EventId, Kind,
    testing::{Author, EventBuilder},
};
use hikyaku_store::Sequence;

use super::{Document, Flags, TermHasher, hasher};

fn document(event: &Event, vanish: bool) -> Document {
    Document::from_event(event, vanish, Sequence(5), 77, &hasher())
}

/// Checks that the document has these terms and no others.
fn check(document: &Document, terms: &[super::Term]) {
    let mut expected = terms.to_vec();
    expected.sort_unstable();
    assert_eq!(document.terms, expected);
}

#[test]
fn an_event_is_found_by_author_kind_and_letter_tags_once() {
    let (author, hasher) = (Author::new(1), hasher());
    let event = EventBuilder::new(1)
        .created_at(1_700_000_000_000)
        .tag(["t", "snow\"\n雪"])
        .tag(["t", "snow\"\n雪", "again"])
        .tag(["T", "snow\"\n雪"])
        .tag(["title", "not indexed"])
        .tag(["e"])
        .tag(["p", ""])
        .sign(&author);
    let document = document(&event, false);
    let key = author.pubkey();
    check(
        &document,
        &[
            hasher.author(&key),
            hasher.kind(Kind(1)),
            hasher.author_kind(&key, Kind(1)),
            hasher.tag(b't', "snow\"\n雪".as_bytes()),
            hasher.tag(b'T', "snow\"\n雪".as_bytes()),
            hasher.tag(b'p', b""),
        ],
    );
    assert_eq!(document.author, hasher.author(&key));
    assert_eq!(document.key.created_at, 1_700_000_000_000);
    assert_eq!(document.key.id, event.id());
    assert_eq!((document.sequence, document.position), (Sequence(5), 77));
    assert_eq!((document.kind, document.flags), (Kind(1), Flags::default()));
    assert_eq!(document.expires_at, None);
}

#[test]
fn a_replaceable_event_has_its_address() {
    let (author, hasher) = (Author::new(1), hasher());
    let key = author.pubkey();
    let address = |kind, d: &str| {
        hasher.address(&Address {
            kind: Kind(kind),
            pubkey: key,
            d: d.to_owned(),
        })
    };
    let profile = document(&EventBuilder::new(0).tag(["d", "x"]).sign(&author), false);
    assert!(profile.terms.contains(&address(0, "")));
    assert!(!profile.terms.contains(&address(0, "x")));
    let article = document(
        &EventBuilder::new(30023).tag(["d", "x"]).sign(&author),
        false,
    );
    assert!(article.terms.contains(&address(30023, "x")));
    let untitled = document(&EventBuilder::new(30023).sign(&author), false);
    assert!(untitled.terms.contains(&address(30023, "")));
}

#[test]
fn a_deletion_is_found_by_what_it_deletes() {
    let (author, other, hasher) = (Author::new(1), Author::new(2), hasher());
    let (key, id) = (author.pubkey(), EventId::new([9; 32]));
    let own = format!("30023:{key}:x");
    let foreign = format!("30023:{}:x", other.pubkey());
    let event = EventBuilder::new(5)
        .tag(["e", &id.to_hex()])
        .tag(["e", "not an id"])
        .tag(["a", &own])
        .tag(["a", &foreign])
        .sign(&author);
    let address = Address::parse(&own).unwrap();
    check(
        &document(&event, false),
        &[
            hasher.author(&key),
            hasher.kind(Kind(5)),
            hasher.author_kind(&key, Kind(5)),
            hasher.tag(b'e', id.to_hex().as_bytes()),
            hasher.tag(b'e', b"not an id"),
            hasher.tag(b'a', own.as_bytes()),
            hasher.tag(b'a', foreign.as_bytes()),
            hasher.deletes_id(&key, &id),
            hasher.deletes_address(&key, &address),
        ],
    );
}

#[test]
fn only_a_request_to_vanish_that_was_carried_out_is_marked() {
    let (author, hasher) = (Author::new(1), hasher());
    let event = EventBuilder::new(62)
        .tag(["relay", "ALL_RELAYS"])
        .sign(&author);
    for vanish in [false, true] {
        let document = document(&event, vanish);
        let term = hasher.vanish(&author.pubkey());
        assert_eq!(document.terms.contains(&term), vanish);
        assert_eq!(document.flags.contains(Flags::VANISH), vanish);
    }
}

#[test]
fn private_and_expiring_events_are_marked() {
    let (author, hasher) = (Author::new(1), hasher());
    let event = EventBuilder::new(1059)
        .tag(["expiration", "1800000000"])
        .sign(&author);
    let document = document(&event, false);
    assert!(document.terms.contains(&hasher.private()));
    assert!(document.terms.contains(&hasher.expiring()));
    assert!(document.flags.contains(Flags::PRIVATE));
    assert!(document.flags.contains(Flags::EXPIRING));
    assert_eq!(document.expires_at, Some(1_800_000_000));
}

#[test]
fn terms_differ_by_family_value_and_key() {
    let (key, id) = (Author::new(1).pubkey(), EventId::new([1; 32]));
    let address = Address {
        kind: Kind(30023),
        pubkey: key,
        d: String::new(),
    };
    let terms = |hasher: &TermHasher| {
        vec![
            hasher.author(&key),
            hasher.author_kind(&key, Kind(1)),
            hasher.author_kind(&key, Kind(256)),
            hasher.kind(Kind(1)),
            hasher.kind(Kind(256)),
            hasher.tag(b'e', b""),
            hasher.tag(b'E', b""),
            hasher.tag(b'e', b"e"),
            hasher.address(&address),
            hasher.deletes_address(&key, &address),
            hasher.deletes_id(&key, &id),
            hasher.vanish(&key),
            hasher.private(),
            hasher.expiring(),
        ]
    };
    let mut all = terms(&TermHasher::new([1; 16]));
    all.extend(terms(&TermHasher::new([2; 16])));
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
}
