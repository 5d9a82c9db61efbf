//! Workers, WebSocket and HTTP, metrics.
//!
//! A [`Server`] serves a relay from an [`EventStore`](hikyaku_store::EventStore). It starts one
//! worker per core: a thread with one loop, which accepts connections of its own and owns their
//! sessions, its part of the live-subscription index, a reader of the store and a signature
//! verifier. Workers share nothing that needs a lock; what all must see (commits, ephemeral events)
//! comes to each by a feed. Beside them, on the thread that calls [`Server::run`], the metrics are
//! served and expired events swept.
//!
//! This is where sockets, the clock, randomness and the async runtime are: nothing below has them.

mod address;
mod bans;
mod clock;
mod config;
mod connection;
mod entrance;
mod feed;
mod http;
mod metrics;
mod neighbours;
mod rates;
mod recorder;
mod server;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod websocket;
mod worker;

pub use address::{AddressRange, AddressRangeError};
pub use bans::{Banned, BannedError, Bans};
pub use config::ServerConfig;
pub use metrics::{Gauge, Gauges, Metrics};
pub use rates::Rates;
pub use server::{Server, ServerError};
