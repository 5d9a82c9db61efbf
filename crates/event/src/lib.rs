//! Nostr values: parse, bound, canonicalise, hash, verify, match. No I/O, no clock, no randomness.
//!
//! Everything here may come from a hostile network: no input panics, and every refusal says why.

mod event;
mod filter;
mod key;
mod kind;
mod message;

pub use event::{Address, Event, EventError, Tag, Verifier};
pub use filter::{Filter, FilterError, TagCondition};
pub use key::{EventId, HexError, PublicKey, Signature};
pub use kind::{Kind, KindClass};
pub use message::{ClientMessage, MessageError, SubscriptionId};

/// Seconds since the Unix epoch, as NIP-01's `created_at`. 64 bits everywhere: real events carry
/// milliseconds by mistake.
pub type Timestamp = u64;
