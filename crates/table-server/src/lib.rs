//! Tables over the network: the memcached text protocol and Tokyo Tyrant's binary protocol, on one
//! port, told apart by the first byte.
//!
//! A [`TableServer`] starts one worker per core: a thread with one loop that owns its connections.
//! What is in a socket's buffer is carried out at once, in the worker, and answered with one write.
//! Updates of tables that may wait for a disk go to the table's own writer thread in batches; only
//! the connection that sent them waits.
//!
//! Protocols are state machines without sockets: bytes in, bytes out, tables beside them.

mod arrival;
mod catalogue;
mod clock;
mod config;
mod connection;
mod door;
mod exchange;
mod memcached;
mod metrics;
#[cfg(any(test, feature = "testing"))]
mod rehearsal;
mod replication;
mod server;
#[cfg(any(test, feature = "testing"))]
mod slow;
mod socket;
mod tally;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod timing;
mod tyrant;
mod verb;
mod worker;
mod writer;

pub use config::TableServerConfig;
pub use metrics::{Count, Metrics};
pub use replication::Source;
pub use server::{TableServer, TableServerError};
