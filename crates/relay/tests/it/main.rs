//! Whole conversations, without a socket: bytes in, messages out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a broken assumption shall panic"
)]

mod authentication;
mod counting;
mod driver;
mod live_index;
mod privacy;
mod publishing;
mod random;
mod subscribing;
