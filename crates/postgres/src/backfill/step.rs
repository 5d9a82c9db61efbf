//! One batch: looked at without a lock, written whole or not at all.

use std::time::Duration;

use bytes::Bytes;
use hikyaku_event::Event;
use tokio::try_join;
use tokio_postgres::Row;

use crate::{
    PostgresError,
    columns::Tie,
    connection::{Session, lock_key},
    names::{Name, Names},
    schema::SchemaName,
};

/// Events of a batch, and rows from which on it takes no more: some tens of milliseconds of the
/// writer's lock at most, so that an event's OK never waits for longer.
const EVENTS_MAX: i64 = 1_000;
const ROWS_MAX: usize = 2_000;
/// Rows that one statement takes away.
const DROPPED_MAX: i64 = 2_000;

const FILLING: &str = "SELECT name, filled_age, filled_tie FROM {schema}.tag_names \
    WHERE NOT filled AND NOT dropping";
const DROPPING: &str = "SELECT name FROM {schema}.tag_names WHERE dropping ORDER BY name LIMIT 1";
const PAGE: &str = "SELECT seq, age, tie, json FROM {schema}.events \
    WHERE NOT hidden AND (age, tie) > ($1, $2) ORDER BY age, tie LIMIT $3";
/// Without a wait for the disk, which others would wait for behind the lock: rows and cursor are lost
/// together, if the server is, and made again.
const BEGIN: &str = "BEGIN; SET LOCAL synchronous_commit = off";
const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";
/// Rows of the events that are still there, of the names that are still wanted. Those that a writer
/// has written are there already.
const ROWS: &str = "INSERT INTO {schema}.event_tags \
        (age, seq, author, tie, kind, conditional, name, value) \
    SELECT e.age, e.seq, e.author, e.tie, e.kind, e.conditional, w.name, w.value \
    FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS w(seq, name, value) \
    JOIN {schema}.events e ON e.seq = w.seq AND NOT e.hidden \
    WHERE (SELECT NOT n.filled AND NOT n.dropping FROM {schema}.tag_names n WHERE n.name = w.name) \
    ON CONFLICT DO NOTHING";
const CURSOR: &str = "UPDATE {schema}.tag_names SET filled_age = $1, filled_tie = $2, filled = $3 \
    WHERE NOT filled AND NOT dropping";
const COUNT: &str =
    "UPDATE {schema}.backfill SET done = done + $1, milliseconds = milliseconds + $2";
const DROP: &str = "DELETE FROM {schema}.event_tags t USING ( \
        SELECT name, value, age, tie FROM {schema}.event_tags WHERE name = $1 \
        ORDER BY name, value, age, tie LIMIT $2 \
    ) d WHERE t.name = d.name AND t.value = d.value AND t.age = d.age AND t.tie = d.tie";
const DROPPED: &str = "DELETE FROM {schema}.tag_names WHERE name = $1 AND dropping";

/// The place where to go on.
type Cursor = (i64, Tie);

/// Goes on by one batch; returns how many events or rows it had, and `None` if there is nothing to do.
/// `spent` is the time that the batches before took and no batch has counted.
pub(super) async fn step(
    session: &Session,
    schema: &SchemaName,
    spent: Duration,
) -> Result<Option<u64>, PostgresError> {
    let lock = lock_key(schema, "writer");
    let dropping = session.rows(DROPPING, &[]).await?;
    if let Some(row) = dropping.first() {
        return drop_rows(session, lock, row.get(0)).await.map(Some);
    }
    let filling = session.rows(FILLING, &[]).await?;
    let Some(row) = filling.first() else {
        return Ok(None);
    };
    let cursor = row
        .get::<_, Option<i64>>(1)
        .zip(row.get::<_, Option<Tie>>(2))
        .unwrap_or((i64::MIN, Tie::FIRST));
    let names = filling.iter().map(|row| row.get(0)).collect();
    let page = session
        .rows(PAGE, &[&cursor.0, &cursor.1, &EVENTS_MAX])
        .await?;
    let batch = Batch::of(&page, &names, cursor)?;
    fill(session, lock, &batch, spent).await?;
    Ok(Some(batch.events))
}

/// What a batch writes.
struct Batch {
    /// Name and value of a row, and its event's number: in the order of the index, so that neighbours
    /// find their page in memory.
    rows: Vec<(Name, Vec<u8>, i64)>,
    events: u64,
    end: Cursor,
    is_last: bool,
}

impl Batch {
    fn of(page: &[Row], names: &Names, begin: Cursor) -> Result<Self, PostgresError> {
        let mut batch = Self {
            rows: Vec::new(),
            events: 0,
            end: begin,
            is_last: i64::try_from(page.len()).is_ok_and(|events| events < EVENTS_MAX),
        };
        for row in page {
            if batch.rows.len() >= ROWS_MAX {
                batch.is_last = false;
                break;
            }
            let seq: i64 = row.get(0);
            let json = Bytes::copy_from_slice(row.get(3));
            let event = Event::from_stored(json).map_err(|error| {
                PostgresError::Corrupt(format!("the event with number {seq} is not one: {error}"))
            })?;
            let rows = names.rows_of(&event).into_iter();
            batch
                .rows
                .extend(rows.map(|(name, value)| (name, value, seq)));
            batch.events += 1;
            batch.end = (row.get(1), row.get(2));
        }
        batch.rows.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        Ok(batch)
    }
}

async fn fill(
    session: &Session,
    lock: i64,
    batch: &Batch,
    spent: Duration,
) -> Result<(), PostgresError> {
    let events = i64::try_from(batch.events).unwrap_or(i64::MAX);
    let spent = i64::try_from(spent.as_millis()).unwrap_or(i64::MAX);
    let (age, tie) = batch.end;
    let numbers: Vec<i64> = batch.rows.iter().map(|(_, _, seq)| *seq).collect();
    let names: Vec<&Name> = batch.rows.iter().map(|(name, ..)| name).collect();
    let values: Vec<&[u8]> = batch.rows.iter().map(|(_, value, _)| &**value).collect();
    // Prepared before: what is sent together stays in order.
    for sql in [LOCK, ROWS, CURSOR, COUNT] {
        session.prepared(sql).await?;
    }
    try_join!(
        biased;

        async { Ok(session.client.batch_execute(BEGIN).await?) },
        async { session.rows(LOCK, &[&lock]).await },
        async {
            session
                .execute(ROWS, &[&numbers, &names, &values])
                .await
        },
        async { session.execute(CURSOR, &[&age, &tie, &batch.is_last]).await },
        async { session.execute(COUNT, &[&events, &spent]).await },
        async { Ok(session.client.batch_execute("COMMIT").await?) },
    )?;
    Ok(())
}

/// Takes rows of a name out of the index, or, when there are none left, the name itself.
async fn drop_rows(session: &Session, lock: i64, name: &str) -> Result<u64, PostgresError> {
    let removed = session.execute(DROP, &[&name, &DROPPED_MAX]).await?;
    if removed == 0 {
        // A writer that began before the name was switched off has ended when the lock is had.
        session.client.batch_execute("BEGIN").await?;
        session.rows(LOCK, &[&lock]).await?;
        if session.execute(DROP, &[&name, &DROPPED_MAX]).await? == 0 {
            session.execute(DROPPED, &[&name]).await?;
        }
        session.client.batch_execute("COMMIT").await?;
    }
    Ok(removed)
}
