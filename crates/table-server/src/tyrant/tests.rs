//! Requests byte by byte as the protocol document has them, and what the original does wrong.

use std::{path::Path, sync::Arc};

use hikyaku_tables::{MemoryOptions, MemoryTable, Table, open};
use hikyaku_vfs::SimulatedDisk;
use proptest::{collection::vec, prelude::*};

use super::{Session, testing::fuzz_tyrant};
use crate::{rehearsal::Rehearsal, slow::Slow};

fn memory() -> MemoryTable {
    MemoryTable::new(MemoryOptions::default(), None)
}

/// A server with a table that is quick, one with one that waits, and one with a hash table.
fn servers() -> [Rehearsal<Session>; 3] {
    let quick: Arc<dyn Table> = Arc::new(memory());
    let slow: Arc<dyn Table> = Arc::new(Slow(memory()));
    let disk = SimulatedDisk::new(1).disk();
    let hash = open(&disk, Path::new("/"), "a.hash", None).unwrap();
    [quick, slow, hash].map(|table| {
        let other: Arc<dyn Table> = Arc::new(memory());
        let tables = vec![("main".to_owned(), table), ("other".to_owned(), other)];
        Rehearsal::new(Session::default(), tables)
    })
}

/// A request: the command, then numbers of four bytes, then strings.
fn request(command: u8, numbers: &[u32], strings: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![0xc8, command];
    for number in numbers {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.extend_from_slice(&strings.concat());
    bytes
}

fn len(bytes: &[u8]) -> u32 {
    bytes.len() as u32
}

fn put(command: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    request(command, &[len(key), len(value)], &[key, value])
}

fn rotate(key: &[u8], value: &[u8], width: u32) -> Vec<u8> {
    request(0x13, &[len(key), len(value), width], &[key, value])
}

fn keyed(command: u8, key: &[u8]) -> Vec<u8> {
    request(command, &[len(key)], &[key])
}

fn strings(strings: &[&[u8]]) -> Vec<u8> {
    let with_length = |string: &&[u8]| [&len(string).to_be_bytes(), *string].concat();
    strings.iter().flat_map(with_length).collect()
}

fn misc(name: &[u8], arguments: &[&[u8]]) -> Vec<u8> {
    let numbers = [len(name), 0, arguments.len() as u32];
    request(0x90, &numbers, &[name, &strings(arguments)])
}

/// The answer to `misc`: done, so many strings.
fn results(found: &[&[u8]]) -> Vec<u8> {
    [
        &[0][..],
        &(found.len() as u32).to_be_bytes(),
        &strings(found),
    ]
    .concat()
}

fn value(value: &[u8]) -> Vec<u8> {
    [&[0][..], &strings(&[value])].concat()
}

/// Asks both servers, all at once and byte by byte.
fn check(conversation: &[(Vec<u8>, Vec<u8>)]) {
    for mut server in servers() {
        for (asked, answered) in conversation {
            assert_eq!(&server.say(asked), answered, "{}", asked.escape_ascii());
        }
    }
    let (asked, answered): (Vec<_>, Vec<_>) = conversation.iter().cloned().unzip();
    for mut server in servers() {
        assert_eq!(server.say(&asked.concat()), answered.concat());
    }
    for mut server in servers() {
        let one_by_one = asked.concat().into_iter().map(|byte| server.say(&[byte]));
        assert_eq!(one_by_one.collect::<Vec<_>>().concat(), answered.concat());
    }
}

#[test]
fn records_are_put_and_read() {
    check(&[
        (put(0x10, b"one", b"first"), vec![0]),
        (put(0x11, b"one", b"again"), vec![1]),
        (put(0x11, b"two", b""), vec![0]),
        (put(0x12, b"one", b"!"), vec![0]),
        (put(0x18, b"three", b"silent"), vec![]),
        (keyed(0x30, b"one"), value(b"first!")),
        (keyed(0x30, b"two"), value(b"")),
        (keyed(0x30, b"three"), value(b"silent")),
        (keyed(0x30, b"four"), vec![1]),
        (keyed(0x38, b"one"), vec![0, 0, 0, 0, 6]),
        (keyed(0x38, b"four"), vec![1]),
        (keyed(0x20, b"one"), vec![0]),
        (keyed(0x20, b"one"), vec![1]),
        (request(0x80, &[], &[]), vec![0, 0, 0, 0, 0, 0, 0, 0, 2]),
        (request(0x72, &[], &[]), vec![0]),
        (request(0x80, &[], &[]), vec![0; 9]),
    ]);
}

#[test]
fn many_records_are_read_at_once() {
    let asked = [&1_u32.to_be_bytes()[..], b"a"].concat();
    let twice = [asked.clone(), strings(&[b"no", b"b"])].concat();
    let found = [
        &[0, 0, 0, 0, 2][..],
        &[0, 0, 0, 1, 0, 0, 0, 2],
        b"aAA",
        &[0, 0, 0, 1, 0, 0, 0, 1],
        b"bB",
    ]
    .concat();
    check(&[
        (put(0x10, b"a", b"AA"), vec![0]),
        (put(0x18, b"b", b"B"), vec![]),
        (request(0x31, &[3], &[&twice]), found),
        (request(0x31, &[0], &[]), vec![0; 5]),
    ]);
}

#[test]
fn rotation_keeps_the_newest_and_cuts_a_missing_key_too() {
    check(&[
        (rotate(b"k", b"ABCDEFGH", 8), vec![0]),
        (rotate(b"k", b"IJK", 8), vec![0]),
        (keyed(0x30, b"k"), value(b"DEFGHIJK")),
        // The original stores all of it.
        (rotate(b"new", b"0123456789", 4), vec![0]),
        (keyed(0x30, b"new"), value(b"6789")),
        (rotate(b"k", b"L", 4), vec![0]),
        (keyed(0x30, b"k"), value(b"IJKL")),
        (rotate(b"k", b"M", 0), vec![0]),
        (keyed(0x30, b"k"), value(b"")),
    ]);
}

#[test]
fn numbers_are_added_to() {
    let add = |by: i32| request(0x60, &[1, by.cast_unsigned()], &[b"n"]);
    let sum = |sum: i32| [&[0][..], &sum.to_be_bytes()].concat();
    let real =
        |integral: i64, fraction: i64| [integral.to_be_bytes(), fraction.to_be_bytes()].concat();
    let add_real = |by: &[u8]| request(0x61, &[1], &[by, b"r"]);
    check(&[
        (add(5), sum(5)),
        (add(-7), sum(-2)),
        (keyed(0x30, b"n"), value(&(-2_i32).to_le_bytes())),
        (add(i32::MIN), vec![1]),
        (add(0), sum(-2)),
        (
            add_real(&real(1, 500_000_000_000)),
            [&[0][..], &real(1, 500_000_000_000)].concat(),
        ),
        (
            add_real(&real(-2, 0)),
            [&[0][..], &real(0, -500_000_000_000)].concat(),
        ),
        (keyed(0x30, b"r"), value(&(-0.5_f64).to_le_bytes())),
        (add_real(&real(i64::MIN, i64::MIN)), vec![1]),
        (put(0x10, b"n", b"text"), vec![0]),
        (put(0x10, b"n", b"longer"), vec![0]),
        (add(1), vec![1]),
    ]);
}

#[test]
fn a_walk_belongs_to_its_connection() {
    check(&[
        (request(0x51, &[], &[]), vec![1]),
        (put(0x10, b"a", b"A"), vec![0]),
        (put(0x10, b"b", b"B"), vec![0]),
        (request(0x50, &[], &[]), vec![0]),
        (request(0x51, &[], &[]), value(b"a")),
        (request(0x51, &[], &[]), value(b"b")),
        (request(0x51, &[], &[]), vec![1]),
        (misc(b"iterinit", &[b"b"]), results(&[])),
        (misc(b"iternext", &[]), results(&[b"b", b"B"])),
        (misc(b"iternext", &[]), vec![1, 0, 0, 0, 0]),
    ]);
}

#[test]
fn keys_that_begin_so_are_listed() {
    let list =
        |prefix: &[u8], max: i32| request(0x58, &[len(prefix), max.cast_unsigned()], &[prefix]);
    check(&[
        (put(0x10, b"ab", b""), vec![0]),
        (put(0x10, b"aa", b""), vec![0]),
        (put(0x10, b"b", b""), vec![0]),
        (put(0x10, b"other:ax", b""), vec![0]),
        (list(b"a", -1), results(&[b"aa", b"ab"])),
        (list(b"a", 1), results(&[b"aa"])),
        (list(b"", 100), results(&[b"aa", b"ab", b"b"])),
        (list(b"z", 100), results(&[])),
        (list(b"other:a", 100), results(&[b"other:ax"])),
        (
            misc(b"range", &[b"aa"]),
            results(&[b"aa", b"", b"ab", b"", b"b", b""]),
        ),
        (
            misc(b"range", &[b"aa", b"2"]),
            results(&[b"aa", b"", b"ab", b""]),
        ),
        (
            misc(b"range", &[b"a!", b"9", b"b"]),
            results(&[b"aa", b"", b"ab", b""]),
        ),
        (misc(b"range", &[b"ab", b"0", b"ab"]), results(&[])),
    ]);
}

#[test]
fn functions_take_lists() {
    check(&[
        (
            misc(b"putlist", &[b"a", b"1", b"b", b"2", b"odd"]),
            results(&[]),
        ),
        (
            misc(b"getlist", &[b"a", b"no", b"b"]),
            results(&[b"a", b"1", b"b", b"2"]),
        ),
        (misc(b"outlist", &[b"a", b"no"]), results(&[])),
        (misc(b"get", &[b"a"]), vec![1, 0, 0, 0, 0]),
        (misc(b"put", &[b"k", b"value"]), results(&[])),
        (misc(b"putkeep", &[b"k", b"other"]), vec![1, 0, 0, 0, 0]),
        (misc(b"putcat", &[b"k", b"!"]), results(&[])),
        (misc(b"get", &[b"k"]), results(&[b"value!"])),
        (misc(b"getpart", &[b"k", b"2", b"3"]), results(&[b"lue"])),
        (misc(b"range", &[b"a", b"10", b"k"]), results(&[b"b", b"2"])),
        (misc(b"range", &[]), results(&[b"b", b"2", b"k", b"value!"])),
        (misc(b"regex", &[b"^[ab]$"]), results(&[b"b", b"2"])),
        (misc(b"out", &[b"k"]), results(&[])),
        (misc(b"out", &[b"k"]), vec![1, 0, 0, 0, 0]),
        (misc(b"sync", &[]), results(&[])),
        (misc(b"nonsense", &[b"a"]), vec![1, 0, 0, 0, 0]),
        (
            misc(b"putlist", &[b"a", b"1", b"other:b", b"2"]),
            vec![1, 0, 0, 0, 0],
        ),
        (
            misc(b"error", &[]),
            results(&[b"9999: the keys of one call are of one table"]),
        ),
        (misc(b"vanish", &[]), results(&[])),
        (request(0x80, &[], &[]), vec![0; 9]),
        (misc(b"putlist", &[]), results(&[])),
    ]);
}

#[test]
fn keys_are_found_by_patterns() {
    let refused = vec![1, 0, 0, 0, 0];
    // An engine that tries one way after the other would not come back.
    let hostile = [&b"("[..], &b"x+".repeat(10), b")+y"].concat();
    let huge = b"((a{1000}){1000}){1000}";
    check(&[
        (put(0x10, b"apple", b"1"), vec![0]),
        (put(0x10, b"Apricot", b"2"), vec![0]),
        (put(0x10, &[0xff, b'a'], b"3"), vec![0]),
        (put(0x10, &[b'x'; 4000], b"4"), vec![0]),
        (misc(b"regex", &[b"^ap"]), results(&[b"apple", b"1"])),
        (
            misc(b"regex", &[b"*^ap"]),
            results(&[b"Apricot", b"2", b"apple", b"1"]),
        ),
        (
            misc(b"regex", &[b"*^ap", b"1"]),
            results(&[b"Apricot", b"2"]),
        ),
        (misc(b"regex", &[b"^.a$"]), results(&[&[0xff, b'a'], b"3"])),
        (misc(b"regex", &[b"[[:digit:]]"]), results(&[])),
        (misc(b"regex", &[&hostile]), results(&[])),
        (misc(b"regex", &[huge]), refused.clone()),
        (misc(b"regex", &[b"("]), refused.clone()),
        (
            misc(b"error", &[]),
            results(&[b"9999: that is no pattern, or it is too large"]),
        ),
        (misc(b"regex", &[&[b'a'; 4097]]), refused.clone()),
        (misc(b"regex", &[]), refused),
    ]);
}

#[test]
fn searches_and_copies_stop_no_updates() {
    let [_, mut server, _] = servers();
    server.config.copies = Some(std::env::temp_dir());
    for (asked, is_aside) in [
        (put(0x10, b"a", b"1"), false),
        (request(0x58, &[1, 10], &[b"a"]), true),
        (misc(b"range", &[b"a"]), true),
        (request(0x70, &[], &[]), false),
        (misc(b"regex", &[b"a"]), true),
        (misc(b"putlist", &[b"a", b"2"]), false),
        // It refuses, being in memory, but not before it is asked.
        (keyed(0x73, b"copy"), true),
    ] {
        server.say(&asked);
        assert_eq!(server.was_aside, is_aside, "{}", asked.escape_ascii());
    }
    // What was asked before on the same connection is done before.
    let asked = [
        put(0x10, b"b", b""),
        misc(b"regex", &[b"^b$"]),
        put(0x12, b"b", b"!"),
    ];
    let answered = [&[0][..], &results(&[b"b", b""]), &[0]].concat();
    assert_eq!(server.say(&asked.concat()), answered);
    server.say(&asked[..2].concat());
    assert!(server.was_aside, "a search goes with updates");
}

#[test]
fn why_something_was_not_done_can_be_asked() {
    let refused = put(0x10, &[b'k'; 5000], b"");
    let why = b"9999: the key is longer than 4096 bytes";
    check(&[
        (misc(b"error", &[]), results(&[b"0: success"])),
        (keyed(0x30, b"k"), vec![1]),
        (misc(b"error", &[]), results(&[b"22: no record found"])),
        (refused, vec![1]),
        (misc(b"error", &[]), results(&[why])),
    ]);
}

#[test]
fn what_the_server_will_not_do_is_refused_and_the_conversation_goes_on() {
    let path = b"@touch /tmp/owned";
    let restore = [&len(path).to_be_bytes()[..], &[0; 8], &[0; 4], path].concat();
    check(&[
        (
            request(0x68, &[4, 0, 1, 1], &[b"echo", b"k", b"v"]),
            vec![1],
        ),
        (keyed(0x73, path), vec![1]),
        (request(0x74, &[], &[&restore]), vec![1]),
        (put(0x10, b"k", b"v"), vec![0]),
    ]);
}

#[test]
fn what_is_too_long_is_skipped_in_step() {
    for mut server in servers() {
        server.config.value_bytes_max = 100;
        let long = vec![b'x'; 1000];
        let asked = [
            put(0x10, b"k", &long),
            put(0x18, b"k", &long),
            keyed(0x30, &vec![b'k'; 70_000]),
            misc(b"putlist", &[b"k", &long]),
            misc(b"putlist", &[&b"kkkkkkkkkkkkkkkkkk"[..]; 30]),
            request(0x31, &[1], &[&strings(&[&long])]),
            keyed(0x38, b"k"),
            put(0x10, b"k", b"short"),
        ]
        .concat();
        let refused = [1, 0, 0, 0, 0];
        let expected = [&[1, 1][..], &refused, &refused, &[1, 1, 0]].concat();
        assert_eq!(server.say(&asked), expected);
    }
}

#[test]
fn an_answer_of_many_records_has_a_limit() {
    for mut server in servers() {
        server.config.value_bytes_max = 100;
        let many = [&b"k"[..]; 60];
        let asked = [
            put(0x10, b"k", &[b'x'; 100]),
            request(0x31, &[60], &[&strings(&many)]),
            misc(b"getlist", &many),
            keyed(0x38, b"k"),
        ];
        let expected = [&[0, 1][..], &[1, 0, 0, 0, 0], &[0, 0, 0, 0, 100]].concat();
        assert_eq!(server.say(&asked.concat()), expected);
    }
}

#[test]
fn a_huge_length_is_said_to_be_wrong_and_costs_nothing() {
    for length in [0x8000_0000_u32, u32::MAX] {
        for mut server in servers() {
            let asked = request(0x10, &[1, length], &[b"k"]);
            assert_eq!(server.say(&asked), [1]);
            assert!(server.is_closed());
        }
    }
    for mut server in servers() {
        let announced = request(0x10, &[1, 0x7fff_ffff], &[b"k"]);
        assert_eq!(server.say(&announced), []);
        assert_eq!(server.kept_bytes(), 0);
        let half = request(0x31, &[u32::MAX], &[]);
        assert_eq!(server.say(&half), []);
        assert!(!server.is_closed());
    }
}

#[test]
fn an_unknown_command_is_told_before_the_end() {
    for asked in [
        &[0xc8, 0xff][..],
        b"\xc8\x10\0\0\0\x01\0\0\0\x01kvget k\r\n",
    ] {
        for mut server in servers() {
            assert_eq!(server.say(asked).last(), Some(&1));
            assert!(server.is_closed());
        }
    }
}

#[test]
fn stat_says_what_clients_look_for() {
    let [mut server, _, _] = servers();
    server.say(&put(0x10, b"k", b"v"));
    let answer = server.say(&request(0x88, &[], &[]));
    let text = String::from_utf8(answer[5..].to_vec()).unwrap();
    assert_eq!(&answer[..5], &value(text.as_bytes())[..5]);
    for line in [
        "rnum\t1\n",
        "type\ton-memory tree\n",
        "bigend\t0\n",
        "cnt_put\t1\n",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
}

/// A request, mostly sound, of few keys.
fn any_request() -> impl Strategy<Value = Vec<u8>> {
    let key = prop_oneof![Just("a"), Just("b"), Just("other:c"), Just("")].prop_map(str::as_bytes);
    let bytes = vec(any::<u8>(), 0..40);
    prop_oneof![
        (
            prop_oneof![Just(0x10), Just(0x11), Just(0x12), Just(0x18)],
            key.clone(),
            bytes.clone()
        )
            .prop_map(|(command, key, value)| put(command, key, &value)),
        (key.clone(), bytes.clone(), 0_u32..60)
            .prop_map(|(key, value, width)| { rotate(key, &value, width) }),
        (prop_oneof![Just(0x20), Just(0x30), Just(0x38)], key.clone())
            .prop_map(|(command, key)| keyed(command, key)),
        (key.clone(), any::<u32>()).prop_map(|(key, by)| request(0x60, &[len(key), by], &[key])),
        (vec(key.clone(), 0..5), any::<bool>()).prop_map(|(keys, list)| if list {
            misc(b"getlist", &keys)
        } else {
            request(0x31, &[keys.len() as u32], &[&strings(&keys)])
        }),
        (vec(key, 0..5), any::<bool>()).prop_map(|(keys, put)| if put {
            misc(b"putlist", &keys)
        } else {
            misc(b"outlist", &keys)
        }),
        prop_oneof![
            Just(0x50),
            Just(0x51),
            Just(0x70),
            Just(0x72),
            Just(0x80),
            Just(0x88)
        ]
        .prop_map(|command| request(command, &[], &[])),
        bytes,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_are_answered_and_kept_within_bounds(bytes in vec(any::<u8>(), 0..400)) {
        fuzz_tyrant(&bytes);
        fuzz_tyrant(&[&[0xc8][..], &bytes].concat());
    }

    #[test]
    fn any_requests_are_answered_alike_however_they_come(requests in vec(any_request(), 0..20)) {
        fuzz_tyrant(&requests.concat());
    }

    #[test]
    fn a_table_that_waits_answers_as_one_that_does_not(
        requests in vec(any_request(), 0..20),
        pieces in 1_usize..50,
    ) {
        // What `stat` counts differs in nothing that matters.
        let asked = requests.concat();
        let [quick, slow, _] = servers();
        let [quick, slow] = [quick, slow].map(|mut server| {
            asked.chunks(pieces).flat_map(|piece| server.say(piece)).collect::<Vec<u8>>()
        });
        prop_assert_eq!(quick, slow);
    }
}
