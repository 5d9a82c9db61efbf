//! The update log: every change of every table, in the order it happened to each record.
//!
//! A table tells its sink ([`UpdateLog::sink`]) of an update while the record is locked; that only
//! appends to a shared buffer, which is a mapped file. One thread takes what is in it, writes it as
//! one batch, syncs it, and tells who waits ([`UpdateLog::wait_durable`],
//! [`UpdateLog::when_durable`], [`Follower`]s). The
//! bytes are described in `docs/format/update-log.md`.
//!
//! INVARIANT: the entries of a record stand in the log in the order of its updates.
//!
//! INVARIANT: nobody is told of an entry, neither its writer nor a follower, before it is durable;
//! and each batch states the end of what was durable when it was written. So damage before any
//! stated end is corruption, and damage after it is a batch that nobody was told about: a torn tail.
//!
//! INVARIANT: an update is in a file before its record changes ([`waiting`]), so the end of the
//! process, `kill -9` included, takes nothing from the log that a table still has.
//!
//! INVARIANT: what waits in the buffer has its place on the disk already, so that a full disk is a
//! refusal before a record is changed, and never a lost update.

mod batch;
mod buffer;
mod entry;
mod follower;
mod header;
mod number;
mod options;
mod progress;
mod pump;
mod queue;
mod recovery;
mod segments;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod update_log;
mod waiting;
mod writer;

pub use follower::{Follower, Logged};
pub use options::{LogOptions, LogPosition};
pub use progress::WhenDurable;
pub use recovery::TornTail;
pub use update_log::UpdateLog;

pub(crate) use entry::Applied;
pub(crate) use follower::{EntryReader, Recoverable};
pub(crate) use recovery::{Known, has_files, written_by};
