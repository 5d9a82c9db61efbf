//! The crate's tests through its public interface.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what helps a test may fail as a test does"
)]

mod both;
mod crash;
mod fault;
