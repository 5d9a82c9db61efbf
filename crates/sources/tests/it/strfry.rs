//! strfry's environment.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use hikyaku_event::testing::{Author, EventBuilder};
use hikyaku_sources::{Source, SourceError, strfry::Strfry, testing::StrfryFolder};
use tempfile::tempdir;

use crate::{Given, hard, ids, notes, read_all, read_some, refusal};

#[test]
fn events_come_in_the_order_of_arrival_compressed_or_not() {
    let folder = tempdir().unwrap();
    let hard = hard();
    let mut relay = StrfryFolder::create(folder.path(), 3);
    relay.add(&hard);
    let notes = relay.add_compressed();
    relay.remove(2);
    relay.remove(6);
    drop(relay);
    let mut source = Strfry::open(folder.path()).unwrap();
    assert_eq!(source.total(), Some(7));
    let expected = [
        &hard[0], &hard[2], &hard[3], &hard[4], &notes[1], &notes[2], &notes[3],
    ];
    assert_eq!(
        read_all(&mut source).unwrap(),
        Given {
            ids: ids(expected),
            ..Given::default()
        }
    );
}

#[test]
fn what_can_not_be_read_is_told_and_does_not_end_it() {
    let folder = tempdir().unwrap();
    let notes = notes(2);
    let mut relay = StrfryFolder::create(folder.path(), 3);
    relay.add(&notes[..1]);
    relay.add_payload(&[]);
    relay.add_payload(&[2, b'{', b'}']);
    relay.add_payload(&[1, 7, 0]);
    relay.add_payload(&[&[1], 9_u32.to_ne_bytes().as_slice(), b"frame"].concat());
    relay.add_payload(&[&[1], 7_u32.to_ne_bytes().as_slice(), b"no frame"].concat());
    relay.add(&notes[1..]);
    drop(relay);
    let given = read_all(&mut Strfry::open(folder.path()).unwrap()).unwrap();
    assert_eq!(given.ids, ids(&notes));
    assert_eq!(
        given.unreadable,
        [
            "strfry's event 2: its payload is empty",
            "strfry's event 3: its payload has the unknown form 2",
            "strfry's event 4: its payload ends before the number of its dictionary",
            "strfry's event 5: its dictionary 9 is not there",
            "strfry's event 6: its payload is no zstd frame",
        ]
    );
}

#[test]
fn a_folder_that_is_not_strfrys_is_refused() {
    let folder = tempdir().unwrap();
    let at = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    };
    let open = |path: &Path| refusal(Strfry::open(path));
    let empty = open(&at("empty"));
    assert!(matches!(empty, SourceError::Unreachable(text) if text.contains("no data.mdb")));
    fs::write(at("text").join("data.mdb"), "no database ".repeat(1000)).unwrap();
    let text = open(&at("text"));
    assert!(matches!(text, SourceError::Foreign(text) if text.contains("no LMDB environment")));
    drop(StrfryFolder::create(&at("newer"), 4));
    let newer = open(&at("newer"));
    assert!(matches!(newer, SourceError::Foreign(text) if text.contains("database version 4")));
    let other = lmdb::Environment::new()
        .set_max_dbs(8)
        .open(&at("other"))
        .unwrap();
    other
        .create_db(Some("events"), lmdb::DatabaseFlags::empty())
        .unwrap();
    drop(other);
    let other = open(&at("other"));
    assert!(matches!(other, SourceError::Foreign(text) if text.contains("not strfry's")));
}

const FOLDER: &str = "HIKYAKU_TEST_STRFRY_FOLDER";

/// The relay's process in the test below.
#[test]
#[ignore = "a process of its own, started by another test"]
fn the_relays_process() {
    let Ok(folder) = env::var(FOLDER) else { return };
    let mut relay = StrfryFolder::create(Path::new(&folder), 3);
    let mut stored = 0;
    for line in std::io::stdin().lines() {
        let long = "long ".repeat(40_000);
        for _ in 0..line.unwrap().parse().unwrap() {
            let event = EventBuilder::new(1).created_at(stored).content(&long);
            relay.add(&[event.sign(&Author::new(1))]);
            stored += 1;
        }
        println!("\nstored {stored}");
    }
}

#[test]
fn a_running_strfry_goes_on_writing_and_is_read_to_its_end() {
    let folder = tempdir().unwrap();
    let mut relay = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "strfry::the_relays_process",
            "--ignored",
            "--nocapture",
        ])
        .env(FOLDER, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = BufReader::new(relay.stdout.take().unwrap()).lines();
    let mut asks = relay.stdin.take().unwrap();
    let mut store = |count: u64| {
        writeln!(asks, "{count}").unwrap();
        answers.find(|line| line.as_ref().unwrap().starts_with("stored"))
    };
    store(15).unwrap().unwrap();
    let mut source = Strfry::open(folder.path()).unwrap();
    assert_eq!(source.total(), Some(15));
    let mut given = Given::default();
    assert!(read_some(&mut source, &mut given).unwrap());
    assert!(given.ids.len() < 15, "a batch is about a megabyte");
    store(5).unwrap().unwrap();
    while read_some(&mut source, &mut given).unwrap() {}
    assert_eq!(given.ids.len(), 20);
    drop(asks);
    assert!(relay.wait().unwrap().success());
}
