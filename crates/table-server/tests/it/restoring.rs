//! Update logs that clients have restored.

use std::{path::Path, sync::Arc};

use hikyaku_table_server::TableServerConfig;
use hikyaku_tables::{Change, Logging, NamedTable, Stamp, Tables, TablesOptions, Update};
use hikyaku_vfs::{Disk, RealDisk};

use crate::{
    running::{Running, loopback},
    wire::{found, say, tyrant_strings, why},
};

fn open(folder: &Path, tables: &[&str], logging: Logging) -> Tables {
    let named: Vec<NamedTable> = tables.iter().map(|text| text.parse().unwrap()).collect();
    let disk: Disk = Arc::new(RealDisk);
    let options = TablesOptions {
        logging,
        ..TablesOptions::new(1)
    };
    Tables::open(&disk, folder, &named, &options).unwrap()
}

/// Makes a log of three seconds: record 1 becomes `a`, `b`, and then there is a name.
fn make_log(folder: &Path) {
    let tables = open(
        folder,
        &["seen=seen.fixed?width=8&limit=1m", "names=names.hash"],
        Logging::Sync,
    );
    for (second, table, key, value) in [
        (1, "seen", b"1", b"a"),
        (2, "seen", b"1", b"b"),
        (3, "names", b"n", b"c"),
    ] {
        let stamp = Stamp {
            at_us: second * 1_000_000,
            origin: 1,
        };
        let update = Update::new(key, Change::Put(value));
        tables.get(table).unwrap().update(&update, stamp).unwrap();
    }
    tables.close().unwrap();
}

fn restore(name: &[u8], from_us: u64, options: u32) -> Vec<u8> {
    let mut request = vec![0xc8, 0x74];
    request.extend_from_slice(&(name.len() as u32).to_be_bytes());
    request.extend_from_slice(&from_us.to_be_bytes());
    request.extend_from_slice(&options.to_be_bytes());
    request.extend_from_slice(name);
    request
}

fn get(key: &[u8]) -> Vec<u8> {
    tyrant_strings(0x30, &[key])
}

#[test]
fn a_log_is_restored_from_a_time_on_and_is_durable_when_the_answer_comes() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_log(old.path());
    let tables = ["seen=seen.fixed?width=8&limit=1m", "names=names.hash"];
    let set = Arc::new(open(new.path(), &tables, Logging::None));
    let config = TableServerConfig {
        restores: Some(old.path().to_owned()),
        ..loopback()
    };
    let server = Running::with_set(config, &set);
    let mut client = server.connect();
    // After all of it; then the last; then all.
    say(&mut client, &restore(b"updates", 3_000_001, 1), &[0]);
    say(&mut client, &get(b"names:n"), &[1]);
    say(&mut client, &restore(b"updates", 3_000_000, 1), &[0]);
    say(&mut client, &get(b"names:n"), &found(b"c"));
    say(&mut client, &get(b"1"), &[1]);
    say(&mut client, &restore(b"updates", 0, 1), &[0]);
    say(&mut client, &get(b"1"), &found(b"b"));
}

#[test]
fn a_log_that_does_not_fit_is_told_by_the_option_that_checks() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_log(old.path());
    let tables = ["seen=seen.fixed?width=8&limit=1m"];
    let set = Arc::new(open(new.path(), &tables, Logging::Async));
    let config = TableServerConfig {
        restores: Some(old.path().to_owned()),
        ..loopback()
    };
    let server = Running::with_set(config, &set);
    let mut client = server.connect();
    say(&mut client, &restore(b"updates", 0, 0), &[0]);
    say(&mut client, &get(b"1"), &found(b"b"));
    say(&mut client, &restore(b"updates", 0, 1), &[1]);
    assert_eq!(
        why(&mut client),
        "9999: 0 updates were refused, 1 are of tables that are not open"
    );
}

#[test]
fn a_log_is_restored_only_where_the_operator_allows_it() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_log(old.path());
    let tables = ["seen=seen.fixed?width=8&limit=1m"];
    let set = Arc::new(open(new.path(), &tables, Logging::Async));
    let path = old.path().join("updates");
    let path = path.to_str().unwrap().as_bytes();
    for restores in [None, Some(old.path().join("other"))] {
        let config = TableServerConfig {
            restores,
            ..loopback()
        };
        let server = Running::with_set(config, &set);
        let mut client = server.connect();
        for name in [&b"updates"[..], path, b"../updates", b"@touch x", b""] {
            say(&mut client, &restore(name, 0, 0), &[1]);
            assert!(why(&mut client).starts_with("9999: "));
        }
        say(&mut client, &get(b"1"), &[1]);
    }
}

#[test]
fn a_servers_own_log_can_be_restored_while_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let tables = ["seen=seen.fixed?width=8&limit=1m"];
    let set = Arc::new(open(folder.path(), &tables, Logging::Sync));
    let config = TableServerConfig {
        restores: Some(folder.path().to_owned()),
        ..loopback()
    };
    let server = Running::with_set(config, &set);
    let mut client = server.connect();
    let put = |key: &[u8], value: &[u8]| tyrant_strings(0x10, &[key, value]);
    say(&mut client, &put(b"1", b"a"), &[0]);
    say(&mut client, &put(b"2", b"b"), &[0]);
    say(&mut client, &restore(b"updates", 0, 1), &[0]);
    say(&mut client, &get(b"1"), &found(b"a"));
    say(&mut client, &put(b"1", b"c"), &[0]);
    say(&mut client, &get(b"1"), &found(b"c"));
}
