//! Putting a batch's changes into the tables.

use hikyaku_store::rules;
use tokio::try_join;

use super::{
    copy::{self, Columns, Copy},
    picture::{Picture, Stored, targets},
    remove::{remove_events, remove_tags},
    tags::{self, TagRow},
};
use crate::{
    PostgresError,
    columns::{self, Tie, Word},
    connection::Session,
    names::KnownNames,
};

const EVENTS: &str = "INSERT INTO {schema}.events (seq, age, author, expires_at, tie, kind, conditional, \
        hidden, vanish, id, pubkey, address, json) \
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::uuid[], \
        $6::integer[], $7::boolean[], $8::boolean[], $9::boolean[], $10::bytea[], $11::bytea[], \
        $12::bytea[], $13::bytea[])";
const COPY_EVENTS: &str = "COPY {schema}.events (seq, age, author, expires_at, tie, kind, conditional, \
    hidden, vanish, id, pubkey, address, json) FROM STDIN (FORMAT binary)";
const DELETIONS: &str = "INSERT INTO {schema}.deletions (target, pubkey, seq, age) \
    SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[])";
const VANISHINGS: &str = "INSERT INTO {schema}.vanishings (pubkey, seq, age) \
    SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[])";
const HIDDEN: &str = "UPDATE {schema}.events e SET hidden = h.hidden, \
        conditional = e.conditional OR h.shown_from IS NOT NULL, \
        shown_from = coalesce(h.shown_from, e.shown_from) \
    FROM unnest($1::bigint[], $2::boolean[], $3::bigint[]) AS h(seq, hidden, shown_from) \
    WHERE e.seq = h.seq AND e.hidden <> h.hidden";
const CLEAR_HIDINGS: &str = "DELETE FROM {schema}.hidings WHERE seq = ANY($1)";
const HIDINGS: &str = "INSERT INTO {schema}.hidings (seq, hider) \
    SELECT * FROM unnest($1::bigint[], $2::bigint[])";

pub(super) const STATEMENTS: [&str; 7] = [
    EVENTS,
    COPY_EVENTS,
    DELETIONS,
    VANISHINGS,
    HIDDEN,
    CLEAR_HIDINGS,
    HIDINGS,
];

/// Puts the changes into the tables; what is sent is sent at once, in order. While indexes are put off
/// there are no rows of tags: they are made with their index, of what is there then.
pub(super) async fn apply(
    session: &Session,
    picture: &Picture,
    names: &KnownNames,
) -> Result<(), PostgresError> {
    let new = picture.new_events();
    let changed: Vec<_> = picture.hidden_changed().collect();
    let all = || new.iter().chain(&changed).copied();
    let went = changed
        .iter()
        .copied()
        .filter(|row| !row.was_hidden && !row.hiders.is_empty());
    let came = all().filter(|row| (row.is_new || row.was_hidden) && row.hiders.is_empty());
    try_join!(
        biased;
        async {
            if picture.indexes_deferred {
                return Ok(0);
            }
            let gone = picture.changes.removed.iter().chain(went);
            remove_tags(session, gone, names).await
        },
        remove_events(session, &picture.changes.removed),
        insert_events(session, &new),
        async {
            if picture.indexes_deferred {
                return Ok(());
            }
            let names = &names.indexed;
            let rows = came.flat_map(|row| TagRow::all_of(&row.event, row.seq, row.conditional, names));
            tags::insert(session, rows.collect()).await
        },
        insert_deletions(session, &new),
        insert_vanishings(session, &new),
        change_hidings(session, &changed, all()),
    )?;
    Ok(())
}

/// An event as a row of `events`.
struct EventRow<'a> {
    seq: i64,
    age: i64,
    author: i64,
    expires_at: Option<i64>,
    tie: Tie,
    kind: i32,
    conditional: bool,
    hidden: bool,
    vanish: bool,
    id: Word,
    pubkey: Word,
    address: Option<Word>,
    json: &'a [u8],
}

impl<'a> EventRow<'a> {
    const COLUMNS: i16 = 13;

    fn of(row: &'a Stored) -> Self {
        let event = &*row.event;
        let expires_at = event.expires_at().map(columns::seconds);
        Self {
            seq: row.seq,
            age: columns::age(event.created_at()),
            author: columns::author(&event.pubkey()),
            expires_at,
            tie: Tie::of(&event.id()),
            kind: i32::from(event.kind().0),
            conditional: expires_at.is_some(),
            hidden: !row.hiders.is_empty(),
            vanish: row.vanish,
            id: event.id().into(),
            pubkey: event.pubkey().into(),
            address: event
                .address()
                .map(|address| Word(columns::address(&address))),
            json: event.json(),
        }
    }

    fn write(&self, columns: &mut Columns<'_>) {
        columns.bigint(self.seq);
        columns.bigint(self.age);
        columns.bigint(self.author);
        columns.nullable(self.expires_at, Columns::bigint);
        columns.tie(self.tie);
        columns.integer(self.kind);
        columns.boolean(self.conditional);
        columns.boolean(self.hidden);
        columns.boolean(self.vanish);
        columns.word(self.id);
        columns.word(self.pubkey);
        columns.nullable(self.address, Columns::word);
        columns.bytes(self.json);
    }
}

async fn insert_events(session: &Session, new: &[&Stored]) -> Result<(), PostgresError> {
    let rows = new.iter().map(|row| EventRow::of(row));
    if new.len() >= copy::ROWS_MIN {
        let mut copy = Copy::begin(session, COPY_EVENTS).await?;
        for row in rows {
            copy.row(EventRow::COLUMNS, |columns| row.write(columns))
                .await?;
        }
        copy.end().await?;
    } else if !new.is_empty() {
        let rows: Vec<_> = rows.collect();
        session
            .execute(
                EVENTS,
                &[
                    &column(&rows, |row| row.seq),
                    &column(&rows, |row| row.age),
                    &column(&rows, |row| row.author),
                    &column(&rows, |row| row.expires_at),
                    &column(&rows, |row| row.tie),
                    &column(&rows, |row| row.kind),
                    &column(&rows, |row| row.conditional),
                    &column(&rows, |row| row.hidden),
                    &column(&rows, |row| row.vanish),
                    &column(&rows, |row| row.id),
                    &column(&rows, |row| row.pubkey),
                    &column(&rows, |row| row.address),
                    &column(&rows, |row| row.json),
                ],
            )
            .await?;
    }
    Ok(())
}

/// Returns a column of rows.
pub(super) fn column<'a, Row, T>(rows: &'a [Row], value: impl Fn(&'a Row) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

async fn insert_deletions(session: &Session, new: &[&Stored]) -> Result<(), PostgresError> {
    let (mut named, mut keys, mut numbers, mut ages) = (vec![], vec![], vec![], vec![]);
    for row in new {
        for target in targets(&rules::effect(&row.event, row.vanish)) {
            named.push(target);
            keys.push(Word::from(row.event.pubkey()));
            numbers.push(row.seq);
            ages.push(columns::age(row.event.created_at()));
        }
    }
    if !named.is_empty() {
        session
            .execute(DELETIONS, &[&named, &keys, &numbers, &ages])
            .await?;
    }
    Ok(())
}

async fn insert_vanishings(session: &Session, new: &[&Stored]) -> Result<(), PostgresError> {
    let requests = || new.iter().filter(|row| row.vanish);
    if requests().next().is_none() {
        return Ok(());
    }
    let keys: Vec<Word> = requests().map(|row| row.event.pubkey().into()).collect();
    let numbers: Vec<i64> = requests().map(|row| row.seq).collect();
    let ages: Vec<i64> = requests()
        .map(|row| columns::age(row.event.created_at()))
        .collect();
    session
        .execute(VANISHINGS, &[&keys, &numbers, &ages])
        .await?;
    Ok(())
}

/// Writes who hides the events: the flag of those that are in the table, and the hiders of all.
async fn change_hidings<'a>(
    session: &Session,
    changed: &[&Stored],
    all: impl Iterator<Item = &'a Stored>,
) -> Result<(), PostgresError> {
    let numbers: Vec<i64> = changed.iter().map(|row| row.seq).collect();
    let flags: Vec<bool> = changed.iter().map(|row| !row.hiders.is_empty()).collect();
    let shown_from: Vec<_> = changed.iter().map(|row| row.shown_from).collect();
    let (mut hidden, mut hiders) = (vec![], vec![]);
    for row in all {
        for hider in &row.hiders {
            hidden.push(row.seq);
            hiders.push(i64::from(*hider));
        }
    }
    try_join!(
            biased;

        async {
            if numbers.is_empty() { Ok(0) } else { session.execute(HIDDEN, &[&numbers, &flags, &shown_from]).await }
        },
        async {
            if numbers.is_empty() { Ok(0) } else { session.execute(CLEAR_HIDINGS, &[&numbers]).await }
        },
        async {
            if hidden.is_empty() { Ok(0) } else { session.execute(HIDINGS, &[&hidden, &hiders]).await }
        },
    )?;
    Ok(())
}
