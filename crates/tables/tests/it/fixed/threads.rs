//! Many threads at once.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use hikyaku_tables::{Change, FixedTable, IntegerWidth, Table};

use super::{change, options, put, real, records, value};

const ADD: Change<'static> = Change::AddInteger {
    by: 1,
    width: IntegerWidth::Eight,
};

fn open(folder: &tempfile::TempDir, width: usize) -> FixedTable {
    let path = folder.path().join("a.fixed");
    FixedTable::open(&real(), &path, options(width, 4 << 20), None).unwrap()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// Calls `work` on some threads with numbers of their own until `until` is done.
fn beside(threads: u64, work: impl Fn(u64, u64) + Sync, until: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..threads {
            let (stop, work) = (&stop, &work);
            scope.spawn(move || {
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    work(thread, round);
                    round += 1;
                }
            });
        }
        // The threads stop also when this panics.
        let _stopping = Stopping(&stop);
        until();
    });
}

struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_addition_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(&folder, 8);
    thread::scope(|scope| {
        for thread in 0..4 {
            let table = &table;
            scope.spawn(move || {
                for round in 0..20_000_u64 {
                    change(table, 1 + (round * 13 + thread) % 40, ADD).unwrap();
                }
            });
        }
    });
    let total: u64 = records(&table).iter().map(|(_, value)| number(value)).sum();
    assert_eq!(total, 80_000);
    assert_eq!(table.count(), 40);
}

#[test]
fn additions_beside_a_change_of_width_come_to_their_sum() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(&folder, 8);
    let added = [const { AtomicU64::new(0) }; 3];
    let add = |thread: u64, round: u64| {
        let key = 1 + (round * 13 + thread) % 2000;
        change(&table, key, ADD).unwrap();
        added[thread as usize].fetch_add(1, Ordering::Relaxed);
    };
    beside(3, add, || {
        for width in [16, 8, 30, 12, 8, 16, 30] {
            table.optimise(&format!("width={width}")).unwrap();
            table.sync().unwrap();
        }
    });
    let total: u64 = records(&table).iter().map(|(_, value)| number(value)).sum();
    let added: u64 = added
        .iter()
        .map(|added| added.load(Ordering::Relaxed))
        .sum();
    assert_eq!(total, added);
    drop(table);
    let table = open(&folder, 8);
    let total: u64 = records(&table).iter().map(|(_, value)| number(value)).sum();
    assert_eq!(total, added);
}

#[test]
fn a_reader_never_sees_half_a_value() {
    for width in [9, 480] {
        let folder = tempfile::tempdir().unwrap();
        let table = open(&folder, width);
        let write = |thread: u64, round: u64| {
            let byte = (round % 250) as u8 + 1;
            let len = 1 + (round + thread) as usize % width;
            put(&table, 1 + round % 3, &vec![byte; len]);
        };
        let mut seen = 0;
        beside(2, write, || {
            let mut buffer = vec![0; width];
            while seen < 20_000 {
                let key = 1 + seen % 3;
                if let Some(len) = table.get(key, &mut buffer).unwrap() {
                    let read = &buffer[..len];
                    assert!(read.iter().all(|byte| *byte == read[0]), "{read:?}");
                    seen += 1;
                }
            }
        });
    }
}

#[test]
fn the_count_is_exact() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(&folder, 8);
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let table = &table;
            scope.spawn(move || {
                for round in 0..20_000_u64 {
                    let key = 1 + (round * 31 + thread * 7) % 500;
                    if (round + thread) % 3 == 0 {
                        change(table, key, Change::Remove).unwrap();
                    } else {
                        put(table, key, b"x");
                    }
                }
            });
        }
    });
    assert_eq!(table.count(), records(&table).len() as u64);
}

/// Each thread counts up a first record and then a second one, far apart. At every moment the first
/// is as high as the second or one higher.
#[test]
fn a_copy_is_of_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(&folder, 8);
    let pairs: [(u64, u64); 2] = [(1, 100_000), (100_001, 2)];
    for key in 3..100_000 {
        put(&table, key, b"filling");
    }
    let count = |thread: u64, round: u64| {
        let (first, second) = pairs[thread as usize];
        put(&table, first, &round.to_le_bytes());
        put(&table, second, &round.to_le_bytes());
    };
    beside(2, count, || {
        for nth in 0..12 {
            let path = folder.path().join(format!("{nth}.fixed"));
            table.copy(&path).unwrap();
            let copy = FixedTable::open(&real(), Path::new(&path), options(8, 4 << 20), None);
            let copy = copy.unwrap();
            let listed = copy.keys_after(None, usize::MAX).unwrap();
            assert_eq!(listed.len() as u64, copy.count());
            for (first, second) in pairs {
                let of = |key| value(&copy, key).map_or(0, |value| number(&value) + 1);
                let (first, second) = (of(first), of(second));
                assert!(
                    first == second || first == second + 1,
                    "{first} and {second}"
                );
            }
        }
    });
}
