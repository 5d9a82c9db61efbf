//! Hash and ordered tables: a B-tree of the library redb, and a journal before it.

mod backend;
mod damage;
mod entry;
mod journal;
mod open;
mod record;
mod snapshot;
mod table;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing;
mod writer;

pub use table::{KeyedOptions, KeyedTable};
