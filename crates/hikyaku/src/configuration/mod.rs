//! What the operator chose: defaults, one TOML file, the environment, flags; each key knows where its
//! value is from.

mod effective;
mod example;
mod keys;
mod settings;
mod value;

pub(crate) use effective::{Effective, Flags};
pub(crate) use example::example;
pub(crate) use settings::{DurabilityKind, LogFormat, SecretKey, Settings};
