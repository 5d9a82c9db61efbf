//! The body of the log readers' fuzz target.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use hikyaku_vfs::SimulatedDisk;

use super::{
    Checkpoint, LogError, LogOptions, Record,
    header::{FileHeader, file_path},
    recover, salvage,
    sealed::SealedLog,
};

/// Reads hostile bytes as a log file in every way there is: nothing may panic.
pub fn fuzz_log_reader(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    for kind in 0..=5 {
        let _ = Record::decode(kind, 0, &bytes);
    }
    let header = FileHeader {
        file: 1,
        generation: 1,
        previous_len: 0,
        sealed_len: 0,
        first_sequence: hikyaku_store::Sequence(1),
    };
    let with_header = |generation| {
        let header = FileHeader {
            generation,
            ..header
        };
        Bytes::from([&header.encode(), &bytes[..]].concat())
    };
    for generation in [1, 2] {
        for bytes in [bytes.clone(), with_header(generation)] {
            read(&bytes, generation);
            open(&bytes, generation);
        }
    }
}

fn read(bytes: &Bytes, generation: u32) {
    let log = SealedLog::from_bytes(PathBuf::from("fuzzed"), bytes.clone(), 1, generation);
    let Ok(log) = log else { return };
    let _ = log.read_all(|_, _, _| Ok::<_, LogError>(()));
    for offset in (0..bytes.len() as u32).chain([u32::MAX]) {
        let _ = log.read(offset);
    }
}

fn open(bytes: &[u8], generation: u32) {
    let disk = SimulatedDisk::new(0).disk();
    let dir = Path::new("/log");
    let written = disk
        .create_dir_all(dir)
        .and_then(|()| disk.create_new(&file_path(dir, 1, generation)))
        .and_then(|mut file| file.write_all_at(bytes, 0));
    assert!(written.is_ok(), "the simulated disk takes every file");
    for is_last in [true, false] {
        let _ = salvage(&disk, dir, 1, generation, is_last, |_| {});
    }
    let options = LogOptions::default();
    let visit = |_, _, _| Ok::<_, LogError>(());
    let _ = recover(&disk, dir, options, &Checkpoint::default(), visit);
}
