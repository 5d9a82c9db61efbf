//! What the fixed table costs beside a bare array, in random order.
//!
//! ```sh
//! cargo run --release -p hikyaku-tables --example fixed_cost [ROUNDS] [WIDTH] [RECORDS]
//! ```
//!
//! Each round measures all subjects one after another; figures are medians over the rounds, of the
//! processor time of the measuring threads (so that other programs count little), in nanoseconds for
//! an operation. Ratios are medians of each round's ratio, as rates.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement may fail as a test does"
)]

use std::{
    hint::black_box,
    path::Path,
    sync::{Arc, Barrier, Mutex},
    thread,
};

use hikyaku_tables::{FixedOptions, FixedTable, Stamp, Table};
use hikyaku_vfs::{Disk, RealDisk};
use rustix::time::{ClockId, clock_gettime};

fn now_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Returns the places of the array in a random order.
fn shuffled(records: usize, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..records as u32).collect();
    let mut state = seed;
    for at in (1..order.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        order.swap(at, (state >> 33) as usize % (at + 1));
    }
    order
}

/// Runs the work on so many threads at once; returns the nanoseconds of processor time an operation
/// took on the slowest of them.
fn measure(orders: &[Vec<u32>], work: impl Fn(&[u32]) + Sync) -> f64 {
    let barrier = Barrier::new(orders.len());
    let run = |order: &[u32]| {
        barrier.wait();
        let start = now_ns();
        work(order);
        now_ns() - start
    };
    let run = &run;
    let times: Vec<f64> = thread::scope(|scope| {
        let threads: Vec<_> = orders
            .iter()
            .map(|order| scope.spawn(move || run(order)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    times.into_iter().fold(0.0, f64::max) / orders[0].len() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|text| text.parse::<usize>().unwrap());
    let rounds = arguments.next().unwrap_or(15);
    let width = arguments.next().unwrap_or(8);
    let records = arguments.next().unwrap_or(1_000_000);
    let slot = width + 1 + usize::from(width > 255);
    let disk: Disk = Arc::new(RealDisk);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cost.fixed");
    let options = FixedOptions {
        width,
        size_limit: 2 << 30,
    };
    let table = FixedTable::open(&disk, &path, options, None).unwrap();
    let bare_path = folder.path().join("bare");
    let value = vec![7_u8; width];
    let mut bytes = Vec::with_capacity(slot * records);
    for key in 0..records {
        table.put(key as u64 + 1, &value, Stamp::default()).unwrap();
        bytes.extend((width as u16).to_le_bytes().into_iter().take(slot - width));
        bytes.extend(&value);
    }
    write(&disk, &bare_path, &bytes);
    let mapped = disk.map(&bare_path).unwrap();
    let array = Mutex::new(bytes);

    let bare_get = |order: &[u32]| {
        let (array, mut buffer, mut sum) = (&mapped[..], vec![0; width], 0_u64);
        for index in order {
            let at = *index as usize * slot;
            let record = &array[at..at + slot];
            let len = match slot - width {
                1 => record[0] as usize,
                _ => u16::from_le_bytes([record[0], record[1]]) as usize,
            };
            buffer[..len].copy_from_slice(&record[slot - width..slot - width + len]);
            sum += u64::from(buffer[len - 1]);
        }
        black_box(sum);
    };
    let table_get = |order: &[u32]| {
        let (mut buffer, mut sum) = (vec![0; width], 0_u64);
        for index in order {
            let len = table
                .get(u64::from(*index) + 1, &mut buffer)
                .unwrap()
                .unwrap();
            sum += u64::from(buffer[len - 1]);
        }
        black_box(sum);
    };
    let bare_put = |order: &[u32]| {
        let value = black_box(&value[..]);
        for index in order {
            let mut array = array.lock().unwrap();
            let at = *index as usize * slot;
            let record = &mut array[at..at + slot];
            record[0] = value.len() as u8;
            record[slot - width..slot - width + value.len()].copy_from_slice(value);
        }
    };
    let table_put = |order: &[u32]| {
        let value = black_box(&value[..]);
        for index in order {
            table
                .put(u64::from(*index) + 1, value, Stamp::default())
                .unwrap();
        }
    };

    let one = [shuffled(records, 1)];
    let two = [shuffled(records, 2), shuffled(records, 3)];
    let mut times = vec![Vec::new(); 6];
    for _ in 0..rounds {
        times[0].push(measure(&one, bare_get));
        times[1].push(measure(&one, table_get));
        times[2].push(measure(&two, table_get));
        times[3].push(measure(&one, bare_put));
        times[4].push(measure(&one, table_put));
        times[5].push(measure(&two, table_put));
    }
    let ns = |subject: usize| median(times[subject].clone());
    let ratio = |of: usize, to: usize, factor: f64| {
        let rounds = times[of].iter().zip(&times[to]);
        median(rounds.map(|(of, to)| factor * to / of).collect())
    };
    println!(
        "{records} records, width {width}, {rounds} rounds, ns of processor time an operation"
    );
    println!(
        "get   bare {:6.1}   table {:6.1}   ratio {:.2} (bar 0.8)",
        ns(0),
        ns(1),
        ratio(1, 0, 1.0)
    );
    println!(
        "      two threads, each {:6.1}   ratio to one {:.2} (bar 1.8)",
        ns(2),
        ratio(2, 1, 2.0)
    );
    println!(
        "put   bare {:6.1}   table {:6.1}   ratio {:.2} (bar 0.5)",
        ns(3),
        ns(4),
        ratio(4, 3, 1.0)
    );
    println!(
        "      two threads, each {:6.1}   ratio to one {:.2} (bar 1.8)",
        ns(5),
        ratio(5, 4, 2.0)
    );
    assert_eq!(table.count(), records as u64);
}

fn write(disk: &Disk, path: &Path, bytes: &[u8]) {
    let mut file = disk.create_new(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
}
