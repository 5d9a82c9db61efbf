//! Indexes that are put off while an import fills an empty schema: making one of all rows at once costs
//! a small part of keeping it up to date row by row.
//!
//! Which are put off stands in the database, and every writer looks there under the writer's lock. So a
//! killed import leaves a schema that whoever comes next finishes, or that the next import goes on with.
//!
//! With the index of tags its rows are put off: of what an import stores, newer versions replace much, and
//! rows that have no index can't be found to be taken out again. They are made of what is left.

use tokio::try_join;
use tokio_postgres::Row;

use crate::{
    PostgresError,
    connection::{Connector, Session, lock_key},
    schema::SchemaName,
    write::tags,
};

/// Definitions come with the schema's name in them when nothing is on the search path.
const BEGIN: &str = "BEGIN; SET LOCAL search_path = pg_catalog";
const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";
const TRY_LOCK: &str = "SELECT pg_try_advisory_xact_lock($1)";
/// Nobody else has the store open, who would miss the indexes.
const ALONE: &str = TRY_LOCK;
const EMPTY: &str = "SELECT NOT EXISTS (SELECT FROM {schema}.events) \
    AND NOT EXISTS (SELECT FROM {schema}.deferred_indexes)";
/// All but those that the rules need.
const REMEMBER: &str = "INSERT INTO {schema}.deferred_indexes (name, definition) \
    SELECT i.indexrelid::regclass, pg_get_indexdef(i.indexrelid) FROM pg_index i \
    WHERE i.indexrelid IN ('{schema}.events_time'::regclass, '{schema}.events_kind'::regclass, \
        '{schema}.events_author'::regclass, '{schema}.events_author_kind'::regclass, \
        '{schema}.event_tags_value'::regclass)";
const DROP: &str = "DROP INDEX {schema}.events_time, {schema}.events_kind, {schema}.events_author, \
    {schema}.events_author_kind, {schema}.event_tags_value; \
    ALTER TABLE {schema}.events SET (autovacuum_enabled = false)";

/// Once for all rows: a scan and a sort are right here, and as long as it takes; one connection may wait
/// for the other, and a node that starts meanwhile for both.
const BEGIN_MAKING: &str = "BEGIN; SET LOCAL search_path = pg_catalog; SET LOCAL statement_timeout = 0; \
    SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = 0; \
    SET LOCAL maintenance_work_mem = '256MB'; SET LOCAL enable_seqscan = on";
const ANY: &str = "SELECT FROM {schema}.deferred_indexes LIMIT 1";
const DEFINITIONS: &str = "SELECT definition FROM {schema}.deferred_indexes \
    WHERE (right(name, 16) = 'event_tags_value') = $1 ORDER BY name";
const MADE: &str =
    "DELETE FROM {schema}.deferred_indexes WHERE (right(name, 16) = 'event_tags_value') = $1";
const LAST_NUMBER: &str = "SELECT last_value FROM {schema}.position";
const AUTOVACUUM: &str = "ALTER TABLE {schema}.events RESET (autovacuum_enabled)";
/// So that questions read the indexes alone, and know of the tables' sizes, from the first one on. Rows of
/// tags come as a VACUUM would leave them.
const VACUUM_EVENTS: &str = "VACUUM (ANALYZE) {schema}.events";
const ANALYZE_TAGS: &str = "ANALYZE {schema}.event_tags";

/// The purpose of the lock that everybody shares who has the store open.
pub(crate) const OPEN: &str = "open";

/// Puts the indexes off if the schema is empty and nobody else has it open. Who may not (they belong to
/// somebody else) keeps them.
pub(crate) async fn defer(session: &Session, schema: &SchemaName) -> Result<(), PostgresError> {
    session.client.batch_execute(BEGIN).await?;
    let result = put_off(session, schema).await;
    let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
    session.client.batch_execute(end).await?;
    match result {
        Err(PostgresError::Refused(text)) => {
            tracing::info!(text, "the import keeps all indexes up to date");
            Ok(())
        }
        other => other,
    }
}

async fn put_off(session: &Session, schema: &SchemaName) -> Result<(), PostgresError> {
    session.rows(LOCK, &[&lock_key(schema, "writer")]).await?;
    let alone = session.rows(ALONE, &[&lock_key(schema, OPEN)]).await?;
    let empty = session.rows(EMPTY, &[]).await?;
    if [alone, empty].iter().flatten().all(|row| row.get(0)) {
        session.execute(REMEMBER, &[]).await?;
        session.client.batch_execute(&schema.fill(DROP)).await?;
    }
    Ok(())
}

/// Makes the indexes that are put off, if there are any, and the rows of tags: those of the two tables
/// side by side, on two connections. Others' writes wait meanwhile.
pub(crate) async fn make(session: &Session, connector: &Connector) -> Result<(), PostgresError> {
    if session.rows(ANY, &[]).await?.is_empty() {
        return Ok(());
    }
    let schema = &connector.schema;
    session.client.batch_execute(BEGIN_MAKING).await?;
    let lock = lock_key(schema, "writer");
    let had = session.rows(TRY_LOCK, &[&lock]).await?;
    if !had.first().is_some_and(|row| row.get(0)) {
        tracing::info!(
            schema = schema.as_str(),
            "waiting: another process writes, or makes the indexes of what was imported"
        );
        session.rows(LOCK, &[&lock]).await?;
    }
    if session.rows(ANY, &[]).await?.is_empty() {
        // Somebody else was faster.
        session.client.batch_execute("ROLLBACK").await?;
        return Ok(());
    }
    tracing::info!(
        schema = schema.as_str(),
        "making the indexes of what was imported"
    );
    let beside = connector.connect().await?;
    try_join!(
        async {
            if !session.rows(DEFINITIONS, &[&true]).await?.is_empty() {
                refill(session, connector).await?;
            }
            make_of(session, true).await
        },
        async {
            // Before there are more indexes to take dead rows out of.
            vacuum(&beside, &schema.fill(VACUUM_EVENTS)).await?;
            beside.client.batch_execute(BEGIN_MAKING).await?;
            make_of(&beside, false).await?;
            beside
                .client
                .batch_execute(&schema.fill(AUTOVACUUM))
                .await?;
            Ok(beside.client.batch_execute("COMMIT").await?)
        },
    )?;
    // The tags' index is the last to be there: the writer's lock is held until then.
    session.client.batch_execute("COMMIT").await?;
    vacuum(session, &schema.fill(ANALYZE_TAGS)).await
}

/// Makes the rows of tags, of the events that another connection reads.
async fn refill(session: &Session, connector: &Connector) -> Result<(), PostgresError> {
    let reading = connector.connect().await?;
    reading.client.batch_execute(BEGIN_MAKING).await?;
    let ends = try_join!(
        session.rows(LAST_NUMBER, &[]),
        reading.rows(LAST_NUMBER, &[])
    )?;
    let last = |rows: &[Row]| rows.first().map(|row| row.get::<_, i64>(0));
    if last(&ends.0) != last(&ends.1) {
        // Of several hosts, one that lags behind.
        let text =
            "two connections lead to two servers: name in store.url only the one to write to";
        return Err(PostgresError::Unavailable(text.to_owned()));
    }
    let rows = tags::refill(session, &reading).await?;
    tracing::info!(rows, "the rows of tags are made, and wait for their index");
    Ok(())
}

/// Makes those of the index of tags, or all others. Whoever is killed, what is made stands no longer
/// among what is put off, and what is not does.
async fn make_of(session: &Session, tags: bool) -> Result<(), PostgresError> {
    for row in session.rows(DEFINITIONS, &[&tags]).await? {
        session.client.batch_execute(row.get(0)).await?;
    }
    session.execute(MADE, &[&tags]).await?;
    Ok(())
}

/// Runs a VACUUM or an ANALYZE, for as long as it takes, and whoever it waits for: one that a process has
/// left behind that was killed, say.
async fn vacuum(session: &Session, sql: &str) -> Result<(), PostgresError> {
    let client = &session.client;
    let old = "SELECT current_setting('statement_timeout'), current_setting('lock_timeout')";
    let old = client.query_one(old, &[]).await?;
    let (statement, lock): (String, String) = (old.get(0), old.get(1));
    let patiently = "SET statement_timeout = 0; SET lock_timeout = 0";
    client.batch_execute(patiently).await?;
    client.batch_execute(sql).await?;
    let restore = format!("SET statement_timeout = '{statement}'; SET lock_timeout = '{lock}'");
    Ok(client.batch_execute(&restore).await?)
}
