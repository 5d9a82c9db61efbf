//! What is written is what upstream has, and what is read is what was written.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use hikyaku_vfs::{RealDisk, SimulatedDisk, Vfs};
use proptest::{collection::vec, prelude::*};

use super::{ByteOrder, TcfReader, TcfWriter, testing::fuzz_tcf_reader};
use crate::TableError;

type Records = BTreeMap<u64, Vec<u8>>;

fn path() -> &'static Path {
    Path::new("/old.tcf")
}

fn write(disk: &dyn Vfs, width: u32, records: &Records) {
    write_in(ByteOrder::Little, disk, width, records);
}

fn write_in(order: ByteOrder, disk: &dyn Vfs, width: u32, records: &Records) {
    let mut writer = TcfWriter::create(disk, path(), order, width).unwrap();
    for (key, value) in records {
        writer.push(*key, value).unwrap();
    }
    writer.finish(disk).unwrap();
}

fn read(disk: &dyn Vfs, path: &Path) -> Result<Records, TableError> {
    let mut reader = TcfReader::open(disk, path)?;
    let mut records = Records::new();
    let mut value = Vec::new();
    while let Some(key) = reader.next(&mut value)? {
        records.insert(key, value.clone());
    }
    Ok(records)
}

fn bytes(disk: &dyn Vfs) -> Vec<u8> {
    let file = disk.open(path()).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// A file with one record changed after the fact.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Result<Records, TableError> {
    let disk = SimulatedDisk::new(1);
    let records = Records::from([(1, b"one".to_vec()), (3, b"three".to_vec())]);
    write(&disk, 8, &records);
    let mut bytes = bytes(&disk);
    change(&mut bytes);
    disk.remove(path()).unwrap();
    let mut file = disk.create_new(path()).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    read(&disk, path())
}

fn damage(change: impl FnOnce(&mut Vec<u8>)) -> String {
    match changed(change) {
        Err(TableError::Corrupt(said)) => said,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_layout_is_upstreams() {
    let disk = SimulatedDisk::new(1);
    let records = Records::from([(2, b"ab".to_vec()), (3, Vec::new())]);
    write(&disk, 4, &records);
    let bytes = bytes(&disk);
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!(&bytes[..14], b"ToKyO CaBiNeT\n");
    assert_eq!(&bytes[32..34], [2, 0]);
    let numbers: Vec<u64> = (48..96).step_by(8).map(number).collect();
    assert_eq!(numbers, [2, 271, 4, 256 << 20, 2, 3]);
    assert_eq!(&bytes[256..], b"\0\0\0\0\0\x02ab\0\0\0\x01\0\0\0");
}

#[test]
fn a_file_of_debians_tools_is_read_though_its_bytes_are_swapped() {
    let file = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/testdata/debian-narrow.tcf"
    ));
    let reader = TcfReader::open(&RealDisk, &file).unwrap();
    assert_eq!(reader.header().byte_order, ByteOrder::Big);
    assert_eq!(reader.header().width, 5);
    let expected = [
        (3, b"abc".to_vec()),
        (7, Vec::new()),
        (8, b"hello".to_vec()),
    ];
    assert_eq!(read(&RealDisk, &file).unwrap(), Records::from(expected));
}

#[test]
fn damage_names_what_was_expected_and_what_was_found() {
    assert!(damage(|bytes| bytes[0] = b't').contains("magic"));
    assert!(damage(|bytes| bytes[32] = 1).contains("type at byte 32 is 1, expected 2"));
    assert!(damage(|bytes| bytes[64] = 0).contains("width at byte 64"));
    assert!(damage(|bytes| bytes.truncate(100)).contains("fewer than a header's 256"));
    assert!(damage(|bytes| bytes.truncate(270)).contains("cut: it has 270 bytes"));
    assert!(damage(|bytes| bytes[48] = 3).contains("has 2 records, and its header"));
    let said = damage(|bytes| bytes[256] = 9);
    assert!(said.contains("record 1 at byte 256 has a length of 9, and the width is 8"));
}

#[test]
fn counts_of_a_file_that_was_not_closed_are_not_believed() {
    let records = changed(|bytes| {
        bytes[33] |= 1;
        bytes[48] = 0;
        bytes[80..96].fill(0);
    });
    assert_eq!(records.unwrap().len(), 2);
}

#[test]
fn an_unfinished_transaction_is_refused() {
    let disk = SimulatedDisk::new(1);
    write(&disk, 8, &Records::from([(1, b"one".to_vec())]));
    let mut file = disk.open(path()).unwrap();
    file.write_all_at(&[1], 33).unwrap();
    disk.create_new(Path::new("/old.tcf.wal")).unwrap();
    let said = read(&disk, path()).unwrap_err().to_string();
    assert!(said.contains("unfinished transaction"), "{said}");
}

#[test]
fn a_width_that_no_memory_holds_costs_nothing() {
    let disk = SimulatedDisk::new(1);
    write(&disk, i32::MAX as u32, &Records::new());
    assert_eq!(read(&disk, path()).unwrap(), Records::new());
}

#[test]
fn a_value_wider_than_the_file_is_refused() {
    let disk = SimulatedDisk::new(1);
    let mut writer = TcfWriter::create(&disk, path(), ByteOrder::Little, 4).unwrap();
    let refused = writer.push(1, b"12345");
    assert!(matches!(
        refused,
        Err(TableError::ValueTooLong { limit: 4 })
    ));
    assert!(matches!(
        writer.push(0, b""),
        Err(TableError::KeyNotANumber)
    ));
    assert!(matches!(
        writer.push(u64::MAX, b""),
        Err(TableError::KeyTooLarge { .. })
    ));
}

/// Widths of one, two and four bytes of length, and one whose records are larger than a block.
fn widths() -> impl Strategy<Value = u32> {
    prop_oneof![Just(1), Just(255), Just(256), Just(65_536), Just(300_000)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(
        width in widths(),
        order in prop_oneof![Just(ByteOrder::Little), Just(ByteOrder::Big)],
        values in vec((1_u64..200, vec(any::<u8>(), 0..300)), 0..30),
    ) {
        let disk = SimulatedDisk::new(1);
        let records: Records = values
            .into_iter()
            .map(|(key, mut value)| {
                value.truncate(width as usize);
                (key, value)
            })
            .collect();
        write_in(order, &disk, width, &records);
        prop_assert_eq!(read(&disk, path()).unwrap(), records);
    }

    #[test]
    fn hostile_bytes_are_told_as_damage(
        mut bytes in vec(any::<u8>(), 0..600),
        sound in any::<bool>(),
        width in prop_oneof![0_u64..20, any::<u64>()],
    ) {
        if sound && bytes.len() > 96 {
            bytes[..13].copy_from_slice(b"ToKyO CaBiNeT");
            bytes[32] = 2;
            bytes[56..64].fill(0);
            bytes[64..72].copy_from_slice(&width.to_le_bytes());
        }
        fuzz_tcf_reader(&bytes);
    }
}
