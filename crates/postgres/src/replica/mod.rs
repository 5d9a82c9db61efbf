//! Reading from a replica: one that has what the reader must see, or else from the server that is
//! written to.

mod progress;
mod reading;

pub(crate) use progress::Replica;
pub(crate) use reading::{Count, Cursor, Servers};
