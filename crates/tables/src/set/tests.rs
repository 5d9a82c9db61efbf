//! The set of tables on a simulated disk: what a recovery brings back.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hikyaku_vfs::{Disk, SimulatedDisk};

use super::{Checkpoint, Logging, NamedTable, Tables, TablesOptions};
use crate::{
    Change, Effect, Follower, LogOptions, LogPosition, Stamp, Table, TableError, Update, open_spec,
};

fn folder() -> &'static Path {
    Path::new("/tables")
}

fn named(texts: &[&str]) -> Vec<NamedTable> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn options(server: u32, logging: Logging) -> TablesOptions {
    TablesOptions {
        logging,
        log: LogOptions {
            queue_bytes_max: 16 << 10,
            linger: Duration::ZERO,
            file_bytes_max: 4096,
            ..LogOptions::new(server)
        },
        checkpoint_bytes: u64::MAX,
        needs_all: false,
    }
}

const TABLES: [&str; 2] = ["names=names.hash", "scores=scores.ordered"];

fn open(disk: &SimulatedDisk, logging: Logging) -> Result<Tables, TableError> {
    Tables::open(
        &disk.disk(),
        folder(),
        &named(&TABLES),
        &options(1, logging),
    )
}

fn put(tables: &Tables, table: &str, key: &str, value: &str, at_us: u64) {
    let update = Update::new(key.as_bytes(), Change::Put(value.as_bytes()));
    let stamp = Stamp { at_us, origin: 0 };
    tables.get(table).unwrap().update(&update, stamp).unwrap();
}

fn get(table: &dyn Table, key: &str) -> Option<String> {
    let mut value = Vec::new();
    let found = table.get(key.as_bytes(), 0, &mut value).unwrap();
    found.map(|_| String::from_utf8(value).unwrap())
}

fn value(tables: &Tables, table: &str, key: &str) -> Option<String> {
    get(&**tables.get(table).unwrap(), key)
}

#[test]
fn names_stand_for_tables_and_the_first_is_the_default() {
    let disk = SimulatedDisk::new(1);
    let tables = open(&disk, Logging::Sync).unwrap();
    let names: Vec<_> = tables.iter().map(|(named, _)| named.name.clone()).collect();
    assert_eq!(names, ["names", "scores"]);
    assert!(tables.get("names").is_some() && tables.get("other").is_none());
    let again = open(&disk, Logging::Sync);
    assert!(matches!(again, Err(TableError::InUse(path)) if path == folder()));
}

#[test]
fn wrong_names_are_refused_with_a_reason() {
    for text in [
        "names.hash",
        "=names.hash",
        "a:b=names.hash",
        "a=names.hsh",
        "names.fixed?width=1",
    ] {
        let error = text.parse::<NamedTable>().unwrap_err();
        assert!(matches!(error, TableError::Syntax(_)), "{text}: {error}");
    }
    let named_table: NamedTable = "seen=seen.fixed?width=16".parse().unwrap();
    assert_eq!(named_table.to_string(), "seen=seen.fixed?width=16");
    let disk = SimulatedDisk::new(1).disk();
    for texts in [
        &[][..],
        &["a=a.hash", "a=b.hash"],
        &["a=a.hash", "b=a.hash"],
    ] {
        let opened = Tables::open(&disk, folder(), &named(texts), &options(1, Logging::None));
        assert!(matches!(opened, Err(TableError::Syntax(_))), "{texts:?}");
    }
}

#[test]
fn what_was_settled_is_there_after_a_power_cut() {
    let lossy = [
        "names=names.hash?durability=none",
        "scores=scores.ordered?durability=none",
    ];
    let disk = SimulatedDisk::new(1);
    let open = |disk: &SimulatedDisk| {
        Tables::open(
            &disk.disk(),
            folder(),
            &named(&lossy),
            &options(1, Logging::Sync),
        )
        .unwrap()
    };
    let tables = open(&disk);
    for number in 0..100_u64 {
        put(
            &tables,
            "names",
            &format!("key {}", number % 30),
            &number.to_string(),
            number,
        );
        put(&tables, "scores", "last", &number.to_string(), number);
    }
    let log = tables.log().unwrap();
    log.wait_durable(log.position()).unwrap();
    assert!(tables.settled().is_none());
    let disk = disk.crash(3);
    drop(tables);
    let tables = open(&disk);
    assert_eq!(tables.replayed().updates, 200);
    for number in 70..100 {
        let found = value(&tables, "names", &format!("key {}", number % 30));
        assert_eq!(found, Some(number.to_string()));
    }
    assert_eq!(value(&tables, "scores", "last"), Some("99".to_owned()));
    tables.close().unwrap();
    assert_eq!(open(&disk).replayed().updates, 0);
}

#[test]
fn a_recovery_begins_at_the_last_checkpoint_and_older_files_go() {
    let disk = SimulatedDisk::new(1);
    let mut with_little = options(1, Logging::Sync);
    with_little.log.retain_bytes = 0;
    let tables = Tables::open(&disk.disk(), folder(), &named(&TABLES), &with_little).unwrap();
    for number in 0..100_u64 {
        put(
            &tables,
            "names",
            &format!("a rather long key {number}"),
            "a value of some length",
            number,
        );
    }
    let log = tables.log().unwrap();
    tables.checkpoint().unwrap();
    let at_checkpoint = log.position();
    for number in 100..300_u64 {
        put(
            &tables,
            "names",
            &format!("a rather long key {number}"),
            "a value of some length",
            number,
        );
        if number % 50 == 0 {
            log.wait_durable(log.position()).unwrap();
        }
    }
    log.wait_durable(log.position()).unwrap();
    assert!(log.first_position() <= at_checkpoint);
    drop(disk.kill());
    let disk = disk.fork();
    drop(tables);
    let tables = open(&disk, Logging::Sync).unwrap();
    assert_eq!(tables.replayed().updates, 200);
    assert_eq!(tables.get("names").unwrap().count(), 300);
}

#[test]
fn checkpoints_are_made_as_the_log_grows() {
    let disk = SimulatedDisk::new(1);
    let mut small = options(1, Logging::Sync);
    small.checkpoint_bytes = 3000;
    small.log.retain_bytes = 0;
    let tables = Tables::open(&disk.disk(), folder(), &named(&TABLES), &small).unwrap();
    let log = tables.log().unwrap();
    let mut number = 0;
    // The thread makes one sooner or later: files that are not needed any more go then.
    while log.first_position() == LogPosition(0) {
        put(
            &tables,
            "names",
            &format!("key {}", number % 10),
            "a value",
            number,
        );
        log.wait_durable(log.position()).unwrap();
        number += 1;
        assert!(number < 1_000_000, "no checkpoint was made");
    }
    tables.close().unwrap();
}

#[test]
fn a_damaged_or_newer_checkpoint_is_refused() {
    let disk = SimulatedDisk::new(1);
    let tables = open(&disk, Logging::Sync).unwrap();
    tables.note_applied(4, LogPosition(17), 5).unwrap();
    tables.close().unwrap();
    let path = folder().join("checkpoint");
    let len = disk.disk().open(&path).unwrap().len().unwrap();
    for bit in 0..len * 8 {
        let disk = disk.fork();
        assert!(disk.flip_bit(&path, bit));
        let opened = open(&disk, Logging::Sync);
        assert!(matches!(opened, Err(TableError::Corrupt(_))), "bit {bit}");
    }
    let mut bytes = disk.disk().map(&path).unwrap().to_vec();
    for len in 0..bytes.len() {
        let cut = Checkpoint::decode(&bytes[..len], &path);
        assert!(matches!(cut, Err(TableError::Corrupt(_))), "{len} bytes");
    }
    bytes[8] = 2;
    let crc = crc32fast::hash(&bytes[..bytes.len() - 4]);
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&crc.to_le_bytes());
    let newer = Checkpoint::decode(&bytes, &path);
    assert!(matches!(newer, Err(TableError::Newer(_))), "{newer:?}");
}

#[test]
fn a_lost_log_is_noticed() {
    let disk = SimulatedDisk::new(1);
    let tables = open(&disk, Logging::Sync).unwrap();
    put(&tables, "names", "key", "value", 1);
    tables.close().unwrap();
    for name in disk.disk().list(&folder().join("updates")).unwrap() {
        disk.disk()
            .remove(&folder().join("updates").join(name))
            .unwrap();
    }
    let opened = open(&disk, Logging::Sync);
    assert!(matches!(opened, Err(TableError::Corrupt(_))), "{opened:?}");
}

#[test]
fn a_time_without_the_log_asks_followers_for_a_full_copy() {
    let disk = SimulatedDisk::new(1);
    let tables = open(&disk, Logging::Async).unwrap();
    put(&tables, "names", "logged", "1", 1);
    let seen = LogPosition(1);
    tables.close().unwrap();
    let tables = open(&disk, Logging::None).unwrap();
    assert!(tables.log().is_none() && tables.settled().is_none());
    put(&tables, "names", "not logged", "2", 2);
    tables.close().unwrap();
    let tables = open(&disk, Logging::Async).unwrap();
    assert_eq!(value(&tables, "names", "not logged"), Some("2".to_owned()));
    let mut follower = tables.log().unwrap().follow(seen).unwrap();
    let behind = follower.next_update();
    assert!(
        matches!(behind, Err(TableError::NotInLog { .. })),
        "{behind:?}"
    );
}

/// Ships all that one server has to another one, as a connection would.
fn ship(from: &Tables, to: &Tables) -> u64 {
    let log = from.log().unwrap();
    log.wait_durable(log.position()).unwrap();
    let (position, _) = to.applied(from.server()).unwrap_or_default();
    let mut follower = log.follow(position).unwrap().except(to.server());
    apply_all(&mut follower, from.server(), to)
}

fn apply_all(follower: &mut Follower, source: u32, to: &Tables) -> u64 {
    let (mut applied, mut at_us) = (0, 0);
    while let Some(logged) = follower.next_update().unwrap() {
        applied += u64::from(to.apply(&logged).unwrap());
        at_us = logged.stamp.at_us;
    }
    to.note_applied(source, follower.position(), at_us).unwrap();
    applied
}

fn server(number: u32) -> (SimulatedDisk, Tables) {
    let disk = SimulatedDisk::new(number.into());
    let tables = serve(&disk, number);
    (disk, tables)
}

fn serve(disk: &SimulatedDisk, number: u32) -> Tables {
    let options = options(number, Logging::Sync);
    Tables::open(&disk.disk(), folder(), &named(&TABLES), &options).unwrap()
}

fn contents(tables: &Tables) -> Vec<(String, Vec<u8>, Option<String>)> {
    let mut all = Vec::new();
    for (named, table) in tables.iter() {
        let mut keys = table.keys_after(None, usize::MAX).unwrap();
        keys.sort();
        for key in keys {
            let value = get(&**table, std::str::from_utf8(&key).unwrap());
            all.push((named.name.clone(), key, value));
        }
    }
    all
}

#[test]
fn updates_go_through_a_chain_once_and_never_back() {
    let [(_, a), (_, b), (_, c)] = [1, 2, 3].map(server);
    put(&a, "names", "of a", "1", 10);
    assert_eq!(ship(&a, &b), 1);
    put(&b, "scores", "of b", "2", 20);
    assert_eq!(ship(&b, &c), 2);
    // A ring: what began at `a` comes back to it, and stops there.
    assert_eq!(ship(&c, &a), 1);
    assert_eq!(ship(&a, &b), 0);
    assert_eq!(ship(&b, &c), 0);
    assert_eq!(contents(&a), contents(&c));
    assert_eq!(contents(&a).len(), 2);
    assert_eq!(contents(&b), contents(&c));
}

#[test]
fn a_pair_whose_sides_write_different_records_ends_equal_whatever_is_killed() {
    for seed in 0..30_u64 {
        let (mut disk_a, mut a) = server(1);
        let (mut disk_b, mut b) = server(2);
        for round in 0..40_u64 {
            put(
                &a,
                "names",
                &format!("a {}", round % 7),
                &round.to_string(),
                round,
            );
            put(
                &b,
                "names",
                &format!("b {}", round % 5),
                &round.to_string(),
                round,
            );
            match (round * 7 + seed * 13) % 11 {
                0..3 => drop(ship(&a, &b)),
                3..6 => drop(ship(&b, &a)),
                6 => {
                    settle(&a);
                    disk_a = stop(&disk_a, a, seed);
                    a = serve(&disk_a, 1);
                }
                7 => {
                    settle(&b);
                    disk_b = stop(&disk_b, b, seed);
                    b = serve(&disk_b, 2);
                }
                _ => {}
            }
        }
        ship(&a, &b);
        ship(&b, &a);
        ship(&a, &b);
        assert_eq!(contents(&a), contents(&b), "seed {seed}");
        assert_eq!(contents(&a).len(), 12);
    }
}

fn settle(tables: &Tables) {
    let log = tables.log().unwrap();
    log.wait_durable(log.position()).unwrap();
}

/// Stops a server: in order, by a kill, or by a power cut.
fn stop(disk: &SimulatedDisk, tables: Tables, seed: u64) -> SimulatedDisk {
    let after = match seed % 3 {
        0 => disk.crash(seed),
        1 => disk.kill(),
        _ => disk.clone(),
    };
    drop(tables);
    after
}

#[test]
fn how_far_a_source_was_applied_is_known_after_a_crash_and_never_too_far() {
    let (_, a) = server(1);
    let (mut disk, mut b) = server(2);
    for round in 0..50_u64 {
        for number in 0..3 {
            put(&a, "names", &format!("{round} {number}"), "x", round);
        }
        ship(&a, &b);
        if round % 2 == 0 {
            settle(&b);
        }
        if round % 10 == 5 {
            b.checkpoint().unwrap();
        }
        let noted = b.applied(1).unwrap();
        disk = disk.crash(round);
        drop(b);
        b = serve(&disk, 2);
        let known = b.applied(1).unwrap_or_default();
        assert!(known.0 <= noted.0);
        if round % 2 == 0 {
            assert_eq!(known, noted);
        }
        assert!(b.get("names").unwrap().count() >= known.0.0);
    }
    ship(&a, &b);
    assert_eq!(contents(&a), contents(&b));
}

#[test]
fn a_copy_is_opened_and_follows_from_where_it_was_made() {
    let (disk, a) = server(1);
    for number in 0..50 {
        put(&a, "names", &number.to_string(), "before", number);
    }
    a.note_applied(9, LogPosition(77), 1).unwrap();
    let backup = PathBuf::from("/backup");
    let position = a.copy(&backup).unwrap();
    assert_eq!(position, LogPosition(51));
    assert!(matches!(a.copy(&backup), Err(TableError::Io(_))));
    for number in 25..75 {
        put(&a, "names", &number.to_string(), "after", 100 + number);
    }
    // The copy survives a power cut at once.
    settle(&a);
    let disk = disk.crash(2);
    drop(a);
    let a = serve(&disk, 1);
    let options = options(2, Logging::Sync);
    let b = Tables::open(&disk.disk(), &backup, &named(&TABLES), &options).unwrap();
    assert_eq!(b.get("names").unwrap().count(), 50);
    assert_eq!(b.applied(1).map(|(position, _)| position), Some(position));
    assert_eq!(b.applied(9), Some((LogPosition(77), 1)));
    assert_eq!(ship(&a, &b), 50);
    assert_eq!(contents(&a), contents(&b));
}

#[test]
fn a_log_is_carried_out_again_from_a_time() {
    let (disk, a) = server(1);
    for number in 0..200 {
        put(
            &a,
            "names",
            &format!("key {number}"),
            &number.to_string(),
            number,
        );
    }
    let update = Update::new(b"key 150", Change::Remove);
    let stamp = Stamp {
        at_us: 300,
        origin: 0,
    };
    a.get("names").unwrap().update(&update, stamp).unwrap();
    a.close().unwrap();
    let log = folder().join("updates");
    let texts = ["names=restored.hash"];
    let place = PathBuf::from("/restored");
    let options = options(1, Logging::Sync);
    let b = Tables::open(&disk.disk(), &place, &named(&texts), &options).unwrap();
    let replayed = b.restore(&log, 100).unwrap();
    assert_eq!((replayed.updates, replayed.other_tables), (101, 0));
    assert_eq!(b.get("names").unwrap().count(), 99);
    assert_eq!(value(&b, "names", "key 99"), None);
    assert_eq!(value(&b, "names", "key 100"), Some("100".to_owned()));
    assert_eq!(value(&b, "names", "key 150"), None);
    // What was restored is in this log too.
    assert_eq!(b.log().unwrap().position(), LogPosition(101));
    let nothing = b.restore(Path::new("/tables"), 0);
    assert!(matches!(nothing, Err(TableError::Syntax(_))), "{nothing:?}");
}

#[test]
fn an_update_that_a_table_became_too_narrow_for_does_not_stop_a_recovery() {
    let wide = ["names=names.hash?value=100"];
    let narrow = ["names=names.hash?value=10"];
    let disk = SimulatedDisk::new(1);
    let open = |disk: &SimulatedDisk, texts: &[&str]| {
        Tables::open(
            &disk.disk(),
            folder(),
            &named(texts),
            &options(1, Logging::Sync),
        )
        .unwrap()
    };
    let tables = open(&disk, &wide);
    put(&tables, "names", "key", "a value that will be too long", 1);
    put(&tables, "names", "key", "short", 2);
    settle(&tables);
    let disk = stop(&disk, tables, 1);
    let tables = open(&disk, &narrow);
    assert_eq!(
        (tables.replayed().updates, tables.replayed().refused),
        (1, 1)
    );
    assert_eq!(value(&tables, "names", "key"), Some("short".to_owned()));
}

#[test]
fn an_applied_update_of_an_unknown_table_is_an_error() {
    let (_, a) = server(1);
    let logged = crate::Logged {
        table: "other",
        effect: Effect::Remove { key: b"k" },
        stamp: Stamp {
            at_us: 1,
            origin: 2,
        },
    };
    assert!(matches!(a.apply(&logged), Err(TableError::Syntax(_))));
    let own = crate::Logged {
        stamp: Stamp {
            at_us: 1,
            origin: 1,
        },
        ..logged
    };
    assert!(!a.apply(&own).unwrap());
}

#[test]
fn opening_fails_with_an_error_at_whichever_call_and_works_afterwards() {
    let disk = SimulatedDisk::new(1);
    let tables = open(&disk, Logging::Sync).unwrap();
    for number in 0..40 {
        put(&tables, "names", &number.to_string(), "value", number);
    }
    settle(&tables);
    let disk = stop(&disk, tables, 1);
    for nth in 1.. {
        let disk = disk.fork();
        disk.fail_nth_call(nth, std::io::ErrorKind::Other);
        let opened = open(&disk, Logging::Sync);
        let calls = disk.calls(None);
        let done = opened.is_ok() && calls < nth;
        drop(opened);
        let disk = disk.crash(nth);
        let tables = open(&disk, Logging::Sync)
            .unwrap_or_else(|error| panic!("after a failure at call {nth}: {error}"));
        assert_eq!(tables.get("names").unwrap().count(), 40, "call {nth}");
        if done {
            return;
        }
    }
}

#[test]
fn the_lock_is_given_back_when_opening_fails() {
    let disk = SimulatedDisk::new(1).disk();
    let failing =
        |_: &Disk, _: &Path, _: &crate::TableSpec, _| Err::<Arc<dyn Table>, _>(TableError::Full);
    let opened = Tables::open_with(
        &disk,
        folder(),
        &named(&TABLES),
        &options(1, Logging::Async),
        &failing,
    );
    assert!(matches!(opened, Err(TableError::Full)));
    let opened = Tables::open_with(
        &disk,
        folder(),
        &named(&TABLES),
        &options(1, Logging::Async),
        &open_spec,
    );
    opened.unwrap();
}

#[test]
fn a_follower_becomes_as_wide_as_its_source_was_made() {
    let [(disk, a), (_, b)] = [1, 2].map(|number| {
        let disk = SimulatedDisk::new(number.into());
        let seen = named(&["seen=seen.fixed?width=4&limit=1m"]);
        let options = options(number, Logging::Sync);
        let tables = Tables::open(&disk.disk(), folder(), &seen, &options).unwrap();
        (disk, tables)
    });
    put(&a, "seen", "1", "four", 1);
    assert_eq!(ship(&a, &b), 1);
    a.get("seen").unwrap().optimise("width=9").unwrap();
    put(&a, "seen", "2", "nine char", 2);
    put(&b, "seen", "3", "mine", 3);
    assert_eq!(ship(&a, &b), 1);
    assert_eq!(value(&b, "seen", "2").as_deref(), Some("nine char"));
    assert_eq!(value(&b, "seen", "1").as_deref(), Some("four"));
    assert_eq!(value(&b, "seen", "3").as_deref(), Some("mine"));
    assert_eq!(b.get("seen").unwrap().width(), Some(9));
    // What is asked for when it is opened does not change a width that it has.
    drop(a);
    let seen = named(&["seen=seen.fixed?width=4"]);
    let a = Tables::open(&disk.disk(), folder(), &seen, &options(1, Logging::Sync)).unwrap();
    assert_eq!(a.get("seen").unwrap().width(), Some(9));
}

#[test]
fn tables_in_memory_are_neither_logged_nor_brought_back() {
    let [a_disk, b_disk] = [1, 2].map(SimulatedDisk::new);
    let texts = named(&["cache=*", "names=names.hash"]);
    let open = |disk: &SimulatedDisk, number| {
        let options = options(number, Logging::Sync);
        Tables::open(&disk.disk(), folder(), &texts, &options).unwrap()
    };
    let (a, b) = (open(&a_disk, 1), open(&b_disk, 2));
    put(&a, "cache", "k", "v", 1);
    put(&a, "names", "k", "v", 2);
    assert_eq!(ship(&a, &b), 1);
    assert_eq!(
        (value(&b, "cache", "k"), value(&b, "names", "k")),
        (None, Some("v".into()))
    );
    drop(a_disk.kill());
    let again = a_disk.fork();
    drop(a);
    assert_eq!(value(&open(&again, 1), "cache", "k"), None);
}
