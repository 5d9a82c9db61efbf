//! A log on a simulated disk, and what was written to it.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use hikyaku_store::{Hider, RemovalReason, Sequence};
use hikyaku_vfs::{Disk, SimulatedDisk};

use crate::log::{
    Checkpoint, LogError, LogOptions, LogPosition, LogWriter, Record, Recovered, recover,
};

pub(super) type Written = (LogPosition, Sequence, Record);

/// Small enough that a test passes many files and chunks.
pub(super) const SMALL: LogOptions = LogOptions {
    chunk_bytes: 2048,
    file_bytes_max: 4096,
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

/// A record whose content follows from its number.
pub(super) fn record(sequence: u64) -> Record {
    let targets = (0..sequence % 5).map(|back| Sequence(sequence.saturating_sub(back * 7)));
    let targets = targets.collect();
    match sequence % 7 {
        3 => Record::Removed {
            reason: RemovalReason::Deleted,
            targets,
        },
        4 => Record::Hidden {
            by: Hider(sequence as u32),
            targets,
        },
        5 => Record::Unhidden {
            by: Hider(sequence as u32),
            targets,
        },
        _ => {
            let text = format!(
                "{{\"{sequence}\":\"{}\"}}",
                "x".repeat(sequence as usize * 37 % 300)
            );
            Record::Event {
                vanish: sequence.is_multiple_of(2),
                json: Bytes::from(text),
            }
        }
    }
}

/// Appends and commits `count` records in one commit.
pub(super) fn commit(
    writer: &mut LogWriter,
    count: u64,
    sync: bool,
) -> Result<Vec<Written>, LogError> {
    let mut written = Vec::new();
    let first = writer.last_sequence().0 + 1;
    for sequence in first..first + count {
        let record = record(sequence);
        let position = writer.append(&record, Sequence(sequence))?;
        written.push((position, Sequence(sequence), record));
    }
    writer.commit(sync)?;
    Ok(written)
}

pub(super) fn disk(seed: u64) -> SimulatedDisk {
    SimulatedDisk::new(seed)
}
