//! The log: the only truth of the store. Everything else is an index that can be rebuilt from it.
//!
//! Records (events and facts about events) are appended to numbered files, in commits: one write and
//! one sync for all that waits. [`LogWriter`] owns the active file, [`LogFiles`] reads the sealed
//! ones, [`recover`] opens a log after whatever happened, [`rewrite`] reclaims the space of a sealed
//! file, [`verify`] and [`salvage`] walk files for an operator. The bytes are described in
//! `docs/format/log.md`.
//!
//! INVARIANT: a record is answered for only after the sync that covers it, and each record states
//! the end of what was durable when it was appended. So damage before any stated end is corruption,
//! and damage after it is a commit that nobody was told about: a torn tail.
//!
//! INVARIANT: a position names the same record for ever, also after its file was rewritten.
//!
//! What the facts mean is the engine's concern; when to seal and what to reclaim too.

mod error;
mod files;
mod frame;
mod header;
mod number;
mod position;
mod record;
mod recovery;
mod rewrite;
mod scan;
mod sealed;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod walk;
mod writer;

pub(crate) use error::LogError;
pub(crate) use files::LogFiles;
pub(crate) use header::parse_name;
pub(crate) use position::LogPosition;
pub(crate) use record::Record;
pub(crate) use recovery::{Checkpoint, TornTail, recover};
pub(crate) use rewrite::{remove, rewrite};
pub(crate) use sealed::SealedLog;
pub(crate) use walk::{Damage, Walked, salvage, verify};
pub(crate) use writer::{LogOptions, LogWriter};
