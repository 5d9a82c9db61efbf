//! The embedded event store: log, segments, queries.

#[allow(
    dead_code,
    unused_imports,
    reason = "the writer that stands on it is not here yet"
)]
mod log;
mod segment;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
