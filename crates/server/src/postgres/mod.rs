//! PostgreSQL for plugins: each worker's own connections, on which statements are pipelined.
//!
//! [`Postgres`] is what handlers use, and an `asking` what they wait for. A lane is a place for one
//! connection, made again when it is lost; a session what is prepared on it; a connection carries
//! questions and answers, the same query many times as one run. The driver `tokio-postgres` logs in, and its types and codes are ours.

mod asking;
mod connect;
mod connection;
mod database;
mod each;
mod error;
mod handshake;
mod lane;
mod reply;
mod row;
mod run;
mod session;
mod socket;
mod statement;
mod types_of;
mod wire;

pub use database::Postgres;
pub(crate) use database::PostgresOptions;
pub use error::{DatabaseError, PostgresError};
pub(crate) use lane::by_the_worker;
#[cfg(any(test, feature = "testing"))]
pub(crate) use reply::fuzz_replies;
pub use row::{Column, Row, RowIndex};
pub use tokio_postgres::{error::SqlState, types};
