//! Reading and writing one record of each kind of table: `cargo bench -p hikyaku-tables --bench
//! records`. 100,000 records of 8 bytes, in random order; nothing is synced.

#![allow(clippy::unwrap_used, reason = "a measurement, not a product")]

use std::{hint::black_box, sync::Arc, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use hikyaku_tables::{Change, FixedOptions, FixedTable, Stamp, Update, open};
use hikyaku_vfs::{Disk, RealDisk};

const RECORDS: u64 = 100_000;
/// Coprime to the number of records: its multiples go through all of them.
const STEP: u64 = 61_803;
const STAMP: Stamp = Stamp {
    at_us: 1_700_000_000_000_000,
    origin: 1,
};

criterion_group! {
    name = records;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = fixed, kinds
}
criterion_main!(records);

fn keys() -> impl Iterator<Item = u64> {
    (0..).map(|number: u64| number.wrapping_mul(STEP) % RECORDS + 1)
}

fn fixed(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let disk: Disk = Arc::new(RealDisk);
    let options = FixedOptions {
        width: 8,
        size_limit: 16 << 20,
    };
    let table = FixedTable::open(&disk, &folder.path().join("table"), options, None).unwrap();
    for key in 1..=RECORDS {
        table.put(key, b"12345678", STAMP).unwrap();
    }
    let mut group = criterion.benchmark_group("fixed table");
    group.bench_function("get", |bench| {
        let (mut keys, mut value) = (keys(), [0; 8]);
        bench.iter(|| {
            table
                .get(black_box(keys.next().unwrap()), &mut value)
                .unwrap()
        });
    });
    group.bench_function("put", |bench| {
        let mut keys = keys();
        bench.iter(|| {
            table
                .put(black_box(keys.next().unwrap()), b"87654321", STAMP)
                .unwrap();
        });
    });
    group.bench_function("rotate", |bench| {
        let mut keys = keys();
        bench.iter(|| {
            table
                .rotate(keys.next().unwrap(), b"abc", None, STAMP)
                .unwrap();
        });
    });
}

/// By the interface that all kinds have.
fn kinds(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let disk: Disk = Arc::new(RealDisk);
    for (kind, text) in [
        ("fixed table, as any table", "any.fixed?width=8&limit=16m"),
        ("table in memory", "*"),
        ("hash table", "any.hash?durability=none"),
        ("ordered table", "any.ordered?durability=none"),
    ] {
        let table = open(&disk, folder.path(), text, None).unwrap();
        let names: Vec<_> = (1..=RECORDS)
            .map(|key| key.to_string().into_bytes())
            .collect();
        let change = Change::Put(b"12345678");
        for names in names.chunks(1_000) {
            let updates: Vec<_> = names.iter().map(|name| Update::new(name, change)).collect();
            table.update_all(&updates, STAMP, &mut Vec::new());
        }
        let name = |key: u64| names.get(key as usize - 1).unwrap();
        let mut group = criterion.benchmark_group(kind);
        group.bench_function("get", |bench| {
            let (mut keys, mut value) = (keys(), Vec::new());
            bench.iter(|| {
                table
                    .get(name(keys.next().unwrap()), STAMP.seconds(), &mut value)
                    .unwrap()
            });
        });
        if table.updates_wait() {
            // Such updates are carried out many together.
            group.bench_function("put of 1,000 together", |bench| {
                let mut keys = keys();
                bench.iter(|| {
                    let keys: Vec<_> = keys.by_ref().take(1_000).collect();
                    let updates: Vec<_> = keys
                        .iter()
                        .map(|key| Update::new(name(*key), change))
                        .collect();
                    table.update_all(&updates, STAMP, &mut Vec::new());
                });
            });
        } else {
            group.bench_function("put", |bench| {
                let mut keys = keys();
                bench.iter(|| {
                    let update = Update::new(name(keys.next().unwrap()), change);
                    table.update(&update, STAMP).unwrap();
                });
            });
        }
    }
}
