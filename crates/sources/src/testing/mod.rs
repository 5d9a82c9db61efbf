//! Databases of other relays for tests, laid out as those relays lay them out.

mod nostr_rs_relay;
mod nostream;
mod strfry;

pub use nostr_rs_relay::NostrRsRelayFile;
pub use nostream::NostreamDatabase;
pub use strfry::StrfryFolder;
