//! The table in memory: what it alone promises.

use std::sync::{
    Arc, Barrier, Mutex,
    atomic::{AtomicBool, Ordering},
    mpsc,
};

use hikyaku_tables::{
    Attributes, Change, Condition, Effect, Interval, MemoryOptions, MemoryTable, Outcome, Stamp,
    Table, TableError, Update, UpdateSink,
};

fn at(seconds: u64) -> Stamp {
    Stamp {
        at_us: seconds * 1_000_000,
        origin: 0,
    }
}

fn put(table: &dyn Table, key: &[u8], value: &[u8]) -> Result<Outcome, TableError> {
    table.update(&Update::new(key, Change::Put(value)), at(1))
}

fn value(table: &dyn Table, key: &[u8], now: u64) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    table.get(key, now, &mut value).unwrap().map(|_| value)
}

fn small(limit_bytes: u64) -> MemoryTable {
    let options = MemoryOptions {
        limit_bytes,
        ..MemoryOptions::default()
    };
    MemoryTable::new(options, None)
}

#[test]
fn keys_come_in_order_piece_by_piece() {
    let table = MemoryTable::new(MemoryOptions::default(), None);
    let mut names: Vec<_> = (0..3000_u32)
        .map(|i| format!("k{i:x}").into_bytes())
        .collect();
    for name in &names[..2000] {
        put(&table, name, b"").unwrap();
    }
    assert_eq!(table.keys_after(None, 1).unwrap().len(), 1);
    // From now on there is an order to keep up.
    for name in &names[2000..] {
        put(&table, name, b"").unwrap();
    }
    table
        .update(&Update::new(&names[7], Change::Remove), at(1))
        .unwrap();
    names.remove(7);
    names.sort();
    for limit in [1, 3, 1000, usize::MAX] {
        let mut listed: Vec<Vec<u8>> = Vec::new();
        loop {
            let more = table
                .keys_after(listed.last().map(Vec::as_slice), limit)
                .unwrap();
            assert!(more.len() <= limit);
            if more.is_empty() {
                break;
            }
            listed.extend(more);
        }
        assert_eq!(listed, names);
    }
    let interval = Interval::parse(b"(k10,k1f]").unwrap();
    let within = |name: &&Vec<u8>| name[..] > b"k10"[..] && name[..] <= b"k1f"[..];
    let expected: Vec<_> = names.iter().filter(within).cloned().collect();
    assert_eq!(table.range(&interval, 1 << 20).unwrap(), expected);
    assert_eq!(table.range(&interval, 5).unwrap(), expected[..5]);
    let reverse = Interval::parse(b"[k2,k1]").unwrap();
    assert_eq!(table.range(&reverse, 9).unwrap(), [b""; 0]);
    let begin: Vec<_> = names
        .iter()
        .filter(|name| name.starts_with(b"k7"))
        .cloned()
        .collect();
    assert_eq!(table.with_prefix(b"k7", 1 << 20).unwrap(), begin);
}

#[test]
fn a_full_table_refuses_and_counts_exactly() {
    let table = small(1000);
    assert_eq!((table.count(), table.bytes()), (0, 0));
    let mut stored = 0_u32;
    let full = loop {
        match put(&table, &stored.to_be_bytes(), &[0; 60]) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, TableError::Full));
    assert!(stored > 1 && table.bytes() <= 1000);
    assert_eq!(table.count(), u64::from(stored));
    let each = table.bytes() / u64::from(stored);
    // What was there is there; it may change within its size, and not beyond.
    put(&table, &0_u32.to_be_bytes(), &[1; 60]).unwrap();
    assert_eq!(value(&table, &0_u32.to_be_bytes(), 1), Some(vec![1; 60]));
    let larger = put(&table, &0_u32.to_be_bytes(), &[1; 500]);
    assert!(matches!(larger, Err(TableError::Full)));
    assert_eq!(table.bytes(), each * u64::from(stored));
    put(&table, &0_u32.to_be_bytes(), &[1; 50]).unwrap();
    assert_eq!(table.bytes(), each * u64::from(stored) - 10);
    table.vanish(at(1)).unwrap();
    assert_eq!((table.count(), table.bytes()), (0, 0));
}

#[test]
fn what_has_expired_is_absent_and_a_sweep_gives_its_room_back() {
    let table = small(1 << 20);
    for i in 0..500_u32 {
        let key = i.to_be_bytes();
        let mut update = Update::new(&key, Change::Put(b"v"));
        update.attributes.expires_at = if i % 2 == 0 { 10 } else { 0 };
        table.update(&update, at(1)).unwrap();
    }
    let even = 2_u32.to_be_bytes();
    assert_eq!(value(&table, &even, 9), Some(b"v".to_vec()));
    assert_eq!(value(&table, &even, 10), None);
    assert_eq!(table.size(&even, 10).unwrap(), None);
    assert_eq!(table.count(), 500);
    let bytes = table.bytes();
    assert_eq!(table.sweep(9, 1 << 20).unwrap(), 0);
    let mut gone = 0;
    for _ in 0..64 {
        gone += table.sweep(10, 64).unwrap();
    }
    assert_eq!((gone, table.count()), (250, 250));
    assert_eq!(table.bytes() * 2, bytes);
    assert_eq!(table.keys_after(None, 1000).unwrap().len(), 250);
}

#[test]
fn expired_records_make_room() {
    let table = small(200_000);
    let mut stored = 0_u32;
    loop {
        let key = stored.to_be_bytes();
        let mut update = Update::new(&key, Change::Put(b"12345678"));
        update.attributes.expires_at = 10;
        if table.update(&update, at(1)).is_err() {
            break;
        }
        stored += 1;
    }
    for i in 0..1000_u32 {
        let key = (i + stored).to_be_bytes();
        let update = Update::new(&key, Change::Put(b"12345678"));
        // A try looks at a part of the table.
        let found_room = (0..64).any(|_| table.update(&update, at(10)).is_ok());
        assert!(found_room, "{i}");
    }
    assert!(table.bytes() <= 200_000);
}

#[test]
fn keys_and_values_have_limits() {
    let table = small(1 << 30);
    let long_key = vec![0; MemoryOptions::default().key_bytes_max + 1];
    let long_value = vec![0; MemoryOptions::default().value_bytes_max + 1];
    let refused = put(&table, &long_key, b"");
    assert!(matches!(refused, Err(TableError::KeyTooLong { .. })));
    let refused = put(&table, b"k", &long_value);
    assert!(matches!(refused, Err(TableError::ValueTooLong { .. })));
    let effect = Effect::Put {
        key: b"k",
        value: &long_value,
        attributes: Attributes::default(),
    };
    let refused = table.apply(effect, at(1));
    assert!(matches!(refused, Err(TableError::ValueTooLong { .. })));
    assert_eq!(value(&table, &long_key, 1), None);
    assert_eq!(table.count(), 0);
}

/// Stops in the middle of an update until it is let go.
#[derive(Debug)]
struct Slow {
    entered: Mutex<mpsc::Sender<()>>,
    go_on: Mutex<mpsc::Receiver<()>>,
    refuses: AtomicBool,
}

impl UpdateSink for Slow {
    fn updated(&self, _: Effect<'_>, _: Stamp) -> Result<(), TableError> {
        self.entered.lock().unwrap().send(()).unwrap();
        self.go_on.lock().unwrap().recv().unwrap();
        if self.refuses.load(Ordering::Relaxed) {
            return Err(TableError::Full);
        }
        Ok(())
    }
}

#[test]
fn readers_do_not_wait_for_the_sink_and_its_refusal_changes_nothing() {
    let (entered, has_entered) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let sink = Arc::new(Slow {
        entered: Mutex::new(entered),
        go_on: Mutex::new(may_go_on),
        refuses: AtomicBool::new(false),
    });
    let table = MemoryTable::new(MemoryOptions::default(), Some(Arc::clone(&sink) as _));
    let changes = [
        (Change::Put(b"one"), None, Some(b"one".as_slice())),
        (
            Change::Append(b"more"),
            Some(b"one".as_slice()),
            Some(b"onemore"),
        ),
        (Change::Touch, Some(b"onemore"), Some(b"onemore")),
        (Change::Remove, Some(b"onemore"), None),
    ];
    for (change, before, after) in changes {
        for refuses in [true, false] {
            sink.refuses.store(refuses, Ordering::Relaxed);
            let bytes = table.bytes();
            std::thread::scope(|scope| {
                let updating = scope.spawn(|| table.update(&Update::new(b"k", change), at(1)));
                has_entered.recv().unwrap();
                assert_eq!(value(&table, b"k", 1).as_deref(), before);
                go_on.send(()).unwrap();
                assert_eq!(updating.join().unwrap().is_err(), refuses);
            });
            if refuses {
                assert_eq!(value(&table, b"k", 1).as_deref(), before);
                assert_eq!(table.bytes(), bytes);
            }
        }
        assert_eq!(value(&table, b"k", 1).as_deref(), after);
    }
    assert_eq!((table.count(), table.bytes()), (0, 0));
}

#[derive(Debug, Default)]
struct Ledger(Mutex<Vec<(Vec<u8>, Vec<u8>)>>);

impl UpdateSink for Ledger {
    fn updated(&self, effect: Effect<'_>, _: Stamp) -> Result<(), TableError> {
        if let Effect::Put { key, value, .. } = effect {
            let record = (key.to_vec(), value.to_vec());
            self.0.lock().unwrap().push(record);
        }
        Ok(())
    }
}

#[test]
fn threads_lose_no_update_and_the_sink_has_each_records_order() {
    let ledger = Arc::new(Ledger::default());
    let table = MemoryTable::new(MemoryOptions::default(), Some(Arc::clone(&ledger) as _));
    let barrier = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                barrier.wait();
                for i in 0..4000_u32 {
                    let key = (i % 7).to_be_bytes();
                    let change = Change::Increment {
                        by: 1,
                        initial: Some(1),
                    };
                    table.update(&Update::new(&key, change), at(1)).unwrap();
                }
            });
        }
    });
    let told = ledger.0.lock().unwrap();
    for i in 0..7_u32 {
        let key = i.to_be_bytes();
        let its = told.iter().filter(|(told, _)| *told == key);
        let sums: Vec<u64> = its
            .map(|(_, value)| std::str::from_utf8(value).unwrap().parse().unwrap())
            .collect();
        let expected: Vec<_> = (1..=sums.len() as u64).collect();
        assert_eq!(sums, expected);
        let last = sums.len().to_string().into_bytes();
        assert_eq!(value(&table, &key, 1), Some(last));
    }
    assert_eq!(told.len(), 16_000);
    assert_eq!(table.count(), 7);
}

#[test]
fn a_record_that_comes_back_has_another_unique_number() {
    let table = small(1 << 20);
    let unique = |table: &MemoryTable| {
        put(table, b"k", b"v").unwrap();
        let found = table.get(b"k", 1, &mut Vec::new()).unwrap();
        found.unwrap().unique
    };
    let first = unique(&table);
    let second = unique(&table);
    table
        .update(&Update::new(b"k", Change::Remove), at(1))
        .unwrap();
    let third = unique(&table);
    table.vanish(at(1)).unwrap();
    let fourth = unique(&table);
    assert!(first < second && second < third && third < fourth);
    let mut update = Update::new(b"k", Change::Put(b"w"));
    update.condition = Condition::Unique(third);
    assert_eq!(table.update(&update, at(1)).unwrap(), Outcome::Differs);
    update.condition = Condition::Unique(fourth);
    assert!(matches!(
        table.update(&update, at(1)),
        Ok(Outcome::Stored { .. })
    ));
}
