//! Policies in a real server, with real clients and real scripts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a broken assumption shall panic"
)]

mod lists;
mod membership;
mod relay;
mod scripts;
mod trust;
