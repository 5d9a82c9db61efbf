//! Nostr values: parse, bound, canonicalise, hash, verify, match. No I/O, no clock, no randomness.
//!
//! Everything here may come from a hostile network: no input panics, and every refusal says why.

mod address;
mod escape;
mod event;
mod filter;
mod filter_json;
mod json;
mod key;
mod kind;
mod message;
mod scan;
mod tag;
mod tag_name;
#[cfg(feature = "testing")]
pub mod testing;
mod verifier;

pub use address::Address;
pub use escape::{escape, escape_into};
pub use event::{Event, EventError};
pub use filter::{Filter, TagCondition};
pub use filter_json::FilterError;
pub use key::{EventId, HexError, PublicKey, Signature};
pub use kind::{Kind, KindClass};
pub use message::{ClientMessage, MessageError, SubscriptionId};
pub use tag::Tag;
pub use tag_name::{TagName, TagNameError};
pub use verifier::Verifier;

/// Seconds since the Unix epoch, as NIP-01's `created_at`. 64 bits everywhere: real events carry
/// milliseconds by mistake.
pub type Timestamp = u64;
