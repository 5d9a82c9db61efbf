//! The crate through its public interface.

mod real;
