//! The set of open tables: opened by name with one update log, brought back after whatever
//! happened, noted in checkpoints, copied, and kept equal with other servers.

mod checkpoint;
mod followed;
mod named;
mod open;
mod options;
mod replication;
mod tables;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub(crate) use checkpoint::Checkpoint;
pub use named::NamedTable;
pub use options::{Logging, TablesOptions};
pub use replication::Replayed;
pub use tables::Tables;
