//! The store on a real server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod backfill;
mod faults;
mod full_disk;
mod importing;
mod migrations;
mod nodes;
mod opening;
mod plans;
mod replicas;
mod sessions;
mod slow_readers;
mod statements;
mod suite;
mod tls;
