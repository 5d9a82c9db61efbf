//! What the server counts and measures, and how an operator reads it.
//!
//! Each worker has cells of its own that only its thread writes; a scrape adds them up. So counting
//! costs a plain load and store, and no cache line is fought over.

mod cells;
mod endpoint;
mod exposition;
mod histogram;

pub(crate) use cells::{Count, Latency, Level, WorkerMetrics};
pub(crate) use endpoint::serve;
pub use exposition::{Gauge, Gauges, Metrics};
