//! Tables: small facts about many members, changed all the time.
//!
//! Every kind of table keeps records (a key, a value) behind one interface, [`Table`]. A change of a
//! record ([`Update`]) is decided by one pure function ([`rules`]) under that record's lock, so that
//! all kinds agree on what append, rotate or compare-and-swap mean, and the update log, which takes
//! down each change under the same lock, has the records' updates in the order they happened.

mod error;
mod fixed;
mod interval;
mod keyed;
mod log;
mod memory;
mod open;
pub mod rules;
mod set;
mod spec;
mod table;
pub mod tcf;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod update;

pub use error::TableError;
pub use fixed::{FixedOptions, FixedTable};
pub use interval::{End, Interval};
pub use keyed::{KeyedOptions, KeyedTable};
pub use log::{Follower, LogOptions, LogPosition, Logged, TornTail, UpdateLog, WhenDurable};
pub use memory::{MemoryOptions, MemoryTable};
pub use open::{open, open_spec};
pub use set::{Logging, NamedTable, Replayed, Tables, TablesOptions};
pub use spec::{Durability, TableOptions, TableSpec};
pub use table::{Found, Kind, Table, UpdateSink};
pub use update::{Attributes, Change, Condition, Effect, IntegerWidth, Outcome, Stamp, Update};
