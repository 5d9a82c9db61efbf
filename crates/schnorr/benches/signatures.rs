//! What a signature costs alone and in a batch: `cargo bench -p hikyaku-schnorr --bench signatures`.
//! An iteration is a whole batch; the rate of elements is that of signatures.
//!
//! `few authors`: 16 of them sign in turn, so their points are known and shared. `strangers`: nobody
//! signs twice, and each key's point has to be found. `known strangers`: no two of a batch are by one
//! author, and the points are known. `one bad`, `all bad`: which of a batch they are has to be found.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement, not a product"
)]

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hikyaku_schnorr::{BatchVerifier, Item, testing::Signed};

const SEED: [u8; 32] = [7; 32];

criterion_group! {
    name = signatures;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    targets = alone, together
}
criterion_main!(signatures);

fn alone(criterion: &mut Criterion) {
    let signed = Signed::by(1, 0);
    let mut group = criterion.benchmark_group("alone");
    group.throughput(Throughput::Elements(1));
    group.bench_function("libsecp256k1", |bench| {
        bench.iter(|| assert!(signed.item().is_valid()));
    });
}

fn together(criterion: &mut Criterion) {
    let all: Vec<_> = (0..16384).map(|n| Signed::by(n, n)).collect();
    let few: Vec<_> = (0..1024).map(|n| Signed::by(n % 16, n)).collect();
    for size in [8, 12, 16, 32, 64, 128, 256, 1024] {
        let mut group = criterion.benchmark_group("together");
        group.throughput(Throughput::Elements(size as u64));
        let mut verifier = BatchVerifier::new();
        let items: Vec<_> = few.iter().map(Signed::item).take(size).collect();
        group.bench_function(BenchmarkId::new("few authors", size), |bench| {
            bench.iter(|| assert!(verifier.verify(&items, &SEED)));
        });
        let items: Vec<_> = all.iter().map(Signed::item).collect();
        let mut batches = items.chunks_exact(size).cycle();
        group.bench_function(BenchmarkId::new("strangers", size), |bench| {
            bench.iter(|| assert!(verifier.verify(batches.next().unwrap(), &SEED)));
        });
        let items = &items[..size];
        group.bench_function(BenchmarkId::new("known strangers", size), |bench| {
            bench.iter(|| assert!(verifier.verify(items, &SEED)));
        });
        if size >= 64 {
            let mut bad = items.to_vec();
            bad[size / 3] = Item {
                message: items[0].message,
                ..bad[size / 3]
            };
            group.bench_function(BenchmarkId::new("one bad", size), |bench| {
                bench.iter(|| {
                    let verdicts = verifier.verdicts(&bad, &SEED);
                    assert_eq!(verdicts.iter().filter(|valid| !**valid).count(), 1);
                });
            });
            for pair in bad.chunks_exact_mut(2) {
                (pair[0].message, pair[1].message) = (pair[1].message, pair[0].message);
            }
            group.bench_function(BenchmarkId::new("all bad", size), |bench| {
                bench.iter(|| assert!(!verifier.verdicts(&bad, &SEED).contains(&true)));
            });
        }
    }
}
