//! Replication: another server follows this one's update log, live, and goes on where it stopped
//! after an interruption. `docs/tables-replication.md` has what is promised, and the bytes.
//!
//! Each follower has a thread here, and following is one thread there: logs are read from files and
//! sockets may be slow, and neither is to hold a worker up.

mod control;
mod error;
mod frame;
mod kept;
mod replica;
mod source;
mod tyrant;

pub(crate) use control::Replication;
pub use control::Source;
#[cfg(any(test, feature = "testing"))]
pub(crate) use frame::testing;
pub(crate) use source::Handover;
