//! What is asked and published: events with the shape of the real network, and what a relay that
//! holds them must answer.

mod event;
mod fresh;
mod generate;
mod index;
mod question;
mod questions;
mod random;
mod shape;
mod sign;
mod stored;
mod tags;

pub(crate) use event::{Bytes32, Fields, bytes32};
pub(crate) use fresh::{Fresh, Signed};
pub use generate::Generate;
pub(crate) use generate::generate;
pub(crate) use question::Question;
pub(crate) use questions::{Questions, SHAPES};
pub(crate) use random::{Random, Zipf};
pub(crate) use stored::Corpus;
