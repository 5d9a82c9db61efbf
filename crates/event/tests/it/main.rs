//! The crate through its public interface.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what helps a test may fail as a test does"
)]

mod events;
mod filters;
mod malformed;
mod messages;
mod properties;
mod real;
mod signatures;
mod tags;
mod wire;
