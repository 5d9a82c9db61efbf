//! Large batches on a real disk, which go around the page cache.

use std::{io, path::Path, sync::Arc};

use hikyaku_vfs::{BLOCK_BYTES, Call, Disk, Fault, RealDisk, SimulatedDisk};

use super::fixture::{Running, SERVER, dir, tables};
use crate::{
    LogOptions, LogPosition, UpdateLog,
    log::{Known, buffer::BatchBuffer},
};

fn open(dir: &Path) -> Running {
    let disk: Disk = Arc::new(RealDisk);
    open_on(&disk, dir)
}

fn open_on(disk: &Disk, dir: &Path) -> Running {
    let options = LogOptions {
        waited_for: false,
        file_bytes_max: 1 << 20,
        ..LogOptions::new(SERVER)
    };
    let log = UpdateLog::open(disk, dir, options, &tables(), Known::default()).unwrap();
    let pump = log.prepare().unwrap().unwrap();
    let sink = log.sink(0);
    Running { log, pump, sink }
}

fn check(log: &UpdateLog, updates: u64) {
    assert_eq!(count(log), updates);
}

/// Counts the updates, which come in their order.
fn count(log: &UpdateLog) -> u64 {
    let mut follower = log.follow(LogPosition(0)).unwrap();
    let mut updates = 0;
    while let Some(logged) = follower.next_update().unwrap() {
        assert_eq!(logged.stamp.at_us, updates * 10);
        updates += 1;
    }
    updates
}

#[test]
fn what_goes_around_the_page_cache_is_there_for_followers_and_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = open(folder.path());
    let mut told = 0;
    let mut tell = |running: &mut Running, updates: u64| {
        for number in told..told + updates {
            running.tell(number).unwrap();
        }
        told += updates;
        assert!(running.pump.turn());
        told
    };
    for round in 0..4 {
        for updates in [1, 9000, 20, 30_000] {
            tell(&mut running, updates);
        }
        // Who follows is there while others are written, and reads what was written without it.
        let follower = running.log.follow(LogPosition(0)).unwrap();
        tell(&mut running, 7000);
        drop(follower);
        let told = tell(&mut running, 5000);
        if round == 1 {
            check(&running.log, told);
        }
    }
    assert!(running.log.file() > 3);
    let told = tell(&mut running, 1);
    check(&running.log, told);
    drop(running);
    check(&open(folder.path()).log, told);
}

#[test]
fn a_batch_that_is_cut_anywhere_is_there_whole_or_not_at_all() {
    for seed in 0..30 {
        let mut disk = SimulatedDisk::new(seed);
        let mut running = open_on(&disk.disk(), dir());
        let mut told = 0;
        for updates in [5000, 4000, 3000] {
            let failing = (updates < 5000).then_some(seed % 6 + 1);
            if let Some(nth) = failing {
                disk.inject(Fault {
                    call: Some(if nth == 6 { Call::Sync } else { Call::Write }),
                    nth: nth.min(5),
                    error: io::ErrorKind::Other,
                    lasting: false,
                });
            }
            for number in told..told + updates {
                running.tell(number).unwrap();
            }
            let is_written = running.pump.turn();
            drop(running);
            disk = disk.crash(seed);
            running = open_on(&disk.disk(), dir());
            let found = count(&running.log);
            let whole = [told, told + updates];
            assert!(
                whole[usize::from(is_written)..].contains(&found),
                "{found} of {whole:?}"
            );
            told = found;
        }
    }
}

#[test]
fn a_batch_lies_in_memory_as_it_will_in_the_file() {
    let mut buffer = BatchBuffer::default();
    for (offset, len) in [(0, 10), (5000, 70_000), (4096, 3), (123, 1_000_000), (7, 0)] {
        buffer.begin(offset, len);
        assert_eq!(buffer.len(), len);
        let lies_at = buffer.as_ptr().addr() % BLOCK_BYTES;
        assert_eq!(lies_at, offset as usize % BLOCK_BYTES);
        buffer.fill(0xff);
        buffer.pad(len + 7);
        assert_eq!(buffer[len..], [0; 7]);
        assert!(buffer[..len].iter().all(|byte| *byte == 0xff));
        assert_eq!(buffer.as_ptr().addr() % BLOCK_BYTES, lies_at);
        buffer.keep(100_000);
        assert!(buffer.is_empty());
    }
}
