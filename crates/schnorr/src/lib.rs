//! BIP-340 signatures, checked many at a time: one equation for a batch costs a fraction of its
//! signatures' own.
//!
//! Everything here is public data, so nothing is done in constant time: never use it with secrets.
//! What it accepts, libsecp256k1 accepts; what it is about to reject, libsecp256k1 is asked about.

#![allow(
    clippy::inline_always,
    clippy::many_single_char_names,
    reason = "arithmetic of a few dozen instructions, in the letters of its formulas"
)]

mod batch;
mod equation;
mod field;
mod inverse;
mod multiply;
mod point;
mod scalar;
mod single;
#[cfg(feature = "testing")]
pub mod testing;

pub use batch::BatchVerifier;
pub use single::Item;
