//! The table server over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::duration_suboptimal_units,
    reason = "test code: a broken assumption shall panic"
)]

mod differential;
mod faults;
mod many;
mod replication;
mod restoring;
mod running;
mod sockets;
mod wire;
