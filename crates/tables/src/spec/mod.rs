//! A table in one line of text: its name, its kind and its options.

mod names;
mod size;
mod text;

pub use text::{Durability, TableOptions, TableSpec};
