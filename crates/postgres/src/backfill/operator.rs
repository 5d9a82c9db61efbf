//! What an operator can do about the index of tags.

use std::sync::atomic::{AtomicBool, Ordering};

use hikyaku_event::TagName;

use super::{BackfillStatus, Pace, WAKE, work};
use crate::{
    Options, PostgresError,
    connection::{OwnThread, Session, lock_key},
    feed::channel,
    schema::{SchemaName, make_deferred_indexes, migrate},
};

const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";
/// Under the lock: of two that come at once the second one sees the first one's.
const UNDER_WAY: &str =
    "SELECT EXISTS (SELECT FROM {schema}.tag_names WHERE NOT filled OR dropping)";
const SWITCH_ON: &str = "INSERT INTO {schema}.tag_names (name, filled) \
    SELECT name, NOT EXISTS (SELECT FROM {schema}.events) FROM unnest($1::text[]) AS new(name) \
    ON CONFLICT DO NOTHING";
const ABSENT: &str = "SELECT DISTINCT name FROM unnest($1::text[]) AS new(name) \
    WHERE NOT EXISTS (SELECT FROM {schema}.tag_names n WHERE n.name = new.name)";
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
    own: OwnThread,
}

impl Backfill {
    /// Connects to a schema, and brings it to the newest version.
    pub fn open(options: &Options) -> Result<Self, PostgresError> {
        let own = OwnThread::start(options)?;
        own.with(async |session| {
            migrate(&session.client, &own.connector.schema).await?;
            make_deferred_indexes(session, &own.connector).await
        })?;
        Ok(Self { own })
    }

    /// Returns how far it is.
    pub fn status(&self) -> Result<BackfillStatus, PostgresError> {
        self.own
            .with(async |session| BackfillStatus::read(session).await)
    }

    /// Switches names on: new events are indexed by them from now on, older ones by the backfill.
    pub fn index(&self, names: &[impl AsRef<str>]) -> Result<BackfillStatus, PostgresError> {
        let names = checked(names)?;
        self.own.with(async |session| {
            if !switch_on(session, self.schema(), &names).await? {
                return Err(PostgresError::Refused(
                    "a backfill is under way; wait for its end, or cancel it".to_owned(),
                ));
            }
            BackfillStatus::read(session).await
        })
    }

    /// Switches names off: what is asked for by them is not found any more, and their rows go.
    pub fn drop_names(&self, names: &[impl AsRef<str>]) -> Result<BackfillStatus, PostgresError> {
        let names = checked(names)?;
        if names.iter().any(|name| name == ALWAYS) {
            return Err(PostgresError::Refused(
                "`p` stays indexed: by it the store knows whose a private message is".to_owned(),
            ));
        }
        self.own.with(async |session| {
            locked(session, self.schema(), async || {
                session.execute(SWITCH_OFF, &[&names]).await?;
                Ok(())
            })
            .await?;
            BackfillStatus::read(session).await
        })
    }

    /// Ends what is under way, and takes back what it has done.
    pub fn cancel(&self) -> Result<BackfillStatus, PostgresError> {
        self.own.with(async |session| {
            locked(session, self.schema(), async || {
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
        self.own.with(async |session| {
            session.execute(PAUSE, &[&paused]).await?;
            tell(session, self.schema()).await?;
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
        self.own.with(async |session| {
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
        let Self { own } = self;
        own.runtime.block_on(work::run(&own.connector, |status| {
            progress(status);
            !stop.load(Ordering::Relaxed)
        }))
    }

    fn schema(&self) -> &SchemaName {
        &self.own.connector.schema
    }
}

/// Switches on those of these names that are not, unless a backfill is under way; returns whether it
/// is not. Where there are no events yet there is nothing to fill.
async fn switch_on(
    session: &Session,
    schema: &SchemaName,
    names: &[String],
) -> Result<bool, PostgresError> {
    let table = format!("{schema}.events");
    locked(session, schema, async || {
        let under_way = session.rows(UNDER_WAY, &[]).await?;
        if under_way.first().is_none_or(|row| row.get(0)) {
            return Ok(false);
        }
        if session.execute(SWITCH_ON, &[&names]).await? > 0 {
            session.execute(BEGIN, &[&table]).await?;
        }
        Ok(true)
    })
    .await
}

/// Switches on what the configuration names and is not indexed. What can't be now, because a backfill
/// is under way, can be after its end.
pub(crate) async fn index_configured(
    session: &Session,
    schema: &SchemaName,
    names: &[TagName],
) -> Result<(), PostgresError> {
    if names.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = names.iter().map(TagName::to_string).collect();
    let rows = session.rows(ABSENT, &[&names]).await?;
    if rows.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    if switch_on(session, schema, &names).await? {
        tracing::info!(names = names.join(" "), "indexing tags of more names");
    }
    Ok(())
}

/// Changes which names there are, when no writer is at work: each reads them under the lock.
async fn locked<T>(
    session: &Session,
    schema: &SchemaName,
    act: impl AsyncFnOnce() -> Result<T, PostgresError>,
) -> Result<T, PostgresError> {
    session.client.batch_execute("BEGIN").await?;
    session.rows(LOCK, &[&lock_key(schema, "writer")]).await?;
    let end = act().await?;
    tell(session, schema).await?;
    session.client.batch_execute("COMMIT").await?;
    Ok(end)
}

async fn tell(session: &Session, schema: &SchemaName) -> Result<(), PostgresError> {
    session.rows(TELL, &[&channel(schema), &WAKE]).await?;
    Ok(())
}

fn checked(names: &[impl AsRef<str>]) -> Result<Vec<String>, PostgresError> {
    let checked = |name: &str| match TagName::new(name) {
        Some(name) => Ok(name.to_string()),
        None => Err(PostgresError::Refused(format!(
            "{name:?} is no name of a tag: those have 1 to {} bytes, and no control characters",
            TagName::BYTES_MAX
        ))),
    };
    names.iter().map(|name| checked(name.as_ref())).collect()
}
