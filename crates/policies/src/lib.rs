//! Ready policies: who may write what, by configuration alone.
//!
//! [`Policies`] is a plugin of `hikyaku-server` like any other. It decides by [`PolicyConfig`]: lists
//! of keys, kinds, words and addresses, work by kind (NIP-13), and a write-policy plugin of strfry's
//! kind, which is asked last, as it costs most.

mod config;
mod policies;
mod script;

pub use config::{KindRange, PolicyConfig, PolicySyntaxError, ScriptFailure, WorkRule};
pub use policies::Policies;
