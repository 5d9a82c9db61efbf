//! Servers with an update log that are killed while they work, on the real disk.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use hikyaku_tables::{
    Change, Effect, Logging, NamedTable, Stamp, Table, Tables, TablesOptions, Update,
};
use hikyaku_vfs::{Disk, RealDisk};

const FOLDER: &str = "HIKYAKU_TABLES_KILLED_LOG";
const LOGGING: &str = "HIKYAKU_TABLES_LOGGING";
/// Records that the updates are of.
const RECORDS: u64 = 40;

fn open(folder: &Path, server: u32, logging: Logging) -> Tables {
    let disk: Disk = Arc::new(RealDisk);
    let texts = [
        "seen=seen.fixed?width=8&limit=1m",
        "names=names.hash?durability=none",
    ];
    let named = texts.map(|text| text.parse::<NamedTable>().unwrap());
    let mut options = TablesOptions::new(server);
    options.logging = logging;
    options.log.file_bytes_max = 64 << 10;
    options.log.queue_bytes_max = 64 << 10;
    options.checkpoint_bytes = 100 << 10;
    Tables::open(&disk, folder, &named, &options).unwrap()
}

fn put(table: &dyn Table, key: u64, number: u64) {
    let key = (key % RECORDS + 1).to_string();
    let value = number.to_le_bytes();
    let update = Update::new(key.as_bytes(), Change::Put(&value));
    let stamp = Stamp {
        at_us: number,
        origin: 0,
    };
    table.update(&update, stamp).unwrap();
}

/// The process that is killed: two threads put rising numbers, each into a table of its own.
#[test]
fn the_server_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let is_sync = std::env::var(LOGGING).unwrap() == "sync";
    let logging = if is_sync {
        Logging::Sync
    } else {
        Logging::Async
    };
    let tables = open(Path::new(&folder), 1, logging);
    let log = tables.log().unwrap();
    let first = log.newest_us() + 1;
    std::thread::scope(|scope| {
        for name in ["seen", "names"] {
            let table = tables.get(name).unwrap();
            scope.spawn(move || {
                for number in first.. {
                    put(&**table, number, number);
                    if number % 20 == 0 {
                        if is_sync {
                            log.wait_durable(log.position()).unwrap();
                        }
                        writeln!(std::io::stdout(), "answered {name} {number}").unwrap();
                    }
                }
            });
        }
    });
}

/// Returns all records of a table, as numbers.
fn contents(tables: &Tables, name: &str) -> Vec<(Vec<u8>, u64)> {
    let table = tables.get(name).unwrap();
    let mut keys = table.keys_after(None, usize::MAX).unwrap();
    keys.sort();
    keys.into_iter()
        .map(|key| {
            let mut value = Vec::new();
            table.get(&key, 0, &mut value).unwrap().unwrap();
            (key, u64::from_le_bytes(value.try_into().unwrap()))
        })
        .collect()
}

#[test]
fn a_follower_of_a_server_that_is_killed_again_and_again_ends_equal() {
    for logging in ["sync", "async"] {
        let (folder, follows) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for round in 1..4 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args([
                    "killed_log::the_server_that_is_killed",
                    "--exact",
                    "--nocapture",
                ])
                .env(FOLDER, folder.path())
                .env(LOGGING, logging)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            // None: the kill came before this thread had said anything.
            let (mut lines, mut last) = (0, [None, None]);
            for line in BufReader::new(child.stdout.take().unwrap()).lines() {
                let line = line.unwrap();
                let Some((_, said)) = line.split_once("answered ") else {
                    continue;
                };
                let (name, number) = said.split_once(' ').unwrap();
                last[usize::from(name == "names")] = Some(number.parse::<u64>().unwrap());
                lines += 1;
                if lines == 40 * round {
                    // SIGKILL; what it had said until then is still in the pipe.
                    child.kill().unwrap();
                }
            }
            child.wait().unwrap();
            assert!(lines >= 40 * round);

            let tables = open(folder.path(), 1, Logging::Sync);
            for (name, last) in ["seen", "names"].into_iter().zip(last) {
                // With either kind of log: a kill takes nothing that was answered.
                let newest = contents(&tables, name)
                    .iter()
                    .map(|(_, number)| *number)
                    .max();
                assert!(
                    newest >= last,
                    "{logging} {name}: {newest:?} after {last:?}"
                );
            }
            follow(&tables, &open(follows.path(), 2, Logging::Async));
        }
    }
}

/// Ships everything from one server to the other: afterwards they are equal.
fn follow(from: &Tables, to: &Tables) {
    let log = from.log().unwrap();
    log.wait_durable(log.position()).unwrap();
    let (position, _) = to.applied(1).unwrap_or_default();
    let mut follower = log.follow(position).unwrap().except(2);
    let mut newest = [0, 0];
    while let Some(logged) = follower.next_update().unwrap() {
        if let Effect::Put { value, .. } = logged.effect {
            let number = u64::from_le_bytes(value.try_into().unwrap());
            let before = &mut newest[usize::from(logged.table == "names")];
            assert!(number > *before, "{number} came after {before}");
            *before = number;
        }
        assert!(to.apply(&logged).unwrap());
    }
    to.note_applied(1, follower.position(), 0).unwrap();
    for name in ["seen", "names"] {
        assert_eq!(contents(from, name), contents(to, name), "{name}");
    }
}
