//! What the end of the process, and of the machine, leaves of a table.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread,
};

use hikyaku_tables::{Change, FixedTable, Table, TableError};
use hikyaku_vfs::SimulatedDisk;
use proptest::prelude::*;

use super::{STAMP, change, open, options, put, real, records, simulated, value};

const LIMIT: u64 = 128 << 10;

/// One update of a record, or of all.
type Step = fn(&FixedTable);

/// What each leaves of records 1 (`old`) and 2 (absent) is one of two states.
const STEPS: [Step; 8] = [
    |table| put(table, 1, b"new and longer than before"),
    |table| put(table, 1, b"n"),
    |table| put(table, 1, b""),
    |table| put(table, 2, b"second"),
    |table| drop(change(table, 1, Change::Append(b" and more"))),
    |table| {
        drop(change(
            table,
            1,
            Change::Rotate {
                bytes: b"rotated",
                size: Some(8),
            },
        ));
    },
    |table| drop(change(table, 1, Change::Remove)),
    |table| table.vanish(STAMP).unwrap(),
];

fn prepared(width: usize) -> SimulatedDisk {
    let disk = simulated(1);
    let table = open(&disk.disk(), options(width, LIMIT));
    put(&table, 1, b"old value");
    put(&table, 100, b"neighbour");
    drop(table);
    disk
}

/// Opens a table as something has left it, and checks that its count is that of its records.
fn found(disk: &SimulatedDisk, width: usize) -> Vec<(u64, Vec<u8>)> {
    let table = open(&disk.disk(), options(width, LIMIT));
    let records = records(&table);
    assert_eq!(table.count(), records.len() as u64);
    assert_eq!(table.first(), records.first().map(|(key, _)| *key));
    assert_eq!(table.last(), records.last().map(|(key, _)| *key));
    records
}

#[test]
fn a_kill_in_the_middle_of_any_store_leaves_the_old_or_the_new_value() {
    for (number, step) in STEPS.iter().enumerate() {
        for width in [26, 700] {
            let base = prepared(width);
            let before = found(&base.fork(), width);
            let (mut seen_old, mut seen_new) = (false, false);
            for nth in 1.. {
                let disk = base.fork();
                let table = open(&disk.disk(), options(width, LIMIT));
                disk.kill_at_store(nth);
                step(&table);
                let Some(killed) = disk.killed() else {
                    break;
                };
                let after = records(&table);
                // The recovery is killed as well, at any store, and goes on at the next start.
                for again in 1.. {
                    let recovering = killed.fork();
                    recovering.kill_at_store(again);
                    let left = found(&recovering, width);
                    assert!(
                        left == before || left == after,
                        "step {number}, store {nth}: {left:?}"
                    );
                    seen_old |= left == before;
                    seen_new |= left == after;
                    let Some(killed) = recovering.killed() else {
                        break;
                    };
                    assert_eq!(found(&killed, width), left, "step {number}, store {nth}");
                }
            }
            assert!(
                seen_old && seen_new,
                "step {number} was not met in the middle"
            );
        }
    }
}

#[test]
fn a_kill_while_the_width_changes_leaves_the_old_or_the_new_file() {
    let base = simulated(1);
    let table = open(&base.disk(), options(8, LIMIT));
    for key in 1..=40 {
        put(&table, key * 7, &key.to_le_bytes());
    }
    let before = records(&table);
    drop(table);
    let mut widths = Vec::new();
    for nth in (1..).step_by(3) {
        let disk = base.fork();
        let table = open(&disk.disk(), options(8, LIMIT));
        disk.kill_at_store(nth);
        table.optimise("width=20").unwrap();
        put(&table, 999, b"behind");
        let Some(killed) = disk.killed() else {
            break;
        };
        for left in [killed.fork(), killed.crash(nth)] {
            let table = open(&left.disk(), options(8, LIMIT));
            let mut left = records(&table);
            left.retain(|(key, _)| *key != 999);
            assert_eq!(left, before, "store {nth}");
            widths.push(table.width());
        }
    }
    assert!(widths.contains(&8) && widths.contains(&20), "{widths:?}");
}

/// Which values a record may have after a power cut: the one at the last sync, and all since.
#[derive(Debug, Default)]
struct Possible(BTreeMap<u64, Vec<Option<Vec<u8>>>>);

impl Possible {
    fn updated(&mut self, key: u64, value: Option<Vec<u8>>) {
        self.0.entry(key).or_insert_with(|| vec![None]).push(value);
    }

    fn synced(&mut self) {
        for values in self.0.values_mut() {
            values.drain(..values.len() - 1);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_power_cut_leaves_what_was_synced(
        steps in prop::collection::vec((1..60_u64, 0..12_u8, prop::collection::vec(any::<u8>(), 0..40)), 1..60),
        nth in 1..400_u64,
        seed in any::<u64>(),
        wide in any::<bool>(),
    ) {
        // Narrow: a note fits a sector. Wide: notes and records may be torn.
        let width = if wide { 700 } else { 40 };
        let disk = simulated(seed);
        let table = open(&disk.disk(), options(width, LIMIT));
        let mut possible = Possible::default();
        disk.kill_at_store(nth);
        let (mut stopped, mut in_flight) = (None, None);
        for (key, kind, bytes) in steps {
            let bytes = if wide { bytes.repeat(17) } else { bytes };
            match kind {
                0 => {
                    table.sync().unwrap();
                    possible.synced();
                }
                1 => {
                    drop(change(&table, key, Change::Remove));
                    possible.updated(key, None);
                }
                _ => {
                    put(&table, key, &bytes);
                    possible.updated(key, Some(bytes));
                }
            }
            if let Some(killed) = disk.killed() {
                stopped = Some(killed);
                in_flight = Some(key);
                break;
            }
        }
        let machine = stopped.unwrap_or_else(|| disk.fork());
        let table = open(&machine.crash(seed).disk(), options(width, LIMIT));
        let slot = (width + if wide { 2 } else { 1 }) as u64;
        let first = table_offset(width);
        let mut there = 0;
        for key in 1..60 {
            let start = first + (key - 1) * slot;
            // What was being written when the power was cut may be half there, and its note lost.
            let whole = start / 512 == (start + slot - 1) / 512 && in_flight != Some(key);
            let none = vec![None];
            let values = possible.0.get(&key).unwrap_or(&none);
            let mut buffer = vec![0; width];
            let found = match table.get(key, &mut buffer) {
                Ok(None) => None,
                Ok(Some(len)) => {
                    there += 1;
                    buffer.truncate(len);
                    Some(buffer)
                }
                Err(TableError::Corrupt(_)) => {
                    there += 1;
                    prop_assert!(!whole && values.len() > 1);
                    continue;
                }
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            };
            if whole || values.len() == 1 {
                prop_assert!(values.contains(&found), "{}: {:?} of {:?}", key, found, values);
            }
        }
        prop_assert_eq!(table.count(), there);
    }
}

/// Where the first record is: behind the header's page and 64 notes.
fn table_offset(width: usize) -> u64 {
    4096 + (64 * (16 + width as u64).next_multiple_of(64)).next_multiple_of(4096)
}

/// Returns whether a call of the whole work failed because of the fault.
fn work(table: &FixedTable) -> Result<(), TableError> {
    for key in 1..=50 {
        table.put(key, &key.to_le_bytes(), STAMP)?;
    }
    table.sync()?;
    table.copy(Path::new("/t/copy.fixed"))?;
    table.optimise("width=30")?;
    change(table, 7, Change::Remove)?;
    table.put(3000, b"far", STAMP)?;
    table.sync()
}

#[test]
fn any_call_to_the_disk_may_fail() {
    for nth in 1.. {
        let simulated = simulated(nth);
        let disk = simulated.disk();
        simulated.fail_nth_call(nth, std::io::ErrorKind::Other);
        let table = FixedTable::open(&disk, Path::new("/t/a.fixed"), options(8, LIMIT), None);
        let result = table.and_then(|table| {
            let result = work(&table);
            // What was answered is there, whatever failed.
            let records = records(&table);
            assert_eq!(table.count(), records.len() as u64, "call {nth}");
            result
        });
        let calls = simulated.calls(None);
        simulated.clear_faults();
        let again = open(&disk, options(8, LIMIT));
        let left = records(&again);
        assert_eq!(again.count(), left.len() as u64, "call {nth}");
        for (key, value) in left.iter().filter(|(key, _)| *key <= 50) {
            assert_eq!(*value, key.to_le_bytes(), "call {nth}");
        }
        if calls < nth {
            result.unwrap();
            break;
        }
    }
}

const CHILD: &str = "HIKYAKU_FIXED_TABLE_CHILD";
const WIDTH: usize = 480;
/// A width whose values are mostly written over by a single instruction, with and without a line of
/// the processor's cache between their halves.
const NARROW: usize = 16;

/// The length of a value that is made of this byte.
fn length(width: usize, byte: u8) -> usize {
    match width {
        // 8 over 8 and 16 over 16, but also 16 over 8 and what takes two instructions.
        NARROW => [16, 16, 8, 8, 16, 7][usize::from(byte) % 6],
        _ => usize::from(byte),
    }
}

/// What the child process does until it is killed: two threads write records whose bytes are all the
/// same, of a length that goes with the byte.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let width = Path::new(&path)
        .extension()
        .and_then(|width| width.to_str()?.parse().ok())
        .unwrap();
    let options = options(width, 1 << 20);
    let table = FixedTable::open(&real(), Path::new(&path), options, None).unwrap();
    thread::scope(|scope| {
        for thread in 0..2_u64 {
            let table = &table;
            scope.spawn(move || {
                for round in 0_u64.. {
                    let key = (round * 7 + thread) % 300 + 1;
                    let byte = (round % 250) as u8 + 1;
                    match round % 11 {
                        0 => drop(change(table, key, Change::Remove)),
                        1 => table.rotate(key, &[byte; 600], None, STAMP).unwrap(),
                        _ => put(table, key, &vec![byte; length(width, byte)]),
                    }
                    if round % 256 == 255 {
                        println!("at {round}");
                    }
                }
            });
        }
    });
}

#[test]
fn kill_minus_nine_never_leaves_half_a_value() {
    kill_again_and_again(WIDTH);
}

#[test]
fn kill_minus_nine_never_leaves_half_a_short_value() {
    kill_again_and_again(NARROW);
}

fn kill_again_and_again(width: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("table.{width}"));
    for round in 0..25 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "fixed::crash::child", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut progress =
            lines.filter(|line| line.as_ref().is_ok_and(|line| line.contains("at ")));
        for _ in 0..=round {
            progress.next().unwrap().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let table = FixedTable::open(&real(), &path, options(width, 1 << 20), None).unwrap();
        let records = records(&table);
        assert!(!records.is_empty());
        assert_eq!(table.count(), records.len() as u64);
        for (key, value) in records {
            let byte = value[0];
            assert!(value.iter().all(|other| *other == byte), "record {key}");
            let len = length(width, byte);
            assert!(value.len() == len || value.len() == width, "record {key}");
        }
        assert_eq!(value(&table, 301), None);
    }
}
