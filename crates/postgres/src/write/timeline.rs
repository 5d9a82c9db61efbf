//! Numbers of commits after a failover. A replica that takes over may lack the last commits of the server
//! that failed, and would give their numbers again; nodes that have told them already would take what is
//! new for what they know. So whoever first writes to another history of the server leaves numbers out.

use crate::{PostgresError, connection::Session};

/// More commits than a replica can be behind.
pub(super) const LEFT_OUT: i64 = 1 << 32;

/// The server's own name of its history: each promotion begins another one. Unknown while it follows.
const CURRENT: &str = "SELECT CASE WHEN NOT pg_is_in_recovery() \
        THEN left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END, \
    (SELECT name FROM {schema}.timeline)";
const FIRST: &str = "INSERT INTO {schema}.timeline (name) VALUES ($1) ON CONFLICT DO NOTHING";
const NEXT: &str = "UPDATE {schema}.timeline SET name = $1 WHERE name <> $1";
const LEAVE_OUT: &str = "SELECT setval('{schema}.position', last_value + $1), \
    pg_notify($2, (last_value + $1)::text) FROM {schema}.position";

const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";

/// Looks whether this is the history that the numbers belong to, and leaves some out if it is another.
/// `lock` is the writer's, `channel` where commits are told.
pub(super) async fn follow(
    session: &Session,
    lock: i64,
    channel: &str,
) -> Result<(), PostgresError> {
    let rows = session.rows(CURRENT, &[]).await?;
    let Some(row) = rows.first() else {
        return Ok(());
    };
    let (current, known): (Option<String>, Option<String>) = (row.get(0), row.get(1));
    let Some(current) = current.filter(|current| Some(current) != known.as_ref()) else {
        return Ok(());
    };
    session.client.batch_execute("BEGIN").await?;
    session.rows(LOCK, &[&lock]).await?;
    // Of several nodes one is the first.
    let first = session.execute(FIRST, &[&current]).await? > 0;
    if !first && session.execute(NEXT, &[&current]).await? > 0 {
        tracing::warn!(
            timeline = current,
            "another server is written to than before: events that it lacks are gone"
        );
        session.rows(LEAVE_OUT, &[&LEFT_OUT, &channel]).await?;
    }
    session.client.batch_execute("COMMIT").await?;
    Ok(())
}
