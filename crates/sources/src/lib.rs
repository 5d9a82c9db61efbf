//! Other relays' databases, read as streams of events' JSON. Owns where each relay keeps its events,
//! which of them it still serves, and how to read them beside the running relay: read-only, in
//! batches, no transaction longer than one. Whether an event is valid and what becomes of it is the
//! import's business.
//!
//! - [`nostream`]: its `events` table in PostgreSQL;
//! - [`strfry`]: its LMDB environment;
//! - [`nostr_rs_relay`]: its SQLite file.

mod error;
mod lines;
pub mod nostr_rs_relay;
pub mod nostream;
mod rows;
pub mod strfry;
#[cfg(feature = "testing")]
pub mod testing;

pub use error::SourceError;
pub use lines::{Lines, Note};
pub use rows::{Rows, Source};
