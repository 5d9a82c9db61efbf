//! WebSocket (RFC 6455), the server's side, without sockets: bytes go in, messages come out.
//!
//! Written here because no library encodes a frame once for many receivers, gathers what is queued
//! into few writes, and keeps no buffer for a connection that is silent.

mod close;
mod decoder;
mod frame;
mod handshake;

pub use close::{CloseCode, ProtocolError};
pub use decoder::{Decoder, Incoming};
pub use frame::{FrameHeader, OpCode};
pub use handshake::accept_key;
