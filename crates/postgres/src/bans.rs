//! Who is kept out, for all nodes.

use std::pin::Pin;

use futures_util::Stream;
use hikyaku_event::Timestamp;
use hikyaku_store::Ban;

use crate::{PostgresError, PostgresStore, columns::seconds, connection::Session, feed::channel};

/// What is told on the nodes' channel when the list has changed.
pub(crate) const CHANGED: &str = "bans";

const LIST: &str = "SELECT who, reason, since, until FROM {schema}.bans ORDER BY who";
const ADD: &str = "INSERT INTO {schema}.bans (who, reason, since, until) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (who) DO UPDATE SET reason = $2, since = $3, until = $4";
const REMOVE: &str = "DELETE FROM {schema}.bans WHERE who = $1";
const FORGET: &str = "DELETE FROM {schema}.bans WHERE until <= $1";
const TELL: &str = "SELECT pg_notify($1, $2)";

impl PostgresStore {
    /// Returns who is kept out, ended bans included.
    pub async fn bans(&self) -> Result<Vec<Ban>, PostgresError> {
        let session = self.connector.connect().await?;
        let rows = session.rows(LIST, &[]).await?;
        let time = |seconds: i64| Timestamp::try_from(seconds).unwrap_or(0);
        Ok(rows
            .iter()
            .map(|row| Ban {
                who: row.get(0),
                reason: row.get(1),
                since: time(row.get(2)),
                until: row.get::<_, Option<i64>>(3).map(time),
            })
            .collect())
    }

    /// Keeps somebody out, on every node; a ban that there was is replaced. Bans that have ended by then
    /// are forgotten.
    pub async fn ban(&self, ban: &Ban) -> Result<(), PostgresError> {
        let session = self.connector.connect().await?;
        let (since, until) = (seconds(ban.since), ban.until.map(seconds));
        session.execute(FORGET, &[&since]).await?;
        session
            .execute(ADD, &[&ban.who, &ban.reason, &since, &until])
            .await?;
        self.tell_of_bans(&session).await
    }

    /// Takes a ban back; tells whether there was one.
    pub async fn unban(&self, who: &str) -> Result<bool, PostgresError> {
        let session = self.connector.connect().await?;
        let removed = session.execute(REMOVE, &[&who]).await?;
        self.tell_of_bans(&session).await?;
        Ok(removed > 0)
    }

    /// Says when the list may have changed: by any node, or while this one was cut off.
    pub fn bans_changed(&self) -> Pin<Box<dyn Stream<Item = ()> + Send>> {
        Box::pin(self.feed.bans_changed())
    }

    async fn tell_of_bans(&self, session: &Session) -> Result<(), PostgresError> {
        let channel = channel(&self.connector.schema);
        session.rows(TELL, &[&channel, &CHANGED]).await?;
        Ok(())
    }
}
