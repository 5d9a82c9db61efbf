//! What tests of stores and of their users need: a naive store and a way to wait without a runtime.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a broken assumption shall panic"
)]

mod block_on;
mod naive;

pub use block_on::block_on;
pub use naive::NaiveStore;
