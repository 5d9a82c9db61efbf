//! The program as its users have it: the real binary, in folders and on ports of its own.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod access_log;
mod architecture;
mod bench;
mod bench_http;
mod bench_tables;
mod configuration;
mod damage;
mod doctor;
mod failover;
mod kill_nine;
mod members;
mod moving_in;
mod nodes;
mod postgres_store;
mod program;
mod real_events;
mod replication;
mod requests;
mod serving;
mod sessions;
mod store_commands;
mod table_files;
mod tables_beside;
mod tables_serve;
mod tls;
mod websocket;
