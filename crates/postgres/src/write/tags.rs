//! Rows of the index of tags, made from events and put into it.

use hikyaku_event::Event;
use tokio_postgres::types::{ToSql, Type};

use super::{
    apply::column,
    copy::{self, copy},
};
use crate::{
    PostgresError,
    columns::{self, Tie},
    connection::Session,
    names::{Name, Names},
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
    const TYPES: [Type; 8] = [
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::UUID,
        Type::INT4,
        Type::BOOL,
        Type::TEXT,
        Type::BYTEA,
    ];

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

    fn columns(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.age,
            &self.seq,
            &self.author,
            &self.tie,
            &self.kind,
            &self.conditional,
            &self.name,
            &self.value,
        ]
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
    let rows = rows.into_iter();
    copy(session, COPY, &TagRow::TYPES, rows, TagRow::columns).await?;
    Ok(())
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
