//! What tests with a real server need.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a broken assumption shall panic"
)]

mod cluster;
mod small_disk;

pub use cluster::{Cluster, free_port, shared};
pub use small_disk::SmallDisk;
