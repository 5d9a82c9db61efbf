//! Hash and ordered tables: a B-tree of the library redb, and a journal before it.

mod backend;
mod damage;
mod entry;
mod journal;
mod open;
mod record;
mod snapshot;
mod table;
mod writer;

pub use table::{KeyedOptions, KeyedTable};
