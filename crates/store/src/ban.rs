//! A ban, as stores keep it.

use hikyaku_event::Timestamp;

/// Somebody whom the operator keeps out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ban {
    /// A public key in hex, or a range of addresses: what the server makes of it.
    pub who: String,
    /// What they are told.
    pub reason: String,
    /// When it was said.
    pub since: Timestamp,
    /// When it ends; `None` is never.
    pub until: Option<Timestamp>,
}
