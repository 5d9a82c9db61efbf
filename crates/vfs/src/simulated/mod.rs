//! A disk in memory that promises no more than POSIX does, and breaks everything else at a crash.

mod content;
mod disk;
mod fault;
mod mapping;
mod names;
mod random;

pub use disk::SimulatedDisk;
pub use fault::{Call, Fault};
