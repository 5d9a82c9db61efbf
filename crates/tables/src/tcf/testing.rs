//! The body of the fuzz target, which also runs as a property test.

use std::path::Path;

use hikyaku_vfs::{SimulatedDisk, Vfs};

use super::TcfReader;
use crate::TableError;

/// Reads bytes as a `.tcf` file: a typed error or records that its header allows, never a panic.
pub fn fuzz_tcf_reader(bytes: &[u8]) {
    let disk = SimulatedDisk::new(1);
    let path = Path::new("/fuzz.tcf");
    let written = disk
        .create_new(path)
        .and_then(|mut file| file.write_all_at(bytes, 0));
    assert!(written.is_ok(), "the simulated disk takes every file");
    let mut reader = match TcfReader::open(&disk, path) {
        Ok(reader) => reader,
        Err(TableError::Corrupt(_)) => return,
        Err(error) => panic!("not told as damage: {error}"),
    };
    let width = reader.header().width as usize;
    let mut value = Vec::new();
    let mut last = 0;
    loop {
        match reader.next(&mut value) {
            Ok(Some(key)) => {
                assert!(key > last && value.len() <= width, "record {key}");
                last = key;
            }
            Ok(None) | Err(TableError::Corrupt(_)) => return,
            Err(error) => panic!("not told as damage: {error}"),
        }
    }
}
