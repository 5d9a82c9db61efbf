//! The table in memory.

mod record;
mod shard;
mod table;

pub use table::{MemoryOptions, MemoryTable};
