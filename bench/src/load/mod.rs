//! Load on a server, whatever it speaks: connections, the loop that keeps to a pace, what it counts.

mod address;
mod driver;
mod latencies;
mod measured;
mod meter;
mod process;
mod stream;

pub(crate) use address::{Address, Permission};
pub(crate) use driver::{Done, Lane, Load, Pace, Planned};
pub(crate) use latencies::Latencies;
pub(crate) use measured::{Class, Counts, Kind, Limit, Measured};
pub(crate) use meter::Meter;
pub(crate) use process::Process;
pub(crate) use stream::{Patience, Stream};
