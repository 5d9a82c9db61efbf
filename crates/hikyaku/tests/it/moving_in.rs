//! Importing another relay's database: with no server, and through the one that has the store open.

use std::fs;

use hikyaku_event::testing::{Author, EventBuilder};
use hikyaku_sources::testing::{NostrRsRelayFile, StrfryFolder};
use serde_json::{Value, json};

use crate::program::{Ended, Place, Relay, ids, notes};

/// Runs the same claim without and with a server.
fn both_ways(claim: impl Fn(&Place)) {
    claim(&Place::new());
    let place = Place::new();
    let relay = Relay::start(&place);
    claim(&place);
    relay.stop();
}

/// Returns some counts of an import's report.
fn counts(ended: Ended, names: [&str; 5]) -> [u64; 5] {
    let report: Value = ended.json();
    names.map(|name| {
        let pointer = format!("/{}", name.replace('.', "/"));
        report.pointer(&pointer).and_then(Value::as_u64).unwrap()
    })
}

const COUNTS: [&str; 5] = [
    "events",
    "stored",
    "duplicates",
    "left_out",
    "invalid.unreadable",
];

#[test]
fn nostr_rs_relays_file_is_imported_and_topped_up() {
    both_ways(|place| {
        let path = place.path().join("nostr.db");
        let relay = NostrRsRelayFile::create(&path);
        let events = notes(2500);
        for event in &events[..2000] {
            relay.add(event);
        }
        relay.hide(&events[7]);
        let import = || {
            let path = path.to_str().unwrap();
            place.run(&["import", "--json", "--from-nostr-rs-relay", path])
        };
        assert_eq!(counts(import(), COUNTS), [2000, 1999, 0, 1, 0]);
        // The relay goes on: new events, one of them a deletion of what was imported.
        for event in &events[2000..] {
            relay.add(event);
        }
        let deletion = EventBuilder::new(5)
            .created_at(1_800_000_000)
            .tag(["e", &events[3].id().to_hex()])
            .sign(&Author::new(1));
        relay.add(&deletion);
        relay.hide(&events[3]);
        assert_eq!(counts(import(), COUNTS), [2501, 501, 1998, 2, 0]);
        let mut kept = ids(&place.run(&["export", "--oldest-first"]).ok());
        assert_eq!(kept.pop(), Some(deletion.id().to_hex()));
        let expected = events.iter().enumerate();
        let expected = expected.filter(|(index, _)| ![3, 7].contains(index));
        let expected: Vec<_> = expected.map(|(_, event)| event.id().to_hex()).collect();
        assert_eq!(kept, expected);
    });
}

#[test]
fn strfrys_folder_is_imported_with_what_it_can_not_read_told() {
    both_ways(|place| {
        let folder = place.path().join("strfry-db");
        fs::create_dir(&folder).unwrap();
        let events = notes(1999);
        let mut relay = StrfryFolder::create(&folder, 3);
        relay.add(&events);
        relay.add_payload(b"\x02damaged");
        relay.add_compressed();
        drop(relay);
        let import = || {
            let folder = folder.to_str().unwrap();
            place.run(&["import", "--json", "--from-strfry", folder])
        };
        let report = import().json();
        assert_eq!(
            report["first_invalid"],
            json!([{
                "line": 2000,
                "reason": "strfry's event 2000: its payload has the unknown form 2"
            }])
        );
        assert_eq!(report["stored"], 2003);
        assert_eq!(counts(import(), COUNTS), [2004, 0, 2003, 0, 1]);
        assert_eq!(place.run(&["count", "{}"]).ok(), "2003\n");
    });
}

#[test]
fn an_input_that_breaks_off_is_told_with_what_is_stored() {
    both_ways(|place| {
        let path = place.path().join("nostr.db");
        let relay = NostrRsRelayFile::create(&path);
        for event in notes(12_000) {
            relay.add(&event);
        }
        relay.run("PRAGMA wal_checkpoint(TRUNCATE)");
        drop(relay);
        // In the middle of the table of events: the root's other children stand behind it.
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 200_000].fill(0xff);
        fs::write(&path, bytes).unwrap();
        let ended = place.run(&[
            "import",
            "--json",
            "--from-nostr-rs-relay",
            path.to_str().unwrap(),
        ]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let report: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(report["end"], "input_lost", "{report}");
        let error = report["input_error"].as_str().unwrap();
        assert!(error.contains("can't be read on"), "{error}");
        let stored = report["stored"].as_u64().unwrap();
        assert!((1..12_000).contains(&stored), "{stored}");
        assert_eq!(place.run(&["count", "{}"]).ok(), format!("{stored}\n"));
    });
}

#[test]
fn a_source_that_can_not_be_read_leaves_no_store_behind() {
    let place = Place::new();
    let no = |arguments: &[&str], code| place.run(&[&["import"], arguments].concat()).failed(code);
    let error = no(&["--from-strfry", "nowhere"], 1);
    assert!(error.contains("there is no data.mdb in nowhere"), "{error}");
    let error = no(&["--from-nostr-rs-relay", "nowhere.db"], 1);
    assert!(error.contains("there is no file nowhere.db"), "{error}");
    fs::write(place.path().join("text"), "no database").unwrap();
    let error = no(&["--from-nostr-rs-relay", "text"], 2);
    assert!(error.contains("text is no SQLite file"), "{error}");
    let address = "postgres://nobody:secret@127.0.0.1:1/nostr_ts_relay";
    let error = no(&["--from-nostream", address], 1);
    assert!(error.contains("nostr_ts_relay at 127.0.0.1:1"), "{error}");
    assert!(!error.contains("secret"), "{error}");
    let error = no(&["--from-strfry", "one", "--from-nostream", "two"], 2);
    assert!(error.contains("cannot be used with"), "{error}");
    let error = no(&["events.jsonl", "--from-strfry", "one"], 2);
    assert!(error.contains("cannot be used with"), "{error}");
    assert!(!place.path().join("data").exists());
}
