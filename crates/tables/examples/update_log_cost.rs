//! What the update log costs an update, in process: puts of 8 bytes into a table in memory (or into a
//! fixed one, with `fixed` as the argument), by one and two threads, without a log and with it. The
//! processor's time of the whole process counts, the log's own thread included, so that other work
//! on the machine matters little; the wall's time is shown beside it.
//!
//! ```sh
//! cargo run --release -p hikyaku-tables --example update_log_cost -- fixed
//! ```

use std::{sync::Arc, thread, time::Instant};

use hikyaku_tables::{
    Change, Logging, NamedTable, Stamp, Table, TableError, Tables, TablesOptions, Update,
};
use hikyaku_vfs::{Disk, RealDisk};
use rustix::time::{ClockId, clock_gettime};

/// Records of a table.
const RECORDS: u64 = 100_000;
/// Updates of each thread in one run: some fractions of a second.
const UPDATES: u64 = 2_000_000;
/// Runs, interleaved; the median counts.
const RUNS: usize = 5;
/// As a server reads the time once for all that it finds in a socket.
const UPDATES_OF_A_TIME: u64 = 400;

fn main() -> Result<(), TableError> {
    let table = match std::env::args().nth(1).as_deref() {
        Some("fixed") => "t=t.fixed?width=8",
        _ => "t=*",
    };
    println!("{table}: nanoseconds of the processors (of the wall) for an update");
    for threads in [1, 2] {
        let mut costs = [Vec::new(), Vec::new()];
        for _ in 0..RUNS {
            for (logging, costs) in [Logging::None, Logging::Async].into_iter().zip(&mut costs) {
                costs.push(run(table, logging, threads)?);
            }
        }
        let [without, with] = costs.map(|mut costs| {
            costs.sort_by(|one: &(f64, f64), other| one.0.total_cmp(&other.0));
            costs.get(costs.len() / 2).copied().unwrap_or_default()
        });
        println!(
            "{threads} threads: {:.0} ({:.0}) without the log, {:.0} ({:.0}) with it",
            without.0, without.1, with.0, with.1
        );
    }
    Ok(())
}

/// Returns what an update cost in nanoseconds: of processors, and of the wall.
fn run(table: &str, logging: Logging, threads: u64) -> Result<(f64, f64), TableError> {
    let folder = std::env::temp_dir().join(format!("update-log-cost-{}", std::process::id()));
    let disk: Disk = Arc::new(RealDisk);
    let mut options = TablesOptions::new(1);
    options.logging = logging;
    let named: NamedTable = table.parse()?;
    let tables = Tables::open(&disk, &folder, &[named], &options)?;
    let opened = tables.get("t").cloned();
    let table = opened.ok_or(TableError::KeyNotANumber)?;
    put_all(&*table, 0, RECORDS)?;
    let before = (processor_ns(), Instant::now());
    thread::scope(|scope| {
        let puts: Vec<_> = (0..threads)
            .map(|number| {
                let table = &*table;
                scope.spawn(move || put_all(table, number, UPDATES))
            })
            .collect();
        puts.into_iter()
            .try_for_each(|put| put.join().unwrap_or(Err(TableError::KeyNotANumber)))
    })?;
    let wall = before.1.elapsed().as_nanos() as f64 / UPDATES as f64;
    let processors = (processor_ns() - before.0) / (UPDATES * threads) as f64;
    drop(table);
    tables.close()?;
    // An example may go around the door to files: it clears up after itself.
    std::fs::remove_dir_all(&folder)?;
    Ok((processors, wall))
}

fn processor_ns() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn put_all(table: &dyn Table, seed: u64, updates: u64) -> Result<(), TableError> {
    let mut digits = [0; 20];
    let mut dice = seed.wrapping_add(1);
    for number in 0..updates {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let key = decimal(dice % RECORDS + 1, &mut digits);
        let update = Update::new(key, Change::Put(b"8 bytes."));
        let stamp = Stamp {
            at_us: number / UPDATES_OF_A_TIME,
            origin: 0,
        };
        table.update(&update, stamp)?;
    }
    Ok(())
}

fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        at -= 1;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    digits.get(at..).unwrap_or_default()
}
