//! The embedded event store: log, segments, queries.
//!
//! The log ([`log`]) is the store; everything else is an index of it that can be rebuilt. What is
//! new is indexed in small segments in memory ([`memory`]), what is older in segment files
//! ([`segment`]); readers see both through immutable snapshots ([`snapshot`]) and answer filters from
//! posting lists ([`query`]). One writer decides and commits ([`batch`], [`commit`]); one background
//! thread flushes, merges and reclaims ([`maintenance`]); the manifest ([`manifest`]) names the files.

mod batch;
mod bitmap;
mod commit;
mod engine;
mod error;
mod log;
mod maintenance;
mod manifest;
mod memory;
mod merging;
mod open;
mod options;
mod query;
mod reader;
mod repair;
mod segment;
#[cfg(test)]
mod simulation;
mod snapshot;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tombstones;
mod verify;

pub use crate::{
    commit::Statistics,
    engine::{Engine, EngineStatistics},
    error::EngineError,
    open::OpeningReport,
    options::{Durability, Options},
    repair::{RepairReport, repair},
    verify::VerifyReport,
};
