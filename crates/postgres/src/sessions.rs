//! The secret of browsers' sessions, and which are revoked, for all nodes.

use std::pin::Pin;

use futures_util::Stream;
use hikyaku_event::{PublicKey, Timestamp};
use hikyaku_store::{Revocation, Revoked, SessionId};
use tokio_postgres::Row;

use crate::{PostgresError, PostgresStore, columns::seconds, feed::channel};

/// Begins what is told on the nodes' channel about a revocation.
pub(crate) const REVOKED: &str = "revoked ";

const SECRET_MAKE: &str =
    "INSERT INTO {schema}.session_secret (secret) VALUES ($1) ON CONFLICT DO NOTHING";
const SECRET: &str = "SELECT secret FROM {schema}.session_secret";
const LIST: &str = "SELECT who, epoch, until FROM {schema}.revoked_sessions WHERE until > $1";
// Beyond the epoch of a node that this one has not heard of yet.
const REVOKE: &str = "INSERT INTO {schema}.revoked_sessions AS known (who, epoch, until) \
    VALUES ($1, $2, $3) ON CONFLICT (who) DO UPDATE \
    SET epoch = greatest(excluded.epoch, known.epoch + 1), until = greatest(excluded.until, known.until) \
    RETURNING who, epoch, until";
const FORGET: &str = "DELETE FROM {schema}.revoked_sessions WHERE who IN \
    (SELECT who FROM {schema}.revoked_sessions WHERE until <= $1 ORDER BY until LIMIT 1000)";
const TELL: &str = "SELECT pg_notify($1, $2)";

/// What this node hears about revoked sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevocationNews {
    /// These are revoked.
    Revoked(Revocation),
    /// Others may be, too: this node was cut off, or has just begun to listen. The list is to be read.
    Unknown,
}

impl PostgresStore {
    /// Returns the secret of the sessions: `fresh`, which is to be random, if there is none yet.
    pub async fn session_secret(&self, fresh: [u8; 32]) -> Result<[u8; 32], PostgresError> {
        let session = self.connector.connect().await?;
        session.execute(SECRET_MAKE, &[&&fresh[..]]).await?;
        let rows = session.rows(SECRET, &[]).await?;
        let secret = rows.first().map(|row| row.get::<_, &[u8]>(0));
        secret
            .and_then(|secret| secret.try_into().ok())
            .ok_or_else(|| PostgresError::Corrupt("there is no secret of the sessions".to_owned()))
    }

    /// Returns the revocations that are in force.
    pub async fn revoked_sessions(&self, now: Timestamp) -> Result<Vec<Revocation>, PostgresError> {
        let session = self.connector.connect().await?;
        let rows = session.rows(LIST, &[&seconds(now)]).await?;
        rows.iter().map(read).collect()
    }

    /// Revokes sessions, and tells all nodes; returns the revocation as it is in force: the epoch of a
    /// key is beyond the one that there was.
    pub async fn revoke_sessions(
        &self,
        revocation: &Revocation,
    ) -> Result<Revocation, PostgresError> {
        let session = self.connector.connect().await?;
        let (who, epoch) = match &revocation.revoked {
            Revoked::Session(id) => (&id.0[..], 0),
            Revoked::Key { key, epoch } => (&key.as_bytes()[..], seconds(*epoch)),
        };
        let until = seconds(revocation.until);
        let rows = session.rows(REVOKE, &[&who, &epoch, &until]).await?;
        let kept = rows.first().map(read).transpose()?.unwrap_or(*revocation);
        let channel = channel(&self.connector.schema);
        let told = write(&kept);
        session.rows(TELL, &[&channel, &told]).await?;
        Ok(kept)
    }

    /// Forgets revocations that nothing is left of, a thousand at most.
    pub async fn forget_revoked_sessions(&self, now: Timestamp) -> Result<(), PostgresError> {
        let session = self.connector.connect().await?;
        session.execute(FORGET, &[&seconds(now)]).await?;
        Ok(())
    }

    /// Says what is revoked, by any node, from now on.
    pub fn sessions_revoked(&self) -> Pin<Box<dyn Stream<Item = RevocationNews> + Send>> {
        Box::pin(self.feed.sessions_revoked())
    }
}

fn read(row: &Row) -> Result<Revocation, PostgresError> {
    let number = |at| u64::try_from(row.get::<_, i64>(at)).unwrap_or(0);
    let who: &[u8] = row.get(0);
    let revoked = revoked(who, number(1)).ok_or_else(|| {
        PostgresError::Corrupt(format!("{} bytes name no session and no key", who.len()))
    })?;
    Ok(Revocation {
        revoked,
        until: number(2),
    })
}

fn revoked(who: &[u8], epoch: u64) -> Option<Revoked> {
    if let Ok(id) = who.try_into() {
        return Some(Revoked::Session(SessionId(id)));
    }
    let key = PublicKey::new(who.try_into().ok()?);
    Some(Revoked::Key { key, epoch })
}

/// Writes a revocation for the nodes' channel.
fn write(revocation: &Revocation) -> String {
    let until = revocation.until;
    match &revocation.revoked {
        Revoked::Session(id) => format!("{REVOKED}{id} 0 {until}"),
        Revoked::Key { key, epoch } => format!("{REVOKED}{} {epoch} {until}", key.to_hex()),
    }
}

/// Reads what [`write`] has written, behind its first word.
pub(crate) fn parse(text: &str) -> Option<Revocation> {
    let mut words = text.split(' ');
    let (who, epoch, until) = (words.next()?, words.next()?, words.next()?);
    let epoch = epoch.parse().ok()?;
    let revoked = match who.parse() {
        Ok(id) => Revoked::Session(id),
        Err(_) => Revoked::Key {
            key: PublicKey::from_hex(who.as_bytes()).ok()?,
            epoch,
        },
    };
    Some(Revocation {
        revoked,
        until: until.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_heard() {
        for revoked in [
            Revoked::Session(SessionId([7; 16])),
            Revoked::Key {
                key: PublicKey::new([8; 32]),
                epoch: 9,
            },
        ] {
            let revocation = Revocation { revoked, until: 10 };
            let text = write(&revocation);
            let rest = text.strip_prefix(REVOKED).unwrap();
            assert_eq!(parse(rest), Some(revocation));
        }
        for none in ["", "x 1 2", "07", "07 1", &"0".repeat(32), "0 0 x"] {
            assert_eq!(parse(none), None, "{none}");
        }
    }
}
