//! A log on a simulated disk, whose thread's work the test does.

use std::{path::Path, sync::Arc, time::Duration};

use hikyaku_vfs::SimulatedDisk;

use crate::{
    Attributes, Effect, Follower, LogOptions, LogPosition, Stamp, TableError, UpdateLog,
    UpdateSink,
    log::{Known, pump::Pump},
};

pub(super) fn dir() -> &'static Path {
    Path::new("/log")
}

/// This server's number.
pub(super) const SERVER: u32 = 7;

/// Options under which a handful of updates fill a file.
pub(super) fn tiny() -> LogOptions {
    LogOptions {
        queue_bytes_max: 1024,
        linger: Duration::ZERO,
        file_bytes_max: 600,
        ..LogOptions::new(SERVER)
    }
}

pub(super) struct Running {
    pub(super) log: UpdateLog,
    pub(super) pump: Pump,
    pub(super) sink: Arc<dyn UpdateSink>,
}

pub(super) fn tables() -> Vec<String> {
    vec!["a".to_owned(), "b".to_owned()]
}

pub(super) fn open_with(
    disk: &SimulatedDisk,
    options: LogOptions,
    known: Known,
) -> Result<Running, TableError> {
    let log = UpdateLog::open(&disk.disk(), dir(), options, &tables(), known)?;
    let pump = log.prepare()?.expect("a log is prepared once");
    let sink = log.sink(0);
    Ok(Running { log, pump, sink })
}

pub(super) fn open(disk: &SimulatedDisk) -> Running {
    open_with(disk, tiny(), Known::default()).unwrap()
}

pub(super) fn at(at_us: u64) -> Stamp {
    Stamp { at_us, origin: 0 }
}

pub(super) fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Effect<'a> {
    Effect::Put {
        key,
        value,
        attributes: Attributes::default(),
    }
}

impl Running {
    /// Tells of the update of a number, which says the number in key and value.
    pub(super) fn tell(&self, number: u64) -> Result<(), TableError> {
        let (key, value) = (number.to_string(), format!("value {number}"));
        let effect = put(key.as_bytes(), value.as_bytes());
        self.sink.updated(effect, at(number * 10))
    }

    /// Tells of updates and makes each durable.
    pub(super) fn log_each(&mut self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            self.tell(number).unwrap();
            assert!(self.pump.turn());
        }
    }
}

/// Returns the numbers of all updates up to the end.
pub(super) fn numbers(follower: &mut Follower) -> Vec<u64> {
    let mut found = Vec::new();
    while let Some(logged) = follower.next_update().unwrap() {
        assert_eq!(logged.table, "a");
        let Effect::Put { key, value, .. } = logged.effect else {
            panic!("{logged:?}");
        };
        let number = std::str::from_utf8(key).unwrap().parse().unwrap();
        assert_eq!(value, format!("value {number}").as_bytes());
        let stamp = Stamp {
            at_us: number * 10,
            origin: SERVER,
        };
        assert_eq!(logged.stamp, stamp);
        found.push(number);
    }
    found
}

pub(super) fn all(log: &UpdateLog) -> Vec<u64> {
    let first = log.first_position();
    numbers(&mut log.follow(first).unwrap())
}

pub(super) fn known(position: LogPosition, file: u32) -> Known {
    Known {
        position,
        file,
        unlogged: false,
    }
}
