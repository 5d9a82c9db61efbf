//! One client's session and the live-subscription index; no sockets, no clock.
//!
//! A [`Session`] is the protocol as a state machine: the bytes of a message and the time go in,
//! [`Action`]s come out. Whoever owns the socket carries them out and reports back. The
//! [`LiveIndex`] finds the subscriptions that a new event belongs to. [`RelayInformation`] is what
//! the relay says about itself (NIP-11).

mod action;
mod admission;
mod authentication;
mod config;
mod entitlement;
mod information;
mod live_index;
mod message;
mod session;
mod subscription;
mod urls;

pub use action::{Action, Publication, SubscriptionKey};
pub use admission::is_to_vanish;
pub use config::{Limits, RelayConfig};
pub use information::{RelayInformation, SUPPORTED_NIPS};
pub use live_index::{ListenerKey, LiveIndex};
pub use message::{Message, PublishOutcome, ok, rate_limited};
pub use session::Session;
pub use urls::{RelayUrls, UrlError};
