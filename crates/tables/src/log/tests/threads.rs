//! Many threads, one order.

use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use hikyaku_vfs::SimulatedDisk;

use super::fixture::{SERVER, at, dir, put, tables};
use crate::{Effect, LogOptions, LogPosition, UpdateLog, log::Known};

fn open(disk: &SimulatedDisk, options: LogOptions) -> UpdateLog {
    let log = UpdateLog::open(&disk.disk(), dir(), options, &tables(), Known::default());
    let log = log.unwrap();
    log.start().unwrap();
    log
}

#[test]
fn the_entries_of_a_record_stand_in_the_order_of_its_updates() {
    const THREADS: u64 = 4;
    const UPDATES: u64 = 5000;
    let disk = SimulatedDisk::new(1);
    let options = LogOptions {
        // Small enough that updaters have to wait, and files are filled.
        queue_bytes_max: 4096,
        file_bytes_max: 64 << 10,
        linger: Duration::ZERO,
        ..LogOptions::new(SERVER)
    };
    let log = open(&disk, options);
    let records: Vec<_> = (0..5).map(|_| Mutex::new(0_u64)).collect();
    let reached = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (log, records, reached) = (&log, &records, &reached);
            let sink = log.sink(0);
            scope.spawn(move || {
                for turn in 0..UPDATES {
                    let index = (turn * 7 + number) % records.len() as u64;
                    let mut record = records[index as usize].lock().unwrap();
                    *record += 1;
                    let effect = (index.to_le_bytes(), record.to_le_bytes());
                    sink.updated(put(&effect.0, &effect.1), at(turn)).unwrap();
                    drop(record);
                    if turn % 500 == 0 {
                        log.wait_durable(log.position()).unwrap();
                    }
                }
                reached.fetch_add(1, Ordering::Relaxed);
            });
        }
        // One that follows live, and waits without asking again and again.
        let mut follower = log.follow(LogPosition(0)).unwrap();
        let mut last: HashMap<Vec<u8>, u64> = HashMap::new();
        let mut seen = 0;
        while seen < THREADS * UPDATES {
            assert!(follower.wait(Duration::from_mins(1)).unwrap());
            while let Some(logged) = follower.next_update().unwrap() {
                let Effect::Put { key, value, .. } = logged.effect else {
                    panic!("{logged:?}");
                };
                let value = u64::from_le_bytes(value.try_into().unwrap());
                let before = last.insert(key.to_vec(), value).unwrap_or(0);
                assert_eq!(value, before + 1, "an update is out of order");
                seen += 1;
            }
        }
    });
    assert_eq!(reached.load(Ordering::Relaxed), THREADS);
    log.close().unwrap();
    assert_eq!(log.durable(), LogPosition(THREADS * UPDATES));
    assert!(log.file() > 3);
}

#[test]
fn closing_writes_what_waits() {
    let disk = SimulatedDisk::new(1);
    let options = LogOptions {
        linger: Duration::from_hours(1),
        ..LogOptions::new(SERVER)
    };
    let log = open(&disk, options.clone());
    let sink = log.sink(0);
    for number in 0..10_u64 {
        sink.updated(put(&number.to_le_bytes(), b""), at(1))
            .unwrap();
    }
    assert_eq!(log.durable(), LogPosition(0));
    drop(log);
    let log = open(&disk, options);
    assert_eq!(log.durable(), LogPosition(10));
}

#[test]
fn many_updates_that_wait_share_a_sync() {
    let disk = SimulatedDisk::new(1);
    let options = LogOptions {
        linger: Duration::from_hours(1),
        ..LogOptions::new(SERVER)
    };
    let log = open(&disk, options);
    let before = disk.calls(Some(hikyaku_vfs::Call::Sync));
    let sink = log.sink(0);
    for number in 0..1000_u64 {
        sink.updated(put(&number.to_le_bytes(), b""), at(1))
            .unwrap();
    }
    log.wait_durable(log.position()).unwrap();
    assert_eq!(disk.calls(Some(hikyaku_vfs::Call::Sync)) - before, 1);
}
