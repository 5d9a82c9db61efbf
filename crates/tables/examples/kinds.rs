//! Measures the tables in memory and on the B-tree: `cargo run --release -p hikyaku-tables --example
//! kinds`. Interleaved runs, medians of their rates.

#![allow(clippy::unwrap_used, reason = "a program to run by hand")]

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Instant,
};

use hikyaku_tables::{Change, Durability, KeyedOptions, KeyedTable, Kind, MemoryOptions};
use hikyaku_tables::{MemoryTable, Stamp, Table, Update};
use hikyaku_vfs::{Disk, RealDisk};

const RECORDS: u64 = 1_000_000;
const ROUNDS: usize = 5;

/// A key for each number below [`RECORDS`], in an order without a pattern.
fn key(i: u64) -> [u8; 8] {
    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % RECORDS).to_be_bytes()
}

/// Runs in some threads at once and returns millions of operations a second, of all together.
fn rate(threads: u64, count: u64, run: impl Fn(u64) + Sync) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let run = &run;
            scope.spawn(move || {
                for i in 0..count / threads {
                    run(i * threads + thread);
                }
            });
        }
    });
    count as f64 / start.elapsed().as_secs_f64() / 1e6
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

fn memory() {
    let plain: Mutex<HashMap<[u8; 8], [u8; 8]>> = Mutex::new(HashMap::new());
    let table = MemoryTable::new(MemoryOptions::default(), None);
    let plain_put = |i| {
        plain.lock().unwrap().insert(key(i), i.to_be_bytes());
    };
    let plain_get = |i| {
        assert!(plain.lock().unwrap().get(&key(i)).is_some());
    };
    let table_put = |i: u64| {
        let (key, value) = (key(i), i.to_be_bytes());
        let update = Update::new(&key, Change::Put(&value));
        table.update(&update, Stamp::default()).unwrap();
    };
    let table_get = |i| {
        thread_local!(static VALUE: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) });
        VALUE.with_borrow_mut(|value| {
            table.get(&key(i), 1, value).unwrap();
        });
    };
    let plain_insert = rate(1, RECORDS, plain_put);
    let table_insert = rate(1, RECORDS, table_put);
    println!("insert: Mutex<HashMap> {plain_insert:.2} M/s, memory table {table_insert:.2} M/s");
    println!("{} bytes counted, {} records", table.bytes(), table.count());
    for threads in [1, 2] {
        let mut rates: [Vec<f64>; 4] = Default::default();
        for _ in 0..ROUNDS {
            rates[0].push(rate(threads, RECORDS, plain_put));
            rates[1].push(rate(threads, RECORDS, table_put));
            rates[2].push(rate(threads, RECORDS, plain_get));
            rates[3].push(rate(threads, RECORDS, table_get));
        }
        let [plain_put, table_put, plain_get, table_get] = rates.map(median);
        println!(
            "{threads} threads: put {plain_put:.2} and {table_put:.2} M/s, get {plain_get:.2} and \
             {table_get:.2} M/s (Mutex<HashMap> and memory table)"
        );
    }
    let start = Instant::now();
    let first = table.keys_after(None, 1).unwrap();
    let ordered = start.elapsed();
    let start = Instant::now();
    for _ in 0..1000 {
        table
            .keys_after(first.last().map(Vec::as_slice), 1)
            .unwrap();
    }
    println!(
        "order: made in {ordered:?} when first asked for, then {:?} for one key",
        start.elapsed() / 1000
    );
    let start = Instant::now();
    let all = table.keys_after(None, usize::MAX).unwrap().len();
    println!("all {all} keys in order: {:?}", start.elapsed());
}

fn keyed(
    folder: &Path,
    durability: Durability,
    batch: usize,
    count: u64,
    key: impl Fn(u64) -> [u8; 8],
) {
    let disk: Disk = Arc::new(RealDisk);
    let options = KeyedOptions {
        durability,
        ..KeyedOptions::default()
    };
    let path = folder.join(format!("{durability}-{batch}.hash"));
    let table = KeyedTable::open(&disk, &path, Kind::Hash, options, None).unwrap();
    let value = [7; 32];
    let mut outcomes = Vec::new();
    let start = Instant::now();
    for first in (0..count).step_by(batch) {
        let keys: Vec<_> = (first..first + batch as u64).map(&key).collect();
        let updates: Vec<_> = keys
            .iter()
            .map(|key| Update::new(key, Change::Put(&value)))
            .collect();
        outcomes.clear();
        table.update_all(&updates, Stamp::default(), &mut outcomes);
        assert!(outcomes.iter().all(Result::is_ok));
    }
    let put = count as f64 / start.elapsed().as_secs_f64() / 1e3;
    let mut value = Vec::new();
    let start = Instant::now();
    for i in 0..count {
        assert!(table.get(&key(i), 1, &mut value).unwrap().is_some());
    }
    let get = count as f64 / start.elapsed().as_secs_f64() / 1e3;
    let bytes = table.bytes() / table.count();
    println!(
        "{durability}, {batch} at once: put {put:.1} k/s, get {get:.1} k/s, {bytes} bytes a record"
    );
    drop(table);
    for ending in ["", ".journal"] {
        let file = folder.join(format!("{durability}-{batch}.hash{ending}"));
        let _ = hikyaku_vfs::Vfs::remove(&RealDisk, &file);
    }
}

fn main() {
    memory();
    let folder = std::env::args().nth(1).unwrap_or("/tmp".to_owned());
    let folder = Path::new(&folder);
    for (durability, batch, count) in [
        (Durability::Sync, 1, 500),
        (Durability::Sync, 100, 20_000),
        (Durability::Sync, 10_000, 500_000),
        (Durability::None, 1, 20_000),
        (Durability::None, 100, 200_000),
        (Durability::None, 10_000, 500_000),
    ] {
        keyed(folder, durability, batch, count, key);
    }
    println!("the same, keys in order, as a hash table that did not hash would often have them:");
    keyed(folder, Durability::None, 10_000, 500_000, u64::to_be_bytes);
}
