//! The engine through its public interface.

mod restart;
