//! Tables through their public interface.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what helps a test may fail as a test does"
)]

mod crash;
mod fixed;
mod hostile;
mod kill;
mod killed_log;
mod memory;
mod model;
mod spec;
