//! Sessions that are kept in a table: the secret, and what was revoked.

use std::{error::Error, sync::Arc};

use hikyaku_event::Timestamp;
use hikyaku_store::Revocation;
use hikyaku_tables::{Change, Condition, Table, TableError, Update};

use super::{SessionError, SessionKeeper, SessionOptions, Sessions, keeper::stamp, records};
use crate::clock::unix_now;

/// The record with the secret.
const SECRET: &[u8] = b"secret";
/// Records that are looked at in one sweep.
const RECORDS_PER_SWEEP: usize = 1_000;

impl Sessions {
    /// Keeps sessions in a table that has room for an expiry (hash, ordered). Its secret is made if
    /// there is none, and nobody but the server may read the table. What was revoked before is read
    /// here, and never again.
    pub fn in_table(table: Arc<dyn Table>, options: SessionOptions) -> Result<Self, SessionError> {
        let secret = secret(&*table)?;
        let is_secret = |name: &[u8]| name == SECRET;
        let revoked = records::list(&*table, unix_now(), is_secret)?;
        let sessions = Self::new(&secret, options, Arc::new(InTable(table)));
        for revocation in revoked {
            sessions.learn(&revocation)?;
        }
        Ok(sessions)
    }
}

/// Returns the secret; of two that make one at once, the first one's.
fn secret(table: &dyn Table) -> Result<[u8; 32], SessionError> {
    let mut fresh = [0; 32];
    getrandom::fill(&mut fresh).map_err(SessionError::Random)?;
    let update = Update {
        condition: Condition::Absent,
        ..Update::new(SECRET, Change::Put(&fresh))
    };
    table.update(&update, stamp())?;
    let mut value = Vec::new();
    table.get(SECRET, unix_now(), &mut value)?;
    value.try_into().map_err(|_| {
        SessionError::Table(TableError::Corrupt(
            "the secret of the sessions has not 32 bytes".to_owned(),
        ))
    })
}

struct InTable(Arc<dyn Table>);

impl SessionKeeper for InTable {
    fn keep(&self, revocation: Revocation) -> Result<Revocation, Box<dyn Error + Send + Sync>> {
        // Its epoch is beyond those in memory, and so beyond those that are kept.
        Ok(records::learn(&*self.0, &revocation, stamp())?)
    }

    fn forget(&self, now: Timestamp) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.0.sweep(now, RECORDS_PER_SWEEP)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hikyaku_event::PublicKey;
    use hikyaku_tables::{MemoryOptions, MemoryTable, Stamp};

    use super::*;
    use crate::sessions::WhoseSessions;

    fn table() -> Arc<dyn Table> {
        Arc::new(MemoryTable::new(MemoryOptions::default(), None))
    }

    fn open(table: &Arc<dyn Table>) -> Sessions {
        Sessions::in_table(Arc::clone(table), SessionOptions::default()).unwrap()
    }

    #[test]
    fn sessions_and_their_revocations_outlast_the_server() {
        let table = table();
        let first = open(&table);
        let keys = [7, 8, 9].map(|byte| PublicKey::new([byte; 32]));
        let begun = keys.map(|key| first.begin(key).unwrap());
        first.revoke(WhoseSessions::Of(keys[0])).unwrap();
        let whose = WhoseSessions::One {
            id: begun[1].token.id,
            ends_at: None,
        };
        first.revoke(whose).unwrap();
        let second = open(&table);
        let good = begun.map(|begun| second.check(begun.text.as_bytes(), unix_now()).is_some());
        assert_eq!(good, [false, false, true]);
        assert_eq!(second.revocations().unwrap(), first.revocations().unwrap());
    }

    #[test]
    fn two_tables_have_two_secrets() {
        let [here, there] = [table(), table()].map(|table| open(&table));
        let begun = here.begin(PublicKey::new([7; 32])).unwrap();
        assert!(there.check(begun.text.as_bytes(), unix_now()).is_none());
    }

    #[test]
    fn what_has_ended_leaves_memory_and_table() {
        let table = table();
        let sessions = open(&table);
        let begun = sessions.begin(PublicKey::new([7; 32])).unwrap();
        let whose = WhoseSessions::One {
            id: begun.token.id,
            ends_at: Some(1),
        };
        sessions.revoke(whose).unwrap();
        assert_eq!(table.count(), 2);
        // A sweep looks at a part of the places.
        for _ in 0..64 {
            sessions.sweep();
        }
        assert_eq!(table.count(), 1);
        assert!(sessions.revocations().unwrap().is_empty());
    }

    #[test]
    fn a_damaged_secret_is_an_error() {
        let table = table();
        let update = Update::new(SECRET, Change::Put(b"short"));
        table.update(&update, Stamp::default()).unwrap();
        let error = Sessions::in_table(table, SessionOptions::default()).unwrap_err();
        assert!(matches!(error, SessionError::Table(_)), "{error}");
    }
}
