//! PostgreSQL for plugins: each worker's own connections, on which statements are pipelined.
//!
//! [`Postgres`] is what handlers use; a lane is one connection, made again when it is lost; `each`
//! turns a query of one value into one of many.

mod connect;
mod database;
mod each;
mod error;
mod lane;
mod socket;

pub use database::Postgres;
pub(crate) use database::PostgresOptions;
pub use error::PostgresError;
pub use tokio_postgres::{Row, types};
