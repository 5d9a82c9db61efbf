//! Taking events out of every table.

use hikyaku_event::Kind;
use tokio::try_join;

use super::picture::Stored;
use crate::{
    PostgresError,
    columns::{self, Tie, Word},
    connection::Session,
    names::KnownNames,
};

const EVENTS: &str = "DELETE FROM {schema}.events WHERE seq = ANY($1)";
const TAGS: &str = "DELETE FROM {schema}.event_tags t \
    USING unnest($1::text[], $2::bytea[], $3::bigint[], $4::uuid[]) AS k(name, value, age, tie) \
    WHERE t.name = k.name AND t.value = k.value AND t.age = k.age AND t.tie = k.tie";
const DELETIONS: &str = "DELETE FROM {schema}.deletions WHERE seq = ANY($1)";
const VANISHINGS: &str = "DELETE FROM {schema}.vanishings WHERE pubkey = ANY($1) AND seq = ANY($2)";
const HIDINGS: &str = "DELETE FROM {schema}.hidings WHERE seq = ANY($1)";

pub(super) const STATEMENTS: [&str; 5] = [EVENTS, TAGS, DELETIONS, VANISHINGS, HIDINGS];

/// Removes events and their tags.
pub(super) async fn remove(
    session: &Session,
    events: &[Stored],
    names: &KnownNames,
) -> Result<(), PostgresError> {
    try_join!(biased; remove_tags(session, events.iter(), names), remove_events(session, events))?;
    Ok(())
}

/// Removes events, and leaves their tags.
pub(super) async fn remove_events(
    session: &Session,
    events: &[Stored],
) -> Result<(), PostgresError> {
    if events.is_empty() {
        return Ok(());
    }
    let numbers = |of: Option<Kind>| -> Vec<i64> {
        let events = events.iter();
        let events = events.filter(|row| of.is_none_or(|kind| row.event.kind() == kind));
        events.map(|row| row.seq).collect()
    };
    let (all, deletions, vanishings) = (
        numbers(None),
        numbers(Some(Kind::DELETION)),
        numbers(Some(Kind::VANISH)),
    );
    let keys: Vec<Word> = events
        .iter()
        .filter(|row| row.event.kind() == Kind::VANISH)
        .map(|row| row.event.pubkey().into())
        .collect();
    try_join!(
            biased;

        async { session.execute(EVENTS, &[&all]).await },
        async {
            if deletions.is_empty() { Ok(0) } else { session.execute(DELETIONS, &[&deletions]).await }
        },
        async {
            if vanishings.is_empty() { Ok(0) } else { session.execute(VANISHINGS, &[&keys, &vanishings]).await }
        },
        async { session.execute(HIDINGS, &[&all]).await },
    )?;
    Ok(())
}

/// Takes the events' tags out of the index. They are found by what the events say, so the table of
/// tags needs no index of its own for it.
pub(super) async fn remove_tags<'a>(
    session: &Session,
    events: impl Iterator<Item = &'a Stored>,
    known: &KnownNames,
) -> Result<u64, PostgresError> {
    let (mut names, mut values, mut ages, mut ties) = (vec![], vec![], vec![], vec![]);
    for row in events {
        let tie = Tie::of(&row.event.id());
        for (name, value) in known.all.rows_of(&row.event) {
            names.push(name);
            values.push(value);
            ages.push(columns::age(row.event.created_at()));
            ties.push(tie);
        }
    }
    if names.is_empty() {
        return Ok(0);
    }
    session
        .execute(TAGS, &[&names, &values, &ages, &ties])
        .await
}
