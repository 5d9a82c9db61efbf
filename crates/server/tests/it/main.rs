//! The server through its public interface: real sockets on loopback, real WebSocket clients.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::float_cmp,
    reason = "test code: a broken assumption shall panic, and counts are small whole numbers"
)]

mod access_log;
mod browser;
mod client;
mod connections;
mod curl;
mod dripping;
mod forms;
mod gated_store;
mod handlers;
mod hang_ups;
mod hooks;
mod http;
mod leaks;
mod leases;
mod members;
mod must_not_compile;
mod plugins;
mod postgres;
mod postgres_statements;
mod public_api;
mod publishing;
mod relay;
mod routes;
mod sessions;
mod shutdown;
mod signed;
mod slow_readers;
mod smuggling;
mod subscriptions;
mod tls;
mod websocket;
mod wire;
