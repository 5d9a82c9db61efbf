//! A PostgreSQL database's address as libpq has it, with what speaks TLS to it: the one thing that the
//! store, imports and plugins' connections have in common.

mod address;
mod parameters;
mod tls;

pub use address::{Address, AddressError};
