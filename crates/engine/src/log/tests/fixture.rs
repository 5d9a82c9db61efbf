//! A log on a simulated disk, and what was written to it.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use hikyaku_store::{Hider, RemovalReason, Sequence};
use hikyaku_vfs::Disk;

use crate::log::{
    Checkpoint, LogError, LogOptions, LogPosition, LogWriter, Record, recover, recovery::Recovered,
};

pub(super) type Written = (LogPosition, Sequence, Record);

/// Small enough that a test passes many files and chunks.
pub(super) const SMALL: LogOptions = LogOptions {
    chunk_bytes: 1024,
    file_bytes_max: 3000,
};

pub(super) fn dir() -> &'static Path {
    Path::new("/store/log")
}

pub(super) fn file(number: u32) -> PathBuf {
    dir().join(format!("{number:08}.log"))
}

/// Opens the log with all records there are.
pub(super) fn open(disk: &Disk) -> Result<(Recovered, Vec<Written>), LogError> {
    open_from(disk, &Checkpoint::default())
}

pub(super) fn open_from(
    disk: &Disk,
    checkpoint: &Checkpoint,
) -> Result<(Recovered, Vec<Written>), LogError> {
    let mut records = Vec::new();
    let recovered = recover(
        disk,
        dir(),
        SMALL,
        checkpoint,
        |position, sequence, record| {
            records.push((position, sequence, record));
            Ok::<_, LogError>(())
        },
    )?;
    Ok((recovered, records))
}

/// A record whose content follows from two numbers.
pub(super) fn record(sequence: u64, variant: u64) -> Record {
    let targets = (0..sequence % 5).map(|back| Sequence(sequence.saturating_sub(back * 7)));
    let targets = targets.collect();
    let by = Hider(variant as u32);
    match sequence % 7 {
        3 => Record::Removed {
            reason: RemovalReason::Deleted,
            targets,
        },
        4 => Record::Hidden { by, targets },
        5 => Record::Unhidden { by, targets },
        _ => {
            let filler = "x".repeat((sequence * 37 + variant) as usize % 300);
            Record::Event {
                vanish: sequence.is_multiple_of(2),
                json: Bytes::from(format!(r#"{{"{sequence}":"{variant}{filler}"}}"#)),
            }
        }
    }
}

pub(super) fn event(json: impl Into<Bytes>) -> Record {
    Record::Event {
        vanish: false,
        json: json.into(),
    }
}

/// Appends and commits `count` records in one commit.
pub(super) fn commit(
    writer: &mut LogWriter,
    count: u64,
    sync: bool,
) -> Result<Vec<Written>, LogError> {
    let written = append(writer, count, 0)?;
    writer.commit(sync)?;
    Ok(written)
}

pub(super) fn append(
    writer: &mut LogWriter,
    count: u64,
    variant: u64,
) -> Result<Vec<Written>, LogError> {
    let first = writer.last_sequence().0 + 1;
    let written = (first..first + count).map(|sequence| {
        let record = record(sequence, variant);
        let position = writer.append(&record, Sequence(sequence))?;
        Ok((position, Sequence(sequence), record))
    });
    written.collect()
}

/// Commits one by one, and seals whenever the file is full, until the active file has this number.
pub(super) fn fill(log: &mut Recovered, until_file: u32) -> Vec<Written> {
    let mut written = Vec::new();
    while log.writer.end().file < until_file {
        written.extend(commit(&mut log.writer, 2, true).unwrap());
        if log.writer.is_full() {
            log.files = log.files.with(log.writer.seal().unwrap());
        }
    }
    written
}

/// The dice of a simulation (splitmix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}
