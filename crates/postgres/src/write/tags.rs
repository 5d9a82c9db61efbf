//! Rows of the index of tags, made from events and put into it.

use std::pin::pin;

use futures_util::TryStreamExt;
use hikyaku_event::Event;
use tokio_postgres::{binary_copy::BinaryCopyOutStream, types::Type};

use super::{
    apply::column,
    copy::{self, Columns, Copy},
    load,
};
use crate::{
    PostgresError,
    columns::{self, Tie},
    connection::Session,
    names::{KnownNames, Name, Names},
};

const INSERT: &str = "INSERT INTO {schema}.event_tags \
        (age, seq, author, tie, kind, conditional, name, value) \
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::uuid[], $5::integer[], \
        $6::boolean[], $7::text[], $8::bytea[])";
const INSERT_MISSING: &str = "INSERT INTO {schema}.event_tags \
        (age, seq, author, tie, kind, conditional, name, value) \
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::uuid[], $5::integer[], \
        $6::boolean[], $7::text[], $8::bytea[]) \
    ON CONFLICT DO NOTHING";
const COPY: &str = "COPY {schema}.event_tags (age, seq, author, tie, kind, conditional, name, value) \
    FROM STDIN (FORMAT binary)";

/// Nobody sees the table before the transaction ends, in which it was emptied: rows need no VACUUM.
const COPY_FROZEN: &str = "COPY {schema}.event_tags (age, seq, author, tie, kind, conditional, name, value) \
    FROM STDIN (FORMAT binary, FREEZE)";
const EMPTY: &str = "TRUNCATE {schema}.event_tags";
const NAMES: &str = KnownNames::SQL;
const EVENTS: &str = "COPY (SELECT seq, conditional, json FROM {schema}.events WHERE NOT hidden) \
    TO STDOUT (FORMAT binary)";

/// To be prepared before they are sent together with others.
pub(crate) const STATEMENTS: [&str; 3] = [INSERT, INSERT_MISSING, COPY];

/// A tag as a row of `event_tags`.
#[derive(Clone)]
pub(crate) struct TagRow {
    pub(crate) seq: i64,
    pub(crate) name: Name,
    conditional: bool,
    age: i64,
    author: i64,
    tie: Tie,
    kind: i32,
    value: Vec<u8>,
}

impl TagRow {
    /// Returns the rows that an event has under some names.
    pub(crate) fn all_of(
        event: &Event,
        seq: i64,
        conditional: bool,
        names: &Names,
    ) -> impl Iterator<Item = Self> + use<> {
        let age = columns::age(event.created_at());
        let author = columns::author(&event.pubkey());
        let tie = Tie::of(&event.id());
        let kind = i32::from(event.kind().0);
        let rows = names.rows_of(event).into_iter();
        rows.map(move |(name, value)| Self {
            seq,
            name,
            conditional,
            age,
            author,
            tie,
            kind,
            value,
        })
    }

    /// Returns the same row of an event that is conditional, or is not.
    pub(crate) fn with(&self, conditional: bool) -> Self {
        Self {
            conditional,
            ..self.clone()
        }
    }

    const COLUMNS: i16 = 8;

    fn write(&self, columns: &mut Columns<'_>) {
        columns.bigint(self.age);
        columns.bigint(self.seq);
        columns.bigint(self.author);
        columns.tie(self.tie);
        columns.integer(self.kind);
        columns.boolean(self.conditional);
        columns.bytes(self.name.0.as_str().as_bytes());
        columns.bytes(&self.value);
    }
}

/// Puts rows into the index, none of which is there.
pub(crate) async fn insert(session: &Session, mut rows: Vec<TagRow>) -> Result<(), PostgresError> {
    if rows.len() < copy::ROWS_MIN {
        return execute(session, INSERT, &rows).await;
    }
    // In the index's order, so that neighbours find their page in memory.
    let key = |row: &TagRow| (row.age, row.tie);
    rows.sort_unstable_by(|a, b| {
        let by_value = (&a.name, &a.value).cmp(&(&b.name, &b.value));
        by_value.then_with(|| key(a).cmp(&key(b)))
    });
    let mut copy = Copy::begin(session, COPY).await?;
    for row in &rows {
        copy.row(TagRow::COLUMNS, |columns| row.write(columns))
            .await?;
    }
    copy.end().await?;
    Ok(())
}

/// Makes all rows anew, in the transaction of `session`, of the events that `reading` reads; returns how
/// many there are.
pub(crate) async fn refill(session: &Session, reading: &Session) -> Result<u64, PostgresError> {
    let names = KnownNames::of(&session.rows(NAMES, &[]).await?).indexed;
    session.execute(EMPTY, &[]).await?;
    let events = reading.prepared(EVENTS).await?;
    let events = reading.client.copy_out(&events).await?;
    let types = [Type::INT8, Type::BOOL, Type::BYTEA];
    let mut events = pin!(BinaryCopyOutStream::new(events, &types));
    let mut copy = Copy::begin(session, COPY_FROZEN).await?;
    while let Some(row) = events.try_next().await? {
        let (seq, conditional) = (row.try_get(0)?, row.try_get(1)?);
        let event = match load::event(seq, row.try_get(2)?) {
            Ok(event) => event,
            // One damaged row must not keep the others from being found.
            Err(error) => {
                tracing::error!(%error, "a stored event has no tags in the index");
                continue;
            }
        };
        for row in TagRow::all_of(&event, seq, conditional, &names) {
            copy.row(TagRow::COLUMNS, |columns| row.write(columns))
                .await?;
        }
    }
    copy.end().await
}

/// Puts those rows into the index that are not there. Looking costs more than writing.
pub(crate) async fn insert_missing(
    session: &Session,
    rows: &[TagRow],
) -> Result<(), PostgresError> {
    execute(session, INSERT_MISSING, rows).await
}

async fn execute(session: &Session, sql: &str, rows: &[TagRow]) -> Result<(), PostgresError> {
    if rows.is_empty() {
        return Ok(());
    }
    session
        .execute(
            sql,
            &[
                &column(rows, |row| row.age),
                &column(rows, |row| row.seq),
                &column(rows, |row| row.author),
                &column(rows, |row| row.tie),
                &column(rows, |row| row.kind),
                &column(rows, |row| row.conditional),
                &column(rows, |row| &row.name),
                &column(rows, |row| &*row.value),
            ],
        )
        .await?;
    Ok(())
}
