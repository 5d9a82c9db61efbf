//! One batch: looked at without a lock, written whole or not at all.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::try_join;
use tokio_postgres::Row;

use super::Pace;
use crate::{
    PostgresError,
    columns::Tie,
    connection::{Connector, Session, lock_key},
    names::Names,
    write::{
        event_of,
        tags::{self, TagRow},
    },
};

/// Events of a batch, and rows that it does not exceed unless its first event does: some tens of
/// milliseconds of the writer's lock, so that an event's OK does not wait for longer.
const EVENTS_MAX: i64 = 1_000;
const ROWS_MAX: usize = 2_000;
/// With more of the time a batch is longer, with all of it so many times: more rows at once find their
/// places in the index more often beside each other.
const LONGEST: u32 = 4;
const PAGE_MAX: i64 = EVENTS_MAX * LONGEST as i64;
/// Rows that one statement takes away.
const DROPPED_MAX: i64 = 2_000;

/// Those that are the least far come first.
const FILLING: &str = "SELECT name, filled_age, filled_tie FROM {schema}.tag_names \
    WHERE NOT filled AND NOT dropping ORDER BY filled_age NULLS FIRST, filled_tie, name";
const DROPPING: &str = "SELECT name FROM {schema}.tag_names WHERE dropping ORDER BY name LIMIT 1";
const PAGE: &str = "SELECT seq, age, tie, json FROM {schema}.events \
    WHERE NOT hidden AND (age, tie) > ($1, $2) ORDER BY age, tie LIMIT $3";
/// Without a wait for the disk, which others would wait for behind the lock: rows and cursor are lost
/// together, if the server is, and made again.
const BEGIN: &str = "BEGIN; SET LOCAL synchronous_commit = off";
const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";
/// Of the events of the page those that are still to be seen.
const THERE: &str =
    "SELECT seq, conditional FROM {schema}.events WHERE seq = ANY($1) AND NOT hidden";
const CURSOR: &str = "UPDATE {schema}.tag_names SET filled_age = $1, filled_tie = $2, filled = $3 \
    WHERE name = ANY($4) AND NOT filled AND NOT dropping";
const COUNT: &str =
    "UPDATE {schema}.backfill SET done = done + $1, milliseconds = milliseconds + $2";
const DROP: &str = "DELETE FROM {schema}.event_tags t USING ( \
        SELECT name, value, age, tie FROM {schema}.event_tags WHERE name = $1 \
        ORDER BY name, value, age, tie LIMIT $2 \
    ) d WHERE t.name = d.name AND t.value = d.value AND t.age = d.age AND t.tie = d.tie";
const IN_RECOVERY: &str = "SELECT pg_is_in_recovery()";
const DROPPED: &str = "DELETE FROM {schema}.tag_names WHERE name = $1 AND dropping";

/// The place where to go on.
type Cursor = (i64, Tie);

/// One batch after the other.
pub(super) struct Steps<'a> {
    session: &'a Session,
    connector: &'a Connector,
    /// The connection that looks ahead while a batch is written, where the backfill has the whole time.
    ahead: Option<Arc<Session>>,
    next: Option<Batch>,
    /// Events that are read for a batch.
    page: i64,
}

impl<'a> Steps<'a> {
    pub(super) fn new(session: &'a Session, connector: &'a Connector) -> Self {
        Self {
            session,
            connector,
            ahead: None,
            next: None,
            page: PAGE_MAX,
        }
    }

    /// Goes on by one batch, of no more than a second's events at a rate; returns how many events or rows
    /// it had, and `None` if there is nothing to do. `spent` is the time that the batches before took and
    /// no batch has counted.
    pub(super) async fn step(
        &mut self,
        pace: Pace,
        spent: Duration,
    ) -> Result<Option<u64>, PostgresError> {
        let session = self.session;
        let lock = lock_key(&self.connector.schema, "writer");
        let most = |max: i64| pace.rate.map_or(max, |rate| i64::from(rate).clamp(1, max));
        let dropping = session.rows(DROPPING, &[]).await?;
        if let Some(row) = dropping.first() {
            let most = most(DROPPED_MAX);
            return drop_rows(session, lock, row.get(0), most).await.map(Some);
        }
        let Some((names, cursor)) = filling(session).await? else {
            return Ok(None);
        };
        let times = (LONGEST * pace.share.min(100) / 100).max(1);
        let size = Size {
            events: most(EVENTS_MAX * i64::from(times)).min(self.page),
            rows: ROWS_MAX * times as usize,
        };
        let fits = |next: &Batch| {
            let is_small = i64::try_from(next.events).is_ok_and(|events| events <= size.events);
            next.begin == cursor && next.names == names && is_small
        };
        let batch = match self.next.take().filter(fits) {
            Some(batch) => batch,
            None => Batch::read(session, names, cursor, size).await?,
        };
        self.page = page_behind(&batch, self.page);
        self.ahead = match self.ahead.take() {
            _ if pace.share < 100 || pace.rate.is_some() => None,
            None => self.to_look_ahead().await,
            open => open,
        };
        let (filled, next) = tokio::join!(self.fill(lock, &batch, spent), async {
            match &self.ahead {
                Some(ahead) if !batch.is_last => {
                    let names = batch.names.clone();
                    Batch::read(ahead, names, batch.end, size).await.map(Some)
                }
                _ => Ok(None),
            }
        });
        filled?;
        // What is written stays so; the next batch is read as if nobody had looked ahead.
        self.next = next.unwrap_or_else(|error| {
            tracing::debug!(%error, "the next batch can't be read ahead");
            self.ahead = None;
            None
        });
        Ok(Some(batch.events))
    }

    /// Gives back what is only needed while batches follow each other.
    pub(super) fn rest(&mut self) {
        (self.ahead, self.next) = (None, None);
    }

    /// Returns a second connection, if one may be had, and to the server that is written to: of several
    /// hosts it may be another one, which lags behind.
    async fn to_look_ahead(&self) -> Option<Arc<Session>> {
        let ahead = self.connector.connect().await.ok()?;
        let lags = ahead.rows(IN_RECOVERY, &[]).await.ok()?;
        let lags = lags.first().is_none_or(|row| row.get(0));
        (!lags).then_some(ahead)
    }

    async fn fill(&self, lock: i64, batch: &Batch, spent: Duration) -> Result<(), PostgresError> {
        let session = self.session;
        match fill(session, lock, batch, spent, Rows::AreMissing).await {
            // A writer may have been there before: with an old event that came after the name was switched
            // on, or one that was hidden.
            Err(PostgresError::Rejected(_)) => {
                session.client.batch_execute("ROLLBACK").await?;
                fill(session, lock, batch, spent, Rows::MayBeThere).await
            }
            result => result,
        }
    }
}

/// Returns how many events to read behind a batch: as many as had room, and some more. What has none is
/// read once more.
fn page_behind(batch: &Batch, page: i64) -> i64 {
    let page = if batch.is_cut {
        let events = i64::try_from(batch.events).unwrap_or(PAGE_MAX);
        events + events / 4 + 1
    } else {
        2 * page
    };
    page.min(PAGE_MAX)
}

/// How much a batch may have.
#[derive(Clone, Copy)]
struct Size {
    events: i64,
    rows: usize,
}

/// Returns the names that are the least far, and how far that is.
async fn filling(session: &Session) -> Result<Option<(Vec<String>, Cursor)>, PostgresError> {
    let rows = session.rows(FILLING, &[]).await?;
    let cursor = |row: &Row| {
        row.get::<_, Option<i64>>(1)
            .zip(row.get::<_, Option<Tie>>(2))
            .unwrap_or((i64::MIN, Tie::FIRST))
    };
    Ok(rows.first().map(cursor).map(|first| {
        let least = rows.iter().take_while(|row| cursor(row) == first);
        (least.map(|row| row.get(0)).collect(), first)
    }))
}

/// What is known of a batch's rows in the index.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// None is there; if one is, nothing is written.
    AreMissing,
    MayBeThere,
}

/// What a batch writes.
struct Batch {
    names: Vec<String>,
    rows: Vec<TagRow>,
    events: u64,
    begin: Cursor,
    end: Cursor,
    /// There was no room for all events of the page.
    is_cut: bool,
    is_last: bool,
}

impl Batch {
    /// Reads the events behind a place.
    async fn read(
        session: &Session,
        names: Vec<String>,
        begin: Cursor,
        size: Size,
    ) -> Result<Self, PostgresError> {
        let (age, tie) = begin;
        let page = session.rows(PAGE, &[&age, &tie, &size.events]).await?;
        let indexed: Names = names.iter().map(String::as_str).collect();
        let mut batch = Self {
            names,
            rows: Vec::new(),
            events: 0,
            begin,
            end: begin,
            is_cut: false,
            is_last: i64::try_from(page.len()).is_ok_and(|events| events < size.events),
        };
        for row in page {
            let seq = row.get(0);
            let rows: Vec<_> = match event_of(seq, row.get(3)) {
                Ok(event) => TagRow::all_of(&event, seq, false, &indexed).collect(),
                // One damaged row must not keep the others from being found.
                Err(error) => {
                    tracing::error!(%error, "a stored event has no tags in the index");
                    Vec::new()
                }
            };
            if batch.events > 0 && batch.rows.len() + rows.len() > size.rows {
                (batch.is_cut, batch.is_last) = (true, false);
                break;
            }
            batch.rows.extend(rows);
            batch.events += 1;
            batch.end = (row.get(1), row.get(2));
        }
        Ok(batch)
    }

    /// Returns the rows of those events that are there, each with whether it is conditional, under those
    /// names that are wanted.
    fn rows(&self, wanted: &[Row], there: &[Row]) -> Vec<TagRow> {
        let wanted: HashSet<&str> = wanted.iter().map(|row| row.get(0)).collect();
        let there: HashMap<i64, bool> = there.iter().map(|row| (row.get(0), row.get(1))).collect();
        let row = |row: &TagRow| {
            let conditional = *there.get(&row.seq)?;
            let wanted = wanted.contains(row.name.0.as_str());
            wanted.then(|| row.with(conditional))
        };
        self.rows.iter().filter_map(row).collect()
    }
}

async fn fill(
    session: &Session,
    lock: i64,
    batch: &Batch,
    spent: Duration,
    known: Rows,
) -> Result<(), PostgresError> {
    let events = i64::try_from(batch.events).unwrap_or(i64::MAX);
    let spent = i64::try_from(spent.as_millis()).unwrap_or(i64::MAX);
    let (age, tie) = batch.end;
    let mut numbers: Vec<i64> = batch.rows.iter().map(|row| row.seq).collect();
    numbers.dedup();
    // Prepared before: what is sent together stays in order.
    for sql in [LOCK, FILLING, THERE, CURSOR, COUNT]
        .iter()
        .chain(&tags::STATEMENTS)
    {
        session.prepared(sql).await?;
    }
    let ((), _, wanted, there) = try_join!(
        biased;

        async { Ok(session.client.batch_execute(BEGIN).await?) },
        async { session.rows(LOCK, &[&lock]).await },
        async { session.rows(FILLING, &[]).await },
        async { session.rows(THERE, &[&numbers]).await },
    )?;
    let rows = batch.rows(&wanted, &there);
    try_join!(
        biased;

        async {
            match known {
                Rows::AreMissing => tags::insert(session, rows).await,
                Rows::MayBeThere => tags::insert_missing(session, &rows).await,
            }
        },
        async { session.execute(CURSOR, &[&age, &tie, &batch.is_last, &batch.names]).await },
        async { session.execute(COUNT, &[&events, &spent]).await },
        async { Ok(session.client.batch_execute("COMMIT").await?) },
    )?;
    Ok(())
}

/// Takes rows of a name out of the index, or, when there are none left, the name itself.
async fn drop_rows(
    session: &Session,
    lock: i64,
    name: &str,
    most: i64,
) -> Result<u64, PostgresError> {
    let removed = session.execute(DROP, &[&name, &most]).await?;
    if removed == 0 {
        // A writer that began before the name was switched off has ended when the lock is had.
        session.client.batch_execute("BEGIN").await?;
        session.rows(LOCK, &[&lock]).await?;
        if session.execute(DROP, &[&name, &most]).await? == 0 {
            session.execute(DROPPED, &[&name]).await?;
        }
        session.client.batch_execute("COMMIT").await?;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_as_long_as_batches_are() {
        let batch = |events, is_cut| Batch {
            names: Vec::new(),
            rows: Vec::new(),
            events,
            begin: (0, Tie::FIRST),
            end: (0, Tie::FIRST),
            is_cut,
            is_last: false,
        };
        assert_eq!(page_behind(&batch(400, true), PAGE_MAX), 501);
        assert_eq!(page_behind(&batch(PAGE_MAX as u64, true), 1), PAGE_MAX);
        let mut page = page_behind(&batch(1, true), PAGE_MAX);
        assert_eq!(page, 2);
        for _ in 0..100 {
            page = page_behind(&batch(1, false), page);
        }
        assert_eq!(page, PAGE_MAX);
    }
}
