//! Connections: how they are made, what is set on them, who uses which.

mod connect;
mod lanes;
mod own;
mod session;
mod sessions;

pub(crate) use connect::Connector;
pub(crate) use lanes::{IdleSessions, Lanes};
pub(crate) use own::OwnThread;
pub(crate) use session::{Session, lock_key};
pub(crate) use sessions::Sessions;
