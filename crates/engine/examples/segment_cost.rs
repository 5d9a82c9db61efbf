//! Prints what building, merging and reading segments costs, on synthetic documents.
//!
//! `cargo run --release -p hikyaku-engine --features testing --example segment_cost [DOCUMENTS]`

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

fn main() {
    let docs = std::env::args().nth(1).and_then(|docs| docs.parse().ok());
    let mut tell = |line| println!("{line}");
    hikyaku_engine::testing::measure_segments(docs.unwrap_or(1_000_000), &cpu_time, &mut tell);
}

/// The processor time this thread has used: other work on the machine counts less than it would on
/// a wall clock.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.cast_unsigned(),
        time.tv_nsec.cast_unsigned() as u32,
    )
}
