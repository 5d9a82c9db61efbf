//! Sessions that are valid by their signature and time, and still are to be refused.

use std::sync::Arc;

use hikyaku_tables::{Attributes, Change, Condition, Stamp, Table, TableError, Update};

/// The sessions that were revoked before their time. A revocation is forgotten when the session
/// would have ended by itself.
#[derive(Debug, Clone)]
pub struct Revocations {
    table: Arc<dyn Table>,
}

impl Revocations {
    /// Takes the table that keeps them: one that has room for an expiry.
    pub fn new(table: Arc<dyn Table>) -> Self {
        Self { table }
    }

    /// Revokes a session, which would have ended at `ends_at` (Unix seconds). May wait for the disk.
    pub fn revoke(&self, session: &[u8], ends_at: u64, stamp: Stamp) -> Result<(), TableError> {
        let update = Update {
            key: session,
            condition: Condition::Any,
            change: Change::Put(b""),
            attributes: Attributes {
                flags: 0,
                expires_at: ends_at,
            },
        };
        self.table.update(&update, stamp).map(drop)
    }

    /// Tells whether a session is revoked. `now`: Unix seconds.
    pub fn is_revoked(&self, session: &[u8], now: u64) -> Result<bool, TableError> {
        self.table.size(session, now).map(|size| size.is_some())
    }
}
