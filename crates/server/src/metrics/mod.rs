//! What the server counts and measures, and how an operator reads it.
//!
//! Each worker has cells of its own that only its thread writes; a scrape adds them up. So counting
//! costs a plain load and store, and no cache line is fought over.

mod cells;
mod counters;
mod endpoint;
mod exposition;
mod handlers;
mod histogram;

pub(crate) use cells::{Count, Latency, Level, WorkerMetrics};
pub(crate) use counters::Counters;
pub(crate) use endpoint::serve;
pub use exposition::{Gauge, Gauges, Metrics};
pub(crate) use histogram::Histogram;
