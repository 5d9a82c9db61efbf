//! memcached's text protocol.

mod session;

pub(crate) use session::Session;
