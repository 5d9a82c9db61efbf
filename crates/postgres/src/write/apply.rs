//! Putting a batch's changes into the tables.

use std::collections::BTreeSet;

use hikyaku_event::Event;
use hikyaku_store::rules;
use tokio::try_join;

use super::{
    picture::{Picture, Stored, targets},
    remove::{remove, remove_tags},
};
use crate::{
    PostgresError,
    columns::{self, Tie, Word},
    connection::Session,
};

const EVENTS: &str = "INSERT INTO {schema}.events (seq, age, author, expires_at, tie, kind, conditional, \
        hidden, vanish, id, pubkey, address, json) \
    SELECT seq, age, author, expires_at, tie, kind, expires_at IS NOT NULL, \
        hidden, vanish, id, pubkey, address, json \
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::uuid[], $6::integer[], \
        $7::boolean[], $8::boolean[], $9::bytea[], $10::bytea[], $11::bytea[], $12::bytea[]) \
        AS new(seq, age, author, expires_at, tie, kind, hidden, vanish, id, pubkey, address, json)";
const TAGS: &str = "INSERT INTO {schema}.event_tags \
        (age, seq, author, tie, kind, conditional, name, value) \
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::uuid[], $5::integer[], \
        $6::boolean[], $7::text[], $8::bytea[])";
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
    TAGS,
    DELETIONS,
    VANISHINGS,
    HIDDEN,
    CLEAR_HIDINGS,
    HIDINGS,
];

/// Puts the changes into the tables; what is sent is sent at once, in order.
pub(super) async fn apply(
    session: &Session,
    picture: &Picture,
    names: &BTreeSet<u8>,
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
        remove(session, &picture.changes.removed),
        remove_tags(session, went),
        insert_events(session, &new),
        insert_tags(session, came, names),
        insert_deletions(session, &new),
        insert_vanishings(session, &new),
        change_hidings(session, &changed, all()),
    )?;
    Ok(())
}

/// Returns a column of new rows.
fn column<'a, T>(new: &'a [&Stored], value: impl Fn(&'a Stored) -> T) -> Vec<T> {
    new.iter().map(|row| value(row)).collect()
}

async fn insert_events(session: &Session, new: &[&Stored]) -> Result<(), PostgresError> {
    if new.is_empty() {
        return Ok(());
    }
    let expires_at = |row: &Stored| row.event.expires_at().map(columns::seconds);
    let address = |row: &Stored| {
        let address = row.event.address()?;
        Some(Word(columns::address(&address)))
    };
    session
        .execute(
            EVENTS,
            &[
                &column(new, |row| row.seq),
                &column(new, |row| columns::age(row.event.created_at())),
                &column(new, |row| columns::author(&row.event.pubkey())),
                &column(new, expires_at),
                &column(new, |row| Tie::of(&row.event.id())),
                &column(new, |row| i32::from(row.event.kind().0)),
                &column(new, |row| !row.hiders.is_empty()),
                &column(new, |row| row.vanish),
                &column(new, |row| Word::from(row.event.id())),
                &column(new, |row| Word::from(row.event.pubkey())),
                &column(new, address),
                &column(new, |row| &row.event.json()[..]),
            ],
        )
        .await?;
    Ok(())
}

/// Puts the events' tags of these names into the index.
pub(super) async fn insert_tags<'a>(
    session: &Session,
    events: impl Iterator<Item = &'a Stored>,
    names: &BTreeSet<u8>,
) -> Result<(), PostgresError> {
    let (mut ages, mut numbers, mut authors, mut ties) = (vec![], vec![], vec![], vec![]);
    let (mut kinds, mut conditional, mut letters, mut values) = (vec![], vec![], vec![], vec![]);
    for row in events {
        let event: &Event = &row.event;
        let (tie, author) = (Tie::of(&event.id()), columns::author(&event.pubkey()));
        let age = columns::age(event.created_at());
        for (letter, value) in columns::tags(event) {
            if !names.contains(&letter) {
                continue;
            }
            ages.push(age);
            numbers.push(row.seq);
            authors.push(author);
            ties.push(tie);
            kinds.push(i32::from(event.kind().0));
            conditional.push(row.conditional);
            letters.push(char::from(letter).to_string());
            values.push(value);
        }
    }
    if ages.is_empty() {
        return Ok(());
    }
    session
        .execute(
            TAGS,
            &[
                &ages,
                &numbers,
                &authors,
                &ties,
                &kinds,
                &conditional,
                &letters,
                &values,
            ],
        )
        .await?;
    Ok(())
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
