//! The crate's tests through its public interface.

mod both;
mod crash;
mod fault;
