//! The bodies of fuzz targets, which also run as property tests.

use std::path::Path;

use hikyaku_vfs::{Disk, SimulatedDisk};

use super::{KeyedOptions, KeyedTable, entry::Entry, journal::Journal};
use crate::{Change, Kind, Stamp, Table, TableError, Update};

fn write(disk: &Disk, path: &Path, bytes: &[u8]) {
    let written = disk
        .create_new(path)
        .and_then(|mut file| file.write_all_at(bytes, 0));
    assert!(written.is_ok(), "the simulated disk takes every file");
}

/// Reads bytes as the frames of a journal: a typed error or whole changes, never a panic.
pub fn fuzz_keyed_journal(bytes: &[u8]) {
    let disk = SimulatedDisk::new(1).disk();
    let path = Path::new("/fuzz.journal");
    // The first bytes say how often the magic number is right, so that most inputs come further.
    let file = match bytes.split_first() {
        Some((0, rest)) => rest.to_vec(),
        _ => [b"HKYJRNL1", bytes].concat(),
    };
    write(&disk, path, &file);
    let mut last = 0;
    let result = Journal::open(&disk, path, 0, |sequence, body| {
        assert_eq!(sequence, last + 1, "frames come in order");
        last = sequence;
        let mut rest = body;
        while let Some((_, behind)) = Entry::read(rest) {
            rest = behind;
        }
        Ok(())
    });
    assert!(
        matches!(result, Ok(_) | Err(TableError::Corrupt(_))),
        "not told as damage"
    );
}

/// Reads bytes as a table's file: a typed error or a table, never a panic that leaves it.
pub fn fuzz_keyed_table(bytes: &[u8]) {
    let disk = SimulatedDisk::new(1).disk();
    let path = Path::new("/fuzz.ordered");
    write(&disk, path, bytes);
    let options = KeyedOptions::default();
    let Ok(table) = KeyedTable::open(&disk, path, Kind::Ordered, options, None) else {
        return;
    };
    // Whatever they answer: what is damaged may be found by any of them.
    let _ = table.keys_after(None, 1000);
    let _ = table.get(b"key", 0, &mut Vec::new());
    let _ = table.update(&Update::new(b"key", Change::Append(b"x")), Stamp::default());
    let _ = table.sweep(1, 1000);
    let _ = table.vanish(Stamp::default());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes that look like a frame: its head is right but for the checksum, which may be.
    fn frame() -> impl Strategy<Value = Vec<u8>> {
        let body = proptest::collection::vec(0_u8..4, 0..60);
        (body, 0_u64..4, 0_u64..4, any::<bool>()).prop_map(|(body, sequence, synced, is_right)| {
            let mut frame = b"HKJF".to_vec();
            frame.extend((body.len() as u32).to_le_bytes());
            frame.extend(sequence.to_le_bytes());
            frame.extend(synced.to_le_bytes());
            frame.extend([0; 8]);
            frame.extend(&body);
            let checksum = if is_right { crc32fast::hash(&frame) } else { 7 };
            frame[24..28].copy_from_slice(&checksum.to_le_bytes());
            frame.resize(frame.len().next_multiple_of(8), 0);
            frame
        })
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_journal_or_damage(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            fuzz_keyed_journal(&bytes);
        }

        #[test]
        fn any_frames_are_a_journal_or_damage(frames in proptest::collection::vec(frame(), 0..6)) {
            fuzz_keyed_journal(&frames.concat());
        }

        #[test]
        fn any_bytes_are_a_table_or_damage(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            fuzz_keyed_table(&bytes);
        }
    }
}
