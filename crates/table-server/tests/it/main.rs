//! The table server over real sockets.

mod sockets;
