//! The embedded event store: log, segments, queries.

mod segment;
