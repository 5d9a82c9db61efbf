//! nostr-rs-relay's file.

use std::fs;

use hikyaku_event::testing::{Author, EventBuilder};
use hikyaku_sources::{
    Source, SourceError, nostr_rs_relay::NostrRsRelay, testing::NostrRsRelayFile,
};
use rusqlite::Connection;
use tempfile::tempdir;

use crate::{Given, hard, ids, notes, read_all, read_some, refusal};

#[test]
fn events_come_in_the_order_of_arrival_and_hidden_ones_are_left_out() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("nostr.db");
    let relay = NostrRsRelayFile::create(&path);
    let (hard, notes) = (hard(), notes(3));
    for event in hard.iter().chain(&notes) {
        relay.add(event);
    }
    relay.hide(&notes[1]);
    let mut source = NostrRsRelay::open(&path).unwrap();
    assert_eq!(source.total(), Some(8));
    assert_eq!(
        read_all(&mut source).unwrap(),
        Given {
            ids: ids(hard.iter().chain([&notes[0], &notes[2]])),
            left_out: 1,
            unreadable: vec![],
        }
    );
}

#[test]
fn a_running_relay_goes_on_writing_and_is_read_to_its_end() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("nostr.db");
    let relay = NostrRsRelayFile::create(&path);
    let alice = Author::new(1);
    let long = "long ".repeat(40_000);
    let events: Vec<_> = (0..20)
        .map(|at| {
            EventBuilder::new(1)
                .created_at(at)
                .content(&long)
                .sign(&alice)
        })
        .collect();
    for event in &events[..15] {
        relay.add(event);
    }
    let mut source = NostrRsRelay::open(&path).unwrap();
    let mut given = Given::default();
    assert!(read_some(&mut source, &mut given).unwrap());
    assert!(given.ids.len() < 15, "a batch is about a megabyte");
    for event in &events[15..] {
        relay.add(event);
    }
    relay.run("DELETE FROM event WHERE id = 10; PRAGMA wal_checkpoint(TRUNCATE)");
    while read_some(&mut source, &mut given).unwrap() {}
    let expected = events.iter().enumerate().filter(|(index, _)| *index != 9);
    assert_eq!(given.ids, ids(expected.map(|(_, event)| event)));
    // The end is not for good: what arrives later is a batch again.
    relay.add(&notes(1)[0]);
    assert!(read_some(&mut source, &mut given).unwrap());
}

#[test]
fn a_file_that_is_not_the_relays_is_refused() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let open = |name: &str| refusal(NostrRsRelay::open(&at(name)));
    assert!(matches!(open("."), SourceError::Unreachable(text) if text.contains("is a folder")));
    assert!(matches!(open("none"), SourceError::Unreachable(text) if text.contains("no file")));
    assert!(!at("none").exists(), "opening makes no file");
    fs::write(at("text"), "no database ".repeat(1000)).unwrap();
    assert!(matches!(open("text"), SourceError::Foreign(text) if text.contains("no SQLite file")));
    let other = Connection::open(at("other")).unwrap();
    other
        .execute_batch("CREATE TABLE event (id, content)")
        .unwrap();
    assert!(
        matches!(open("other"), SourceError::Foreign(text) if text.contains("no table `event`"))
    );
    let newer = NostrRsRelayFile::create(&at("newer"));
    newer.run("PRAGMA user_version = 19");
    assert!(matches!(open("newer"), SourceError::Foreign(text) if text.contains("version 19")));
}

#[test]
fn a_file_that_is_cut_short_breaks_off() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("nostr.db");
    let relay = NostrRsRelayFile::create(&path);
    for event in notes(10_000) {
        relay.add(&event);
    }
    relay.run("PRAGMA wal_checkpoint(TRUNCATE)");
    drop(relay);
    let mut source = NostrRsRelay::open(&path).unwrap();
    let mut given = Given::default();
    assert!(read_some(&mut source, &mut given).unwrap());
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(1 << 20).unwrap();
    let error = loop {
        match read_some(&mut source, &mut given) {
            Ok(more) => assert!(more, "it must not seem complete"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SourceError::Lost(_)), "{error}");
}
