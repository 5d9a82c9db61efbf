//! The engine through its public interface.

#![allow(
    clippy::unwrap_used,
    reason = "test code: a broken assumption shall panic"
)]

mod compare;
mod refusal;
mod restart;
mod suite;
mod verify;
