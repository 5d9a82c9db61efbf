//! `bench relay`: loads a Nostr relay as its clients do, and checks every answer.

mod client;
mod idle;
mod known;
mod level;
mod live;
mod options;
mod parts;
mod reply;
mod run;
mod websocket;

pub(crate) use known::publish_all;
pub use options::Relay;
pub(crate) use run::relay;
