//! What an operator can do about the index of tags.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::{Builder, Runtime};

use super::{BackfillState, BackfillStatus, Pace, WAKE, work};
use crate::{
    Options, PostgresError,
    connection::{Connector, Session, lock_key},
    feed::channel,
    schema::{make_deferred_indexes, migrate},
};

const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";
const SWITCH_ON: &str = "INSERT INTO {schema}.tag_names (name, filled) \
    SELECT name, false FROM unnest($1::text[]) AS new(name) ON CONFLICT DO NOTHING";
/// The estimate of the statistics; before there are any, the last number given, which is no less.
const BEGIN: &str = "UPDATE {schema}.backfill SET paused = false, done = 0, milliseconds = 0, \
    total = coalesce( \
        (SELECT nullif(reltuples, -1)::bigint FROM pg_class WHERE oid = $1::text::regclass), \
        (SELECT last_value FROM {schema}.position))";
const SWITCH_OFF: &str = "UPDATE {schema}.tag_names SET dropping = true WHERE name = ANY($1)";
const CANCEL: &str = "UPDATE {schema}.tag_names SET dropping = true WHERE NOT filled";
const PAUSE: &str = "UPDATE {schema}.backfill SET paused = $1";
const PACE: &str = "UPDATE {schema}.backfill SET share = $1, rate = $2";
const TELL: &str = "SELECT pg_notify($1, $2)";

/// What the store itself needs: who may read private messages, and whom a request to vanish concerns.
const ALWAYS: &str = "p";

/// The operator's side of the backfill of one schema.
pub struct Backfill {
    connector: Connector,
    runtime: Runtime,
}

impl Backfill {
    /// Connects to a schema, and brings it to the newest version.
    pub fn open(options: &Options) -> Result<Self, PostgresError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| {
                PostgresError::Unavailable(format!("can't start a thread for it: {error}"))
            })?;
        let connector = Connector::new(options, runtime.handle().clone())?;
        runtime.block_on(async {
            let session = connector.connect().await?;
            migrate(&session.client, &connector.schema).await?;
            make_deferred_indexes(&session, &connector.schema).await
        })?;
        Ok(Self { connector, runtime })
    }

    /// Returns how far it is.
    pub fn status(&self) -> Result<BackfillStatus, PostgresError> {
        self.with(async |session| BackfillStatus::read(session).await)
    }

    /// Switches names on: new events are indexed by them from now on, older ones by the backfill.
    pub fn index(&self, names: &[char]) -> Result<BackfillStatus, PostgresError> {
        let names = checked(names)?;
        self.with(async |session| {
            let status = BackfillStatus::read(session).await?;
            if status.state != BackfillState::Idle {
                return Err(PostgresError::Refused(
                    "a backfill is under way; wait for its end, or cancel it".to_owned(),
                ));
            }
            let table = format!("{}.events", self.connector.schema);
            self.locked(session, async || {
                if session.execute(SWITCH_ON, &[&names]).await? > 0 {
                    session.execute(BEGIN, &[&table]).await?;
                }
                Ok(())
            })
            .await?;
            BackfillStatus::read(session).await
        })
    }

    /// Switches names off: what is asked for by them is not found any more, and their rows go.
    pub fn drop_names(&self, names: &[char]) -> Result<BackfillStatus, PostgresError> {
        let names = checked(names)?;
        if names.iter().any(|name| name == ALWAYS) {
            return Err(PostgresError::Refused(
                "`p` stays indexed: by it the store knows whose a private message is".to_owned(),
            ));
        }
        self.with(async |session| {
            self.locked(session, async || {
                session.execute(SWITCH_OFF, &[&names]).await?;
                Ok(())
            })
            .await?;
            BackfillStatus::read(session).await
        })
    }

    /// Ends what is under way, and takes back what it has done.
    pub fn cancel(&self) -> Result<BackfillStatus, PostgresError> {
        self.with(async |session| {
            self.locked(session, async || {
                session.execute(CANCEL, &[]).await?;
                session.execute(PAUSE, &[&false]).await?;
                Ok(())
            })
            .await?;
            BackfillStatus::read(session).await
        })
    }

    /// Has it wait, or go on.
    pub fn pause(&self, paused: bool) -> Result<BackfillStatus, PostgresError> {
        self.with(async |session| {
            session.execute(PAUSE, &[&paused]).await?;
            self.tell(session).await?;
            BackfillStatus::read(session).await
        })
    }

    /// Says how fast it may go, from its next batch on.
    pub fn set_pace(&self, pace: Pace) -> Result<BackfillStatus, PostgresError> {
        if !(1..=100).contains(&pace.share) || pace.rate == Some(0) {
            return Err(PostgresError::Refused(
                "a share is 1 to 100 percent, a rate at least 1 event a second".to_owned(),
            ));
        }
        let share = i32::try_from(pace.share).unwrap_or(100);
        let rate = pace
            .rate
            .map(|rate| i32::try_from(rate).unwrap_or(i32::MAX));
        self.with(async |session| {
            session.execute(PACE, &[&share, &rate]).await?;
            BackfillStatus::read(session).await
        })
    }

    /// Does it here, until nothing is left, `stop` is set, or another process is at it; tells how far
    /// it is after every batch. Returns whether nothing is left.
    pub fn run(
        &self,
        stop: &AtomicBool,
        mut progress: impl FnMut(&BackfillStatus),
    ) -> Result<bool, PostgresError> {
        self.runtime.block_on(work::run(&self.connector, |status| {
            progress(status);
            !stop.load(Ordering::Relaxed)
        }))
    }

    fn with<T>(
        &self,
        act: impl AsyncFnOnce(&Session) -> Result<T, PostgresError>,
    ) -> Result<T, PostgresError> {
        self.runtime.block_on(async {
            let session = self.connector.connect().await?;
            act(&session).await
        })
    }

    /// Changes which names there are, when no writer is at work: each reads them under the lock.
    async fn locked(
        &self,
        session: &Session,
        act: impl AsyncFnOnce() -> Result<(), PostgresError>,
    ) -> Result<(), PostgresError> {
        session.client.batch_execute("BEGIN").await?;
        let lock = lock_key(&self.connector.schema, "writer");
        session.rows(LOCK, &[&lock]).await?;
        act().await?;
        self.tell(session).await?;
        Ok(session.client.batch_execute("COMMIT").await?)
    }

    async fn tell(&self, session: &Session) -> Result<(), PostgresError> {
        let channel = channel(&self.connector.schema);
        session.rows(TELL, &[&channel, &WAKE]).await?;
        Ok(())
    }
}

fn checked(names: &[char]) -> Result<Vec<String>, PostgresError> {
    match names.iter().find(|name| !name.is_ascii_alphabetic()) {
        Some(name) => Err(PostgresError::Refused(format!(
            "filters ask for tags of one letter (NIP-01); {name:?} is none"
        ))),
        None => Ok(names.iter().map(char::to_string).collect()),
    }
}
