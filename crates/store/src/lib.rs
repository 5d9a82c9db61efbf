//! The event store interface: what a relay asks of the place that keeps its events.
//!
//! Two stores implement it (an embedded engine and PostgreSQL). What may be stored, what replaces,
//! deletes and vanishes what ([`rules`]) is decided here, once, as pure functions over facts that a
//! store looks up. `testing` (feature) has a naive store and the suite that every store must pass.

mod ban;
mod neighbours;
mod query;
mod reader;
mod refused;
mod revocation;
pub mod rules;
mod store;
#[cfg(feature = "testing")]
pub mod testing;

pub use ban::Ban;
pub use neighbours::{Lease, LeaseFuture, Neighbours, Tidings};
pub use query::{
    Allowance, Budget, Completeness, CountStep, LimitPolicy, Query, QueryStep, StoredEvent,
};
pub use reader::Reader;
pub use refused::{RefusedRead, first_long_name};
pub use revocation::{Revocation, Revoked, SessionId, SessionIdError};
pub use store::{
    Committed, CommittedEvent, CommittedFeed, CountCursor, EventStore, Hider, Key, KeyRange,
    LocalFuture, Outcome, QueryCursor, Refusal, RemovalReason, Sequence, StoreError, StoreReader,
    Write, WriteFuture,
};
