//! Large batches on a real disk, which go around the page cache.

use std::{path::Path, sync::Arc};

use hikyaku_vfs::{BLOCK_BYTES, Disk, RealDisk};

use super::fixture::{Running, SERVER, tables};
use crate::{
    LogOptions, LogPosition, UpdateLog,
    log::{Known, buffer::BatchBuffer},
};

fn open(dir: &Path) -> Running {
    let options = LogOptions {
        waited_for: false,
        file_bytes_max: 1 << 20,
        ..LogOptions::new(SERVER)
    };
    let disk: Disk = Arc::new(RealDisk);
    let log = UpdateLog::open(&disk, dir, options, &tables(), Known::default()).unwrap();
    let pump = log.prepare().unwrap().unwrap();
    let sink = log.sink(0);
    Running { log, pump, sink }
}

fn check(log: &UpdateLog, updates: u64) {
    let mut follower = log.follow(LogPosition(0)).unwrap();
    for number in 0..updates {
        let logged = follower.next_update().unwrap().unwrap();
        assert_eq!(logged.stamp.at_us, number * 10);
    }
    assert!(follower.next_update().unwrap().is_none());
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
