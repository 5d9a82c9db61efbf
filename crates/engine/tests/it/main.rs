//! The engine through its public interface.

mod compare;
mod restart;
mod suite;
mod verify;
