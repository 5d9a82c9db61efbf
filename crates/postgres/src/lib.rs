//! The event store on PostgreSQL: for more than one machine can do, and for several nodes beside it.
//!
//! The tables and their indexes are in [`schema`], what is written in [`write`], how answers are found
//! in [`query`], how nodes hear of each other's commits in [`feed`]. Connections ([`connection`]) are
//! driven by threads of the store's own; who asks needs no runtime.

mod backfill;
mod bans;
mod columns;
mod connection;
mod connections;
mod error;
mod examination;
mod feed;
mod meters;
mod names;
mod neighbours;
mod options;
mod query;
mod reader;
mod replica;
mod schema;
mod sessions;
mod statistics;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod waiting;
mod write;

pub use crate::{
    backfill::{Backfill, BackfillState, BackfillStatus, Pace},
    connections::{CONNECTIONS_BESIDE, Connections},
    error::PostgresError,
    examination::{Examination, ReplicaExamination, SlowStatement, TableExamination},
    meters::PostgresMeters,
    options::Options,
    schema::schema_sql,
    sessions::RevocationNews,
    statistics::PostgresStatistics,
    store::PostgresStore,
};
