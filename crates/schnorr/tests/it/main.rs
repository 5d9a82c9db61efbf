//! Batches of signatures, through the public interface.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "test code: a broken assumption shall panic"
)]

mod batches;
mod vectors;
