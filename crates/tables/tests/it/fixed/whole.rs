//! Operations on the whole table: reopening, vanishing, copying, changing the width.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use hikyaku_tables::{Change, Effect, FixedTable, Outcome, Stamp, Table, TableError, UpdateSink};

use super::{STAMP, change, open, options, put, real, records, simulated, table, value};

#[test]
fn a_table_is_found_as_it_was_left() {
    let disk = simulated(1).disk();
    let first = open(&disk, options(8, 1 << 20));
    put(&first, 5, b"five");
    put(&first, 70_000, b"far");
    drop(first);
    // Its width is its own.
    let again = open(&disk, options(99, 1 << 20));
    assert_eq!(again.width(), 8);
    assert_eq!(again.count(), 2);
    assert_eq!(
        records(&again),
        [(5, b"five".to_vec()), (70_000, b"far".to_vec())]
    );
}

#[test]
fn one_process_at_a_time_has_it() {
    let disk = simulated(1).disk();
    let _first = open(&disk, options(8, 1 << 20));
    let second = FixedTable::open(&disk, Path::new("/t/a.fixed"), options(8, 1 << 20), None);
    let error = second.unwrap_err();
    assert!(
        matches!(&error, TableError::Io(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    );
}

#[test]
fn the_limit_can_be_raised_and_does_not_cut_what_is_there() {
    let disk = simulated(1).disk();
    let first = open(&disk, options(8, 100_000));
    let last = first.limit();
    put(&first, last, b"last");
    drop(first);
    let smaller = open(&disk, options(8, 20_000));
    assert_eq!(value(&smaller, last).unwrap(), b"last");
    drop(smaller);
    let larger = open(&disk, options(8, 200_000));
    put(&larger, last + 1, b"more");
    assert_eq!(larger.count(), 2);
    let small = FixedTable::open(&disk, Path::new("/t/b.fixed"), options(8, 8192), None);
    assert!(matches!(small, Err(TableError::Syntax(_))));
}

#[test]
fn a_vanished_table_is_empty_and_takes_records_again() {
    let disk = simulated(1).disk();
    let table = open(&disk, options(8, 1 << 20));
    for key in 1..=3000 {
        put(&table, key, b"value");
    }
    table.vanish(STAMP).unwrap();
    assert_eq!(table.count(), 0);
    assert_eq!(value(&table, 7), None);
    assert_eq!(table.first(), None);
    put(&table, 7, b"new");
    drop(table);
    let again = open(&disk, options(8, 1 << 20));
    assert_eq!(records(&again), [(7, b"new".to_vec())]);
}

#[test]
fn a_sparse_table_takes_little_of_a_real_disk_and_gives_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.fixed");
    let table = FixedTable::open(&real(), &path, options(8, 1 << 30), None).unwrap();
    for key in [1, 1_000_000, table.limit()] {
        put(&table, key, b"12345678");
    }
    assert!(table.bytes() <= 512 << 10, "{} bytes", table.bytes());
    table.vanish(STAMP).unwrap();
    let empty = table.bytes();
    assert!(empty <= 64 << 10, "{empty} bytes");
    put(&table, 500_000, b"x");
    assert_eq!(records(&table), [(500_000, b"x".to_vec())]);
}

#[test]
fn a_copy_is_a_table() {
    let disk = simulated(1).disk();
    let table = open(&disk, options(8, 1 << 20));
    for key in (1..5000).step_by(3) {
        put(&table, key, &key.to_le_bytes());
    }
    table.copy(Path::new("/t/copy.fixed")).unwrap();
    put(&table, 1, b"later");
    let copy = FixedTable::open(&disk, Path::new("/t/copy.fixed"), options(8, 1 << 20), None);
    let copy = copy.unwrap();
    assert_eq!(copy.count(), table.count());
    assert_eq!(value(&copy, 1).unwrap(), 1_u64.to_le_bytes());
    assert_eq!(records(&copy)[1..], records(&table)[1..]);
    let again = table.copy(Path::new("/t/copy.fixed"));
    assert!(
        matches!(again, Err(TableError::Io(error)) if error.kind() == std::io::ErrorKind::AlreadyExists)
    );
    assert_eq!(records(&copy).len() as u64, table.count());
}

#[test]
fn the_width_changes_and_the_records_stay() {
    for real_disk in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (disk, dir) = if real_disk {
            (real(), folder.path())
        } else {
            (simulated(1).disk(), Path::new("/t"))
        };
        let path = dir.join("a.fixed");
        let open = || FixedTable::open(&disk, &path, options(8, 1 << 20), None).unwrap();
        let table = open();
        for key in 1..=2000 {
            put(&table, key, &key.to_le_bytes());
        }
        put(&table, 9, b"");
        let before = records(&table);
        let refused = table.optimise("width=7");
        assert!(matches!(
            refused,
            Err(TableError::ValueTooLong { limit: 7 })
        ));
        assert!(table.optimise("wide").is_err());
        assert_eq!((table.width(), records(&table) == before), (8, true));
        table.optimise("width=300").unwrap();
        assert_eq!(table.width(), 300);
        assert_eq!(records(&table), before);
        put(&table, 1, &[7; 300]);
        table.optimise("").unwrap();
        assert_eq!(value(&table, 1).unwrap(), [7; 300]);
        assert_eq!(table.count(), 2000);
        drop(table);
        let table = open();
        assert_eq!((table.width(), table.count()), (300, 2000));
        assert_eq!(records(&table)[1..], before[1..]);
        // A limit that the wider records would pass.
        assert!(matches!(
            table.optimise("width=4000"),
            Err(TableError::KeyTooLarge { .. })
        ));
        assert_eq!(records(&table)[1..], before[1..]);
    }
}

#[derive(Debug, Default)]
struct Noted {
    effects: Mutex<Vec<String>>,
    refuses: std::sync::atomic::AtomicBool,
}

impl UpdateSink for Noted {
    fn updated(&self, effect: Effect<'_>, stamp: Stamp) -> Result<(), TableError> {
        if self.refuses.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(TableError::Full);
        }
        let text = match effect {
            Effect::Put { key, value, .. } => format!(
                "{}={}",
                String::from_utf8_lossy(key),
                String::from_utf8_lossy(value)
            ),
            Effect::Remove { key } => format!("-{}", String::from_utf8_lossy(key)),
            Effect::Vanish => "vanish".to_owned(),
        };
        let mut effects = self.effects.lock().unwrap();
        effects.push(format!("{text}@{}", stamp.at_us));
        Ok(())
    }
}

#[test]
fn the_sink_hears_of_each_update_and_may_refuse_it() {
    let disk = simulated(1).disk();
    let noted = Arc::new(Noted::default());
    let sink = Arc::clone(&noted) as Arc<dyn UpdateSink>;
    let path = Path::new("/t/a.fixed");
    let table = FixedTable::open(&disk, path, options(8, 1 << 20), Some(sink)).unwrap();
    put(&table, 1, b"one");
    change(&table, 1, Change::Append(b"!")).unwrap();
    change(&table, 2, Change::Remove).unwrap();
    change(&table, 1, Change::Remove).unwrap();
    table.apply(Effect::Remove { key: b"1" }, STAMP).unwrap();
    put(&table, 3, b"three");
    table.vanish(STAMP).unwrap();
    put(&table, 4, b"four");
    let heard = [
        "1=one@1",
        "1=one!@1",
        "-1@1",
        "3=three@1",
        "vanish@1",
        "4=four@1",
    ];
    assert_eq!(*noted.effects.lock().unwrap(), heard);
    noted
        .refuses
        .store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(
        table.put(4, b"five", STAMP),
        Err(TableError::Full)
    ));
    assert!(matches!(
        change(&table, 4, Change::Remove),
        Err(TableError::Full)
    ));
    assert!(matches!(
        table.put(5, b"five", STAMP),
        Err(TableError::Full)
    ));
    assert!(matches!(table.vanish(STAMP), Err(TableError::Full)));
    assert_eq!(records(&table), [(4, b"four".to_vec())]);
    assert_eq!(table.count(), 1);
}

#[test]
fn a_full_disk_is_an_error_that_clears_itself() {
    let simulated = simulated(1);
    let table = open(&simulated.disk(), options(8, 1 << 20));
    put(&table, 1, b"one");
    simulated.set_capacity(Some(simulated.used()));
    assert!(matches!(
        table.put(50_000, b"x", STAMP),
        Err(TableError::Full)
    ));
    assert!(matches!(
        change(&table, 50_000, Change::Put(b"x")),
        Err(TableError::Full)
    ));
    put(&table, 1, b"ONE");
    simulated.set_capacity(None);
    put(&table, 50_000, b"x");
    assert_eq!(
        records(&table),
        [(1, b"ONE".to_vec()), (50_000, b"x".to_vec())]
    );
}

#[test]
fn an_effect_can_be_carried_out_twice() {
    let table = table(8);
    let effect = Effect::Put {
        key: b"7",
        value: b"seven",
        attributes: hikyaku_tables::Attributes::default(),
    };
    table.apply(effect, STAMP).unwrap();
    table.apply(effect, STAMP).unwrap();
    assert_eq!(table.count(), 1);
    assert_eq!(change(&table, 7, Change::Remove).unwrap(), Outcome::Removed);
}
