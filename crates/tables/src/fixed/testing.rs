//! The body of the fixed table's fuzz target.

use std::path::Path;

use hikyaku_vfs::SimulatedDisk;

use super::{
    layout::{HEADER_LEN, Layout},
    options::FixedOptions,
    table::FixedTable,
};
use crate::{Change, Interval, Stamp, Table, Update};

/// Reads bytes as the file of a fixed table, and changes it in every way there is. They may be
/// anything, also behind a header that is in order: nothing panics, and each error is as good as an
/// answer.
pub fn fuzz_fixed_table(bytes: &[u8]) {
    use_table(bytes);
    // A width of the fuzzer's choice, and its bytes behind the part that a checksum guards.
    let (width, rest) = bytes.split_at(bytes.len().min(2));
    let width = width
        .iter()
        .fold(1, |sum, byte| sum * 3 + usize::from(*byte));
    if let Ok(layout) = Layout::new(width) {
        let mut file = layout.encode();
        file.extend(rest);
        file.resize(file.len().max(HEADER_LEN), 0);
        use_table(&file);
        // The same as records.
        file.truncate(HEADER_LEN);
        file.resize(layout.records_offset as usize, 0);
        file.extend(rest);
        use_table(&file);
    }
}

fn use_table(bytes: &[u8]) {
    let path = Path::new("/fuzz.fixed");
    let disk = SimulatedDisk::new(1).disk();
    let written = disk
        .create_new(path)
        .and_then(|mut file| file.write_all_at(bytes, 0));
    let options = FixedOptions {
        width: 8,
        size_limit: 1 << 17,
    };
    let Ok(table) = written
        .map_err(crate::TableError::Io)
        .and_then(|()| FixedTable::open(&disk, path, options, None))
    else {
        return;
    };
    let mut value = Vec::new();
    let keys = table.keys_after(None, 64).unwrap_or_default();
    let _ = (table.count(), table.last(), table.range(&Interval::ALL, 9));
    for key in keys.iter().map(Vec::as_slice).chain([&b"1"[..], b"77"]) {
        let _ = Table::get(&table, key, 0, &mut value);
        for change in [
            Change::Append(b"x"),
            Change::Rotate {
                bytes: b"yz",
                size: None,
            },
            Change::Put(b"v"),
            Change::Remove,
        ] {
            let _ = table.update(&Update::new(key, change), Stamp::default());
        }
    }
    let _ = table.copy(Path::new("/copy.fixed"));
    let _ = table.optimise("width=9");
    let _ = table.vanish(Stamp::default());
    assert_eq!(table.first(), None);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_table_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
            fuzz_fixed_table(&bytes);
        }

        #[test]
        fn sparse_bytes_are_a_table_or_an_error(
            width in any::<[u8; 2]>(),
            places in prop::collection::vec((0..9000_usize, any::<u8>()), 0..40),
        ) {
            let mut bytes = vec![0; 9000];
            bytes[..2].copy_from_slice(&width);
            for (place, byte) in places {
                bytes[place] = byte;
            }
            fuzz_fixed_table(&bytes);
        }
    }
}
