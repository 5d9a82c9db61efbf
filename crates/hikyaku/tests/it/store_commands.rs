//! The commands that work on a store: with no server, and through the one that has it open.

use std::{io::Write, process::Stdio};

use hikyaku_event::testing::{Author, EventBuilder};
use serde_json::json;

use crate::program::{Place, Relay, ended, ids, lines, notes};

/// Runs the same claim without and with a server.
fn both_ways(claim: impl Fn(&Place)) {
    claim(&Place::new());
    let place = Place::new();
    let relay = Relay::start(&place);
    claim(&place);
    relay.stop();
}

#[test]
fn what_is_imported_is_exported_again() {
    both_ways(|place| {
        let events = notes(2500);
        place.import(&events);
        let newest_first: Vec<_> = events.iter().rev().map(|e| e.id().to_hex()).collect();
        assert_eq!(ids(&place.run(&["export"]).ok()), newest_first);
        let mut oldest_first = newest_first;
        oldest_first.reverse();
        let export = place.run(&["export", "--oldest-first"]).ok();
        assert_eq!(ids(&export), oldest_first);
        assert_eq!(export.as_bytes(), lines(&events));
    });
}

#[test]
fn an_export_keeps_to_its_filter() {
    both_ways(|place| {
        let events = notes(10);
        place.import(&events);
        let filter = r#"{"since":1700000002,"until":1700000008,"limit":3}"#;
        let of = |indexes: [usize; 3]| indexes.map(|i| events[i].id().to_hex()).to_vec();
        let newest = place.run(&["export", "--filter", filter]).ok();
        assert_eq!(ids(&newest), of([8, 7, 6]));
        let oldest = place
            .run(&["export", "--oldest-first", "--filter", filter])
            .ok();
        assert_eq!(ids(&oldest), of([2, 3, 4]));
    });
}

#[test]
fn a_query_is_one_answer_of_several_filters() {
    both_ways(|place| {
        let events = notes(5);
        place.import(&events);
        let by_id = json!({"ids": [events[0].id().to_hex()]}).to_string();
        let found = place
            .run(&["query", r#"{"kinds":[1],"limit":2}"#, &by_id, &by_id])
            .ok();
        let expected = [4, 3, 0].map(|i: usize| events[i].id().to_hex());
        assert_eq!(ids(&found), expected);
    });
}

#[test]
fn a_count_takes_no_notice_of_limits() {
    both_ways(|place| {
        place.import(&notes(5));
        assert_eq!(place.run(&["count", r#"{"limit":1}"#]).ok(), "5\n");
        let report = place.run(&["count", "--json", "{}", "{}"]).json();
        assert_eq!(report, json!({"report": "counted", "count": 5}));
    });
}

#[test]
fn every_line_of_an_import_is_counted_once() {
    both_ways(|place| {
        let alice = Author::new(1);
        let profile = |at| EventBuilder::new(0).created_at(at).sign(&alice);
        let note = EventBuilder::new(1).content("deleted").sign(&alice);
        let deletion = EventBuilder::new(5)
            .tag(["e", &note.id().to_hex()])
            .sign(&alice);
        let stored = EventBuilder::new(1).content("stored").sign(&alice);
        let expired = EventBuilder::new(1).tag(["expiration", "1"]).sign(&alice);
        let ephemeral = EventBuilder::new(20_000).sign(&alice);
        let protected = EventBuilder::new(1).tag(["-"]).sign(&alice);
        let far_ahead = EventBuilder::new(1)
            .created_at(1_694_192_155_914)
            .sign(&alice);
        let mut input = lines([
            &profile(20),
            &profile(10),
            &deletion,
            &note,
            &stored,
            &stored,
            &expired,
            &ephemeral,
            &protected,
            &far_ahead,
        ]);
        let text = String::from_utf8(stored.json().to_vec()).unwrap();
        input.extend_from_slice(b"\n   \nnot json\n");
        input.extend_from_slice(text.replace("stored", "changed").as_bytes());
        input.push(b'\n');
        let forged = EventBuilder::new(1).content("forged");
        let right = forged.sign(&alice);
        input.extend(forged.json(right.id(), alice.pubkey(), stored.sig()));
        let report = place.run_with(&["import", "--json", "-"], &input).json();
        assert_eq!(report["events"], 13, "{report}");
        assert_eq!(report["stored"], 5, "{report}");
        assert_eq!(report["duplicates"], 1, "{report}");
        assert_eq!(report["superseded"], 1, "{report}");
        assert_eq!(
            report["refused"],
            json!({"deleted": 1, "vanished": 0, "expired": 1, "ephemeral": 1})
        );
        assert_eq!(
            report["invalid"],
            json!({"malformed": 1, "wrong_id": 1, "wrong_signature": 1, "too_long": 0, "unreadable": 0})
        );
        let bad: Vec<_> = report["first_invalid"]
            .as_array()
            .unwrap()
            .iter()
            .map(|bad| bad["line"].as_u64().unwrap())
            .collect();
        assert_eq!(bad, [13, 14, 15]);
        assert_eq!(report["end"], "complete");
        assert_eq!(place.run(&["count", "{}"]).ok(), "5\n");
    });
}

#[test]
fn forged_lines_among_hundreds_are_named() {
    let place = Place::new();
    let alice = Author::new(1);
    let notes = notes(1_500);
    // Some are there already, and are not looked at again.
    place.run_with(&["import"], &lines(&notes[..100])).ok();
    let forged = EventBuilder::new(1).content("forged");
    let sig = EventBuilder::new(1).content("another").sign(&alice).sig();
    let mut forged = forged.json(forged.sign(&alice).id(), alice.pubkey(), sig);
    forged.push(b'\n');
    // In the first of the groups that are checked together, in a later one, and at the end.
    let parts = [&notes[..104], &notes[104..700], &notes[700..]];
    let input: Vec<u8> = parts
        .iter()
        .flat_map(|part| [lines(*part), forged.clone()].concat())
        .collect();
    let report = place.run_with(&["import", "--json", "-"], &input).json();
    assert_eq!(report["stored"], 1_400, "{report}");
    assert_eq!(report["duplicates"], 100, "{report}");
    assert_eq!(report["invalid"]["wrong_signature"], 3, "{report}");
    let bad = report["first_invalid"].as_array().unwrap();
    let bad: Vec<_> = bad.iter().map(|bad| bad["line"].as_u64()).collect();
    assert_eq!(bad, [Some(105), Some(702), Some(1_503)], "{report}");
}

#[test]
fn a_strict_import_stops_at_the_first_bad_line() {
    both_ways(|place| {
        let events = notes(3);
        let mut input = lines(&events[..2]);
        input.extend_from_slice(b"nonsense\n");
        input.extend(lines(&events[2..]));
        let ended = place.run_with(&["import", "--strict"], &input);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.out.contains("line 3: "), "{ended:?}");
        assert_eq!(place.run(&["count", "{}"]).ok(), "2\n");
    });
}

#[test]
fn an_unchecked_import_takes_signatures_on_trust_and_ids_not() {
    both_ways(|place| {
        let (alice, stored) = (Author::new(1), &notes(1)[0]);
        let draft = EventBuilder::new(1).content("unsigned");
        let right = draft.sign(&alice);
        let mut input = draft.json(right.id(), alice.pubkey(), stored.sig());
        input.push(b'\n');
        input.extend(draft.json(stored.id(), alice.pubkey(), right.sig()));
        let report = place.run_with(&["import", "--json"], &input).json();
        assert_eq!(report["stored"], 0, "{report}");
        assert_eq!(report["invalid"]["wrong_signature"], 1, "{report}");
        let report = place
            .run_with(&["import", "--json", "--unchecked"], &input)
            .json();
        assert_eq!(report["stored"], 1, "{report}");
        assert_eq!(report["invalid"]["wrong_id"], 1, "{report}");
    });
}

#[test]
fn a_request_to_vanish_is_carried_out_if_it_names_this_relay() {
    both_ways(|place| {
        let (alice, bob) = (Author::new(1), Author::new(2));
        let note = |author| EventBuilder::new(1).created_at(5).sign(author);
        let vanish = |author, relay| {
            EventBuilder::new(62)
                .created_at(9)
                .tag(["relay", relay])
                .sign(author)
        };
        place.import(&[
            note(&alice),
            note(&bob),
            vanish(&alice, "ALL_RELAYS"),
            vanish(&bob, "wss://elsewhere.example"),
        ]);
        let left = place.run(&["query", r#"{"kinds":[1]}"#]).ok();
        assert_eq!(ids(&left), [note(&bob).id().to_hex()]);
    });
}

#[test]
fn a_delete_needs_a_yes() {
    both_ways(|place| {
        place.import(&notes(2500));
        let filter = r#"{"since":1700000100}"#;
        let said = place.run(&["delete", "--filter", filter]).ok();
        assert!(said.contains("2400 events match"), "{said}");
        assert_eq!(place.run(&["count", "{}"]).ok(), "2500\n");
        let report = place
            .run(&["delete", "--json", "--yes", "--filter", filter])
            .json();
        assert_eq!(report["removed"], 2400, "{report}");
        assert_eq!(place.run(&["count", "{}"]).ok(), "100\n");
        // An operator's delete is no deletion by the author: what is gone may come back.
        let report = place
            .run_with(&["import", "--json"], &lines(&notes(2500)))
            .json();
        assert_eq!(report["stored"], 2400, "{report}");
    });
}

#[test]
fn a_delete_with_a_limit_is_refused() {
    let place = Place::new();
    place.import(&notes(1));
    let error = place
        .run(&["delete", "--yes", "--filter", r#"{"limit":1}"#])
        .failed(2);
    assert!(error.contains("limit"), "{error}");
    assert_eq!(place.run(&["count", "{}"]).ok(), "1\n");
}

#[test]
fn figures_checks_and_merges_work_both_ways() {
    both_ways(|place| {
        place.import(&notes(100));
        let report = place.run(&["stats", "--json"]).json();
        assert_eq!(report["events"], 100, "{report}");
        assert!(place.run(&["stats"]).ok().contains("events"));
        place.run(&["compact"]).ok();
        let report = place.run(&["verify", "--json"]).json();
        assert_eq!(report["sound"], true, "{report}");
        assert_eq!(place.run(&["count", "{}"]).ok(), "100\n");
    });
}

#[test]
fn a_store_that_is_not_there_is_not_made_by_reading() {
    let place = Place::new();
    for args in [
        &["export"][..],
        &["query", "{}"],
        &["count", "{}"],
        &["delete", "--yes", "--filter", "{}"],
        &["stats"],
        &["verify"],
        &["repair"],
        &["compact"],
    ] {
        let error = place.run(args).failed(1);
        assert!(error.contains("there is no store in ./data"), "{error}");
    }
    assert!(!place.data().exists());
}

#[test]
fn a_wrong_filter_is_a_wrong_command() {
    let place = Place::new();
    place.import(&notes(1));
    for args in [
        &["query", "nonsense"][..],
        &["count", "{}", r#"{"kinds":["1"]}"#],
        &["export", "--filter", r#"{"authors":["npub1"]}"#],
        &["delete", "--filter", "[]"],
    ] {
        let error = place.run(args).failed(2);
        assert!(error.contains("filter"), "{error}");
    }
}

#[test]
fn a_reader_that_goes_ends_an_export_without_a_word() {
    both_ways(|place| {
        place.import(&notes(3000));
        let mut command = place.command(&["export"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    });
}

#[test]
fn lines_are_stored_before_the_input_ends() {
    both_ways(|place| {
        // A store, so that the first count finds one.
        place.import(&notes(1));
        let relay = place.data().join("control.sock").exists();
        if !relay {
            // Only a server lets two commands at the same store.
            return;
        }
        let mut command = place.command(&["import"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(&lines(&notes(5))).unwrap();
        while place.run(&["count", "{}"]).ok() != "5\n" {}
        drop(input);
        assert_eq!(child.wait().unwrap().code(), Some(0));
    });
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let place = Place::new();
    let error = place.run(&["import", "missing.jsonl"]).failed(1);
    assert!(error.contains("missing.jsonl"), "{error}");
    assert!(!place.data().exists());
}

#[test]
fn help_tells_every_command_and_the_exit_codes() {
    let place = Place::new();
    let help = place.run(&["--help"]).ok();
    for word in [
        "serve", "import", "export", "query", "count", "delete", "stats", "verify", "repair",
        "compact", "config", "130",
    ] {
        assert!(help.contains(word), "{word} in {help}");
        if word != "130" {
            let help = ended(place.command(&[word, "--help"])).ok();
            assert!(help.contains("--data <DIR>"), "{word}: {help}");
            assert!(help.contains("--config <FILE>"), "{word}: {help}");
        }
    }
    assert_eq!(place.run(&["serv"]).code, Some(2));
}
