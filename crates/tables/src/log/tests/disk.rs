//! A disk that fails or is full.

use std::io::ErrorKind;

use hikyaku_vfs::{Call, Fault, SimulatedDisk};

use super::fixture::{all, at, open, open_with, put, tiny};
use crate::{
    LogOptions, LogPosition, TableError, UpdateSink,
    log::{Known, UpdateLog},
};

fn fail(disk: &SimulatedDisk, call: Call, error: ErrorKind, lasting: bool) {
    disk.inject(Fault {
        call: Some(call),
        nth: 1,
        error,
        lasting,
    });
}

#[test]
fn a_failed_write_or_sync_stops_the_log_until_it_is_reopened() {
    for call in [Call::Write, Call::Sync] {
        let disk = SimulatedDisk::new(1);
        let mut running = open(&disk);
        running.log_each(0..3);
        running.tell(3).unwrap();
        fail(&disk, call, ErrorKind::Other, false);
        assert!(!running.pump.turn());
        let waited = running.log.wait_durable(LogPosition(4));
        assert!(matches!(waited, Err(TableError::Stopped(_))), "{waited:?}");
        running.log.wait_durable(LogPosition(3)).unwrap();
        let told = running.tell(4);
        assert!(matches!(told, Err(TableError::Stopped(_))), "{told:?}");
        assert_eq!(all(&running.log), [0, 1, 2]);
        drop(running);
        let mut running = open(&disk.crash(5));
        let found = all(&running.log);
        assert!(found == [0, 1, 2] || found == [0, 1, 2, 3], "{found:?}");
        running.log_each(4..5);
    }
}

/// A log with its thread.
fn with_thread(disk: &SimulatedDisk, options: LogOptions) -> UpdateLog {
    let tables = super::fixture::tables();
    let log = UpdateLog::open(
        &disk.disk(),
        super::fixture::dir(),
        options,
        &tables,
        Known::default(),
    );
    let log = log.unwrap();
    log.start().unwrap();
    log
}

fn tell(sink: &dyn UpdateSink, number: u64) -> Result<(), TableError> {
    let (key, value) = (number.to_string(), format!("value {number}"));
    sink.updated(put(key.as_bytes(), value.as_bytes()), at(number * 10))
}

#[test]
fn a_full_disk_refuses_before_anything_is_lost_and_clears_itself() {
    let disk = SimulatedDisk::new(1);
    let log = with_thread(&disk, tiny());
    let sink = log.sink(0);
    disk.set_capacity(Some(disk.used() + 9000));
    let mut told = 0;
    let refused = loop {
        match tell(&*sink, told) {
            Ok(()) => told += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, TableError::Full), "{refused:?}");
    assert!(told > 10, "{told}");
    // All that was taken has its place.
    log.wait_durable(log.position()).unwrap();
    assert_eq!(all(&log), (0..told).collect::<Vec<_>>());
    assert!(matches!(tell(&*sink, told), Err(TableError::Full)));
    disk.set_capacity(None);
    // The log's thread may have been refused room just before there was some again.
    while let Err(error) = tell(&*sink, told) {
        assert!(matches!(error, TableError::Full), "{error:?}");
    }
    for number in told + 1..told + 50 {
        tell(&*sink, number).unwrap();
    }
    log.close().unwrap();
    assert_eq!(all(&log), (0..told + 50).collect::<Vec<_>>());
    drop(log);
    assert_eq!(all(&open(&disk).log), (0..told + 50).collect::<Vec<_>>());
}

#[test]
fn an_update_larger_than_the_queue_gets_room_of_its_own() {
    let disk = SimulatedDisk::new(1);
    let log = with_thread(&disk, tiny());
    let sink = log.sink(0);
    let long = vec![b'x'; 10_000];
    for _ in 0..5 {
        sink.updated(put(b"k", &long), at(1)).unwrap();
    }
    disk.set_capacity(Some(disk.used() + 1000));
    let longer = vec![b'x'; 100_000];
    let refused = sink.updated(put(b"k", &longer), at(1));
    assert!(matches!(refused, Err(TableError::Full)), "{refused:?}");
    log.close().unwrap();
    assert_eq!(log.durable(), LogPosition(5));
}

#[test]
fn any_call_may_fail_and_nothing_durable_is_lost() {
    for nth in 1.. {
        let disk = SimulatedDisk::new(nth);
        disk.fail_nth_call(nth, ErrorKind::Other);
        let mut durable = 0;
        let mut reached_the_end = false;
        let lived = open_with(&disk, tiny(), Known::default()).map(|mut running| {
            for number in 0..30 {
                if running.tell(number).is_err() || !running.pump.turn() {
                    return;
                }
                durable = running.log.durable().0;
            }
            running.log.checkpointed(LogPosition(0)).unwrap();
            reached_the_end = true;
        });
        if let Err(error) = lived {
            let of_disk = matches!(error, TableError::Io(_) | TableError::Stopped(_));
            assert!(of_disk, "{error:?}");
        }
        let calls = disk.calls(None);
        let running = open(&disk.crash(nth));
        let found = all(&running.log);
        assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>());
        assert!(found.len() as u64 >= durable, "call {nth}");
        if reached_the_end && calls < nth {
            return;
        }
    }
}
