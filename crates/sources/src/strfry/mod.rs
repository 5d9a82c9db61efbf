//! strfry's LMDB environment, read while strfry runs.

mod environment;
mod flatbuffer;
mod payload;

pub use environment::Strfry;
