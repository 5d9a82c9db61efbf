//! Rows of tags whose event is gone, while there is no index to find them by: their numbers are written
//! down, and they are taken out together, before the index is made.

use crate::{PostgresError, connection::Session};

const ADD: &str = "INSERT INTO {schema}.orphans (seq) SELECT unnest($1::bigint[])";
/// Numbers that were taken, and whose events were not stored in the end: they are the last ones. So many
/// of them are no batch's, but were left out.
const ADD_LAST: &str = "INSERT INTO {schema}.orphans (seq) \
    SELECT CASE WHEN many THEN NULL ELSE n END \
    FROM (SELECT e.last + 1 AS first, p.last_value AS last, p.last_value - e.last > 65536 AS many \
        FROM {schema}.position p, \
            (SELECT coalesce(max(seq), 0) AS last FROM {schema}.events) e) AS taken, \
        generate_series(first, CASE WHEN many THEN first ELSE last END) AS n";
const LOOK: &str = "SELECT bool_or(seq IS NULL) FROM {schema}.orphans";
const REMOVE: &str =
    "DELETE FROM {schema}.event_tags t USING {schema}.orphans o WHERE t.seq = o.seq";
/// Reads both tables wholly.
const REMOVE_ALL: &str = "DELETE FROM {schema}.event_tags t \
    WHERE NOT EXISTS (SELECT FROM {schema}.events e WHERE e.seq = t.seq AND NOT e.hidden)";
const FORGET: &str = "DELETE FROM {schema}.orphans";

/// To be prepared before they are sent together with others.
pub(crate) const STATEMENTS: [&str; 2] = [ADD, ADD_LAST];

/// Writes down that these events are gone.
pub(crate) async fn add(session: &Session, numbers: &[i64]) -> Result<u64, PostgresError> {
    if numbers.is_empty() {
        return Ok(0);
    }
    session.execute(ADD, &[&numbers]).await
}

/// Writes down what whoever wrote before has left behind, under the writer's lock.
pub(crate) async fn add_last(session: &Session) -> Result<(), PostgresError> {
    session.execute(ADD_LAST, &[]).await?;
    Ok(())
}

/// Takes the rows out, in a transaction under the writer's lock.
pub(super) async fn remove(session: &Session) -> Result<(), PostgresError> {
    add_last(session).await?;
    let found = session.rows(LOOK, &[]).await?;
    let Some(unknown) = found.first().and_then(|row| row.get::<_, Option<bool>>(0)) else {
        return Ok(());
    };
    let sql = if unknown { REMOVE_ALL } else { REMOVE };
    session.execute(sql, &[]).await?;
    session.execute(FORGET, &[]).await?;
    Ok(())
}
