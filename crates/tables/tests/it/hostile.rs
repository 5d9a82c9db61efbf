//! Files that no table wrote: an error, never a panic, and never a wrong value.

use std::path::Path;

use hikyaku_tables::{
    Change, KeyedOptions, KeyedTable, Kind, Stamp, Table, TableError, Update, open,
};
use hikyaku_vfs::SimulatedDisk;
use proptest::prelude::*;

const TABLE: &str = "/t.hash";
const JOURNAL: &str = "/t.hash.journal";

fn write(disk: &SimulatedDisk, path: &str, bytes: &[u8]) {
    let disk = disk.disk();
    let path = Path::new(path);
    let mut file = disk.create_new(path).or_else(|_| disk.open(path)).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}

fn read(disk: &SimulatedDisk, path: &str) -> Vec<u8> {
    let file = disk.disk().open(Path::new(path)).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn value_of(i: u32) -> Vec<u8> {
    vec![i as u8; 200 + (i as usize * 37) % 4000]
}

/// Makes a table of 60 records; the second half is in the journal alone.
fn disk_with_table() -> SimulatedDisk {
    let disk = SimulatedDisk::new(7);
    for half in 0..2 {
        let options = KeyedOptions::default();
        let path = Path::new(TABLE);
        let table = KeyedTable::open(&disk.disk(), path, Kind::Hash, options, None).unwrap();
        for i in 30 * half..30 * half + 30 {
            let key = format!("key {i}").into_bytes();
            let value = value_of(i);
            let update = Update::new(&key, Change::Put(&value));
            table.update(&update, Stamp::default()).unwrap();
        }
        if half == 1 {
            return disk.kill();
        }
    }
    unreachable!("the second half is the last");
}

/// Opens the table and does everything with it: all that it answers must be errors or true.
fn use_table(disk: &SimulatedDisk) -> Result<u64, TableError> {
    let table = open(&disk.disk(), Path::new("/"), "t.hash", None)?;
    let mut wrong = 0;
    let mut result = Ok(());
    for i in 0..60 {
        let key = format!("key {i}").into_bytes();
        let mut value = Vec::new();
        match table.get(&key, 0, &mut value) {
            Ok(Some(_)) => assert_eq!(value, value_of(i), "a wrong value"),
            Ok(None) => wrong += 1,
            Err(error) => result = Err(error),
        }
    }
    let keys = table.keys_after(None, 1000).map(drop);
    let put = table.update(
        &Update::new(b"key 7", Change::Append(b"x")),
        Stamp::default(),
    );
    let put = put.map(drop);
    let swept = table.sweep(1, 1000).map(drop);
    let copied = table.copy(Path::new("/copy.hash"));
    let optimised = table.optimise("");
    let vanished = table.vanish(Stamp::default());
    table.count();
    drop(table);
    for one in [result, keys, put, swept, copied, optimised, vanished] {
        one?;
    }
    Ok(wrong)
}

fn is_typed(result: &Result<u64, TableError>) -> bool {
    matches!(
        result,
        Ok(_) | Err(TableError::Corrupt(_) | TableError::Io(_))
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_no_table(
        bytes in proptest::collection::vec(any::<u8>(), 1..9000),
        begins_right in any::<bool>(),
    ) {
        let disk = SimulatedDisk::new(1);
        let mut file = if begins_right { read(&disk_with_table(), TABLE)[..64].to_vec() } else { vec![] };
        file.extend(bytes);
        write(&disk, TABLE, &file);
        let result = use_table(&disk);
        prop_assert!(matches!(result, Err(TableError::Corrupt(_))), "{result:?}");
    }

    #[test]
    fn random_bytes_are_no_journal(bytes in proptest::collection::vec(any::<u8>(), 8..9000)) {
        let disk = disk_with_table();
        write(&disk, JOURNAL, &bytes);
        let result = use_table(&disk);
        prop_assert!(matches!(result, Err(TableError::Corrupt(_))), "{result:?}");
    }

    #[test]
    fn damaged_bytes_of_the_tree_give_no_wrong_value(
        places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..9),
        is_cut in any::<bool>(),
    ) {
        let disk = disk_with_table();
        // Closed in order: the library then trusts the file.
        drop(open(&disk.disk(), Path::new("/"), "t.hash", None).unwrap());
        let mut file = read(&disk, TABLE);
        for (place, byte) in &places {
            let at = place.index(file.len());
            file[at] = *byte;
        }
        if is_cut {
            file.truncate(places[0].0.index(file.len()));
        }
        write(&disk, TABLE, &file);
        let result = use_table(&disk);
        prop_assert!(is_typed(&result), "{result:?}");
    }
}

/// Every byte of the head of the tree's file, and of its first pages, one after the other.
#[test]
fn each_byte_of_the_head_may_be_wrong() {
    let disk = disk_with_table();
    drop(open(&disk.disk(), Path::new("/"), "t.hash", None).unwrap());
    let good = read(&disk, TABLE);
    for at in (0..400).chain((400..good.len()).step_by(997)) {
        let disk = disk.fork();
        let mut file = good.clone();
        file[at] ^= 0xff;
        write(&disk, TABLE, &file);
        let result = use_table(&disk);
        assert!(is_typed(&result), "byte {at}: {result:?}");
    }
}

/// A flip within what was durable is damage; in the last frame it can't be told from a torn end.
#[test]
fn a_flipped_bit_of_the_journal_is_found() {
    let disk = disk_with_table();
    let good = read(&disk, JOURNAL);
    let frames: Vec<usize> = (8..good.len())
        .step_by(8)
        .filter(|at| good[*at..].starts_with(b"HKJF"))
        .collect();
    assert_eq!(frames.len(), 30);
    let mut found = 0;
    for at in (0..frames[29]).step_by(97) {
        let disk = disk.fork();
        assert!(disk.flip_bit(Path::new(JOURNAL), at as u64 * 8 + 3));
        match use_table(&disk) {
            Err(TableError::Corrupt(_)) => found += 1,
            // The filling between two frames.
            Ok(0) => {}
            result => panic!("byte {at}: {result:?}"),
        }
    }
    assert!(found > frames[29] / 97 * 9 / 10);
    let torn = disk.fork();
    assert!(torn.flip_bit(Path::new(JOURNAL), frames[29] as u64 * 8 + 777));
    assert_eq!(use_table(&torn).unwrap(), 1);
    assert_eq!(use_table(&disk).unwrap(), 0);
}

#[test]
fn a_journal_that_misses_frames_is_damage() {
    let disk = disk_with_table();
    let good = read(&disk, JOURNAL);
    let second = (9..good.len())
        .find(|at| good[*at..].starts_with(b"HKJF"))
        .unwrap();
    let cut = [&good[..8], &good[second..]].concat();
    write(&disk, JOURNAL, &cut);
    assert!(matches!(use_table(&disk), Err(TableError::Corrupt(_))));
}

#[test]
fn a_file_of_another_kind_is_no_table() {
    let disk = SimulatedDisk::new(1);
    // A database of the same library, made by another program.
    let path = std::env::temp_dir().join(format!("hikyaku-other-{}.redb", std::process::id()));
    let definition: redb::TableDefinition<'_, u64, u64> = redb::TableDefinition::new("records");
    let database = redb::Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction
        .open_table(definition)
        .unwrap()
        .insert(1, 1)
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    write(&disk, TABLE, &bytes);
    assert!(matches!(use_table(&disk), Err(TableError::Corrupt(_))));
}

#[test]
fn an_empty_file_is_no_table() {
    let disk = SimulatedDisk::new(1);
    write(&disk, TABLE, b"");
    assert!(matches!(use_table(&disk), Err(TableError::Corrupt(_))));
}
