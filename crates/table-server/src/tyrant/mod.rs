//! Tokyo Tyrant's binary protocol, as its protocol document describes it.
//!
//! Its good semantics, not its faults: what does not fit is refused instead of cut, a key is a
//! number or an error, a length that is too much is skipped in step and answered, nothing runs a
//! shell, and each connection has its own iterator.

mod administration;
mod arguments;
mod double;
mod example;
mod functions;
mod iterator;
mod keys;
mod misc;
mod reading;
mod search;
mod session;
mod stat;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use example::example;
pub(crate) use session::{OVERDUE, Session};
