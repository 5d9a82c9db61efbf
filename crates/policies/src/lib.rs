//! Ready policies: who may write what, by configuration alone.
//!
//! [`Policies`] is a plugin of `hikyaku-server` like any other. It decides by [`PolicyConfig`]: lists
//! of keys, kinds, words and addresses, members and whom they invite (NIP-43), a web of trust, the age
//! of accounts, work by kind (NIP-13), and a write-policy plugin of strfry's kind, which is asked
//! last, as it costs most.

mod age;
mod community;
mod config;
mod membership;
mod policies;
mod reading;
mod relay_key;
mod script;
mod trust;

pub use config::{KindRange, PolicyConfig, PolicySyntaxError, ScriptFailure, WorkRule};
pub use policies::Policies;
pub use relay_key::RelayKey;
