//! Files that were written by earlier versions, and files that are damaged.

use std::path::Path;

use hikyaku_tables::{FixedTable, TableError};
use hikyaku_vfs::{Disk, SimulatedDisk};

use super::{open, options, put, records, simulated, value};

/// Version 1, width 12, left in order.
const VERSION_1: &[u8] = include_bytes!("../../../testdata/version-1.fixed");

fn with_file(bytes: &[u8]) -> SimulatedDisk {
    let simulated = simulated(1);
    let disk: Disk = simulated.disk();
    let mut file = disk.create_new(Path::new("/t/a.fixed")).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    simulated
}

fn refused(bytes: &[u8]) -> String {
    let disk = with_file(bytes).disk();
    match FixedTable::open(&disk, Path::new("/t/a.fixed"), options(8, 1 << 20), None) {
        Err(TableError::Corrupt(text)) => text,
        other => panic!("opened as {other:?}"),
    }
}

/// The records of the file in testdata.
fn version_1() -> Vec<(u64, Vec<u8>)> {
    [
        (1, &b"first"[..]),
        (2, b""),
        (16, b"sixteen"),
        (17, &[0; 12]),
        (300, b"three hundre"),
    ]
    .map(|(key, value)| (key, value.to_vec()))
    .to_vec()
}

/// Writes the file anew, when there is another version: it is never written over.
#[test]
#[ignore = "writes a file into testdata"]
fn write_testdata() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.fixed");
    let table = FixedTable::open(&super::real(), &path, options(12, 1 << 14), None).unwrap();
    for (key, value) in version_1() {
        put(&table, key, &value);
    }
    drop(table);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(
        concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/version-1.fixed"),
        bytes,
    )
    .unwrap();
}

#[test]
fn a_file_of_version_1_is_read() {
    let table = open(&with_file(VERSION_1).disk(), options(8, 1 << 20));
    assert_eq!(table.width(), 12);
    assert_eq!(hikyaku_tables::Table::count(&table), 5);
    assert_eq!(records(&table), version_1());
}

#[test]
fn a_damaged_header_is_named() {
    assert_eq!(
        refused(b""),
        "/t/a.fixed: it has 0 bytes, a fixed table has at least 4096"
    );
    let damaged = |at: usize| {
        let mut bytes = VERSION_1.to_vec();
        bytes[at] ^= 1;
        refused(&bytes)
    };
    assert!(damaged(0).contains("bytes 0 to 7"), "{}", damaged(0));
    assert!(
        damaged(12).contains("the checksum at offset 36"),
        "{}",
        damaged(12)
    );
}

#[test]
fn a_damaged_count_is_counted_again() {
    let mut bytes = VERSION_1.to_vec();
    bytes[64] = 99;
    let table = open(&with_file(&bytes).disk(), options(8, 1 << 20));
    assert_eq!(hikyaku_tables::Table::count(&table), 5);
}

#[test]
fn a_damaged_length_is_an_error_for_its_record_alone() {
    let mut bytes = VERSION_1.to_vec();
    // Record 16 is 15 times 13 bytes behind the first one.
    let offset = 8192 + 15 * 13;
    assert_eq!(bytes[offset], 7);
    bytes[offset] = 200;
    let table = open(&with_file(&bytes).disk(), options(8, 1 << 20));
    let error = table.get(16, &mut [0; 12]).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("/t/a.fixed: the length at offset {offset} is 200, expected at most 12")
    );
    assert_eq!(value(&table, 17).unwrap(), [0; 12]);
    put(&table, 16, b"healed");
    assert_eq!(value(&table, 16).unwrap(), b"healed");
    assert_eq!(hikyaku_tables::Table::count(&table), 5);
}
