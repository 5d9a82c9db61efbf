//! Bringing a schema to the newest version, whoever else tries at the same time.

use tokio_postgres::Client;

use super::{
    SchemaName,
    versions::{VERSION_TABLE, VERSIONS, Version, record},
};
use crate::{PostgresError, connection::lock_key};

/// The oldest server with the settings and the planner this store is written for.
const SERVER_VERSION_MIN: i32 = 140_000;

/// A step may take as long as it takes, and who waits for another node's waits as long.
const BEGIN: &str = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; \
    SET LOCAL idle_in_transaction_session_timeout = 0";

/// Brings the schema to the newest version, in one transaction under a lock of its own: of two nodes
/// that start at once one waits, and finds nothing to do. A schema of a newer program is refused.
pub(crate) async fn migrate(client: &Client, schema: &SchemaName) -> Result<(), PostgresError> {
    migrate_to(client, schema, VERSIONS).await
}

/// Brings it to the last of these versions.
pub(super) async fn migrate_to(
    client: &Client,
    schema: &SchemaName,
    versions: &[Version],
) -> Result<(), PostgresError> {
    let server: i32 = client
        .query_one("SELECT current_setting('server_version_num')::int", &[])
        .await?
        .get(0);
    if server < SERVER_VERSION_MIN {
        return Err(PostgresError::Refused(format!(
            "the server is PostgreSQL {}; at least 14 is needed",
            server / 10_000
        )));
    }
    client.batch_execute(BEGIN).await?;
    let result = run(client, schema, versions).await;
    let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = client.batch_execute(end).await;
    result?;
    Ok(ended?)
}

async fn run(
    client: &Client,
    schema: &SchemaName,
    versions: &[Version],
) -> Result<(), PostgresError> {
    let key = lock_key(schema, "migration");
    client
        .execute("SELECT pg_advisory_xact_lock($1)", &[&key])
        .await?;
    // Who may not make the schema can still use one that is there.
    let there = client
        .query_one(
            "SELECT to_regclass($1) IS NOT NULL",
            &[&format!("{schema}.versions")],
        )
        .await?;
    if !there.get::<_, bool>(0) {
        client.batch_execute(&schema.fill(VERSION_TABLE)).await?;
    }
    let current = "SELECT coalesce(max(version), 0) FROM {schema}.versions";
    let current: i32 = client.query_one(&schema.fill(current), &[]).await?.get(0);
    let newest = i32::try_from(versions.len()).unwrap_or(i32::MAX);
    if current > newest {
        return Err(PostgresError::Refused(format!(
            "the schema {schema} has version {current}, this program knows up to {newest}: a newer \
             program made it"
        )));
    }
    for (number, version) in (1..)
        .zip(versions)
        .skip(usize::try_from(current).unwrap_or(0))
    {
        tracing::info!(
            schema = schema.as_str(),
            version = number,
            "migrating the schema"
        );
        if !version.online || is_empty(client, schema).await? {
            client.batch_execute(&schema.fill(version.sql)).await?;
        }
        client
            .batch_execute(&schema.fill(&record(number, version)))
            .await?;
    }
    Ok(())
}

async fn is_empty(client: &Client, schema: &SchemaName) -> Result<bool, PostgresError> {
    let events = schema.fill("SELECT EXISTS (SELECT FROM {schema}.events)");
    Ok(!client.query_one(&events, &[]).await?.get::<_, bool>(0))
}
