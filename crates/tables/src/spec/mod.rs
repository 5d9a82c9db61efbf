//! A table in one line of text: its name, its kind and its options.

mod names;
mod size;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing;
mod text;

pub use text::{Durability, TableOptions, TableSpec};
