//! The fixed table: an array in a mapped file, whose keys are numbers.

mod blocks;
mod copy;
mod follower;
mod interface;
mod key;
mod layout;
mod list;
mod open;
mod options;
mod records;
mod resize;
mod stripe;
#[cfg(test)]
mod stripe_model;
mod table;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing;
mod threads;

pub use options::FixedOptions;
pub use table::FixedTable;
