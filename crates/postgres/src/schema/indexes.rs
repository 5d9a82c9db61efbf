//! Which indexes the versions of a schema leave, and making those that a database lacks while it is
//! written to and read.

use std::collections::BTreeMap;

use super::{SchemaName, versions::Version};
use crate::{
    PostgresError,
    connection::{Session, lock_key},
};

/// Those that are there, unless an import has put some off: whoever ends it makes them. One that
/// somebody is making at this moment, an operator say, counts as whole.
const THERE: &str = "SELECT c.relname::text, i.indisvalid OR EXISTS \
    (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid) FROM pg_index i \
    JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = $1::text";
const PUT_OFF: &str = "SELECT EXISTS (SELECT FROM {schema}.deferred_indexes)";
const TRY_LOCK: &str = "SELECT pg_try_advisory_lock($1)";
const UNLOCK: &str = "SELECT pg_advisory_unlock($1)";
/// It waits for every transaction that is under way, however long, and takes as long as it takes.
const PATIENTLY: &str = "SET statement_timeout = 0; SET lock_timeout = 0";
const RESET: &str = "RESET statement_timeout; RESET lock_timeout";

/// Returns the indexes that the versions leave, each with the statement that makes it, but for those that
/// belong to a constraint.
pub(crate) fn wanted(versions: &[Version]) -> BTreeMap<String, Option<String>> {
    let mut wanted = BTreeMap::new();
    for version in versions {
        let code: Vec<_> = version
            .sql
            .lines()
            .map(|line| line.split("--").next().unwrap_or_default().trim())
            .collect();
        for statement in code.join(" ").split(';') {
            take(statement.trim(), &mut wanted);
        }
    }
    wanted
}

fn take(statement: &str, wanted: &mut BTreeMap<String, Option<String>>) {
    let words: Vec<_> = statement
        .split([' ', ',', '(', ')'])
        .filter(|word| !word.is_empty())
        .collect();
    let creates = words.first() == Some(&"CREATE");
    let drops = words.first() == Some(&"DROP");
    for (index, word) in words.iter().enumerate() {
        let constraint =
            *word == "CONSTRAINT" && matches!(words.get(index + 2), Some(&("PRIMARY" | "UNIQUE")));
        if !constraint && (*word != "INDEX" || !creates && !drops) {
            continue;
        }
        let after = words.iter().skip(index + 1);
        let Some(name) = after.clone().find(|word| !["IF", "EXISTS"].contains(*word)) else {
            continue;
        };
        let name = name.rsplit('.').next().unwrap_or(name).to_owned();
        if drops {
            wanted.remove(&name);
        } else {
            wanted.insert(name, (!constraint).then(|| statement.to_owned()));
        }
    }
}

/// Makes what the database lacks of the versions' indexes, one after the other, unless another process is
/// at it. Nobody waits for it: who reads and writes goes on. One whose making was broken off is made anew.
/// Returns whether none is missing.
pub(crate) async fn make_missing(
    session: &Session,
    schema: &SchemaName,
    versions: &[Version],
) -> Result<bool, PostgresError> {
    if missing(session, schema, versions).await?.is_empty() {
        return Ok(true);
    }
    let lock = lock_key(schema, "indexes");
    let taken = session.rows(TRY_LOCK, &[&lock]).await?;
    if !taken.first().is_some_and(|row| row.get(0)) {
        return Ok(false);
    }
    let mut result = Ok(true);
    // Looked at again: who had the lock before may have made them.
    for (name, broken, statement) in missing(session, schema, versions).await? {
        tracing::info!(schema = schema.as_str(), name, "making an index");
        if let Err(error) = make(session, schema, &name, broken, &statement).await {
            tracing::warn!(name, %error, "the index can't be made");
            result = Err(error);
            break;
        }
        tracing::info!(schema = schema.as_str(), name, "the index is made");
    }
    session.client.batch_execute(RESET).await?;
    session.rows(UNLOCK, &[&lock]).await?;
    result
}

/// Returns those that are not there or not whole: the name, whether a part of it is there, and the
/// statement.
async fn missing(
    session: &Session,
    schema: &SchemaName,
    versions: &[Version],
) -> Result<Vec<(String, bool, String)>, PostgresError> {
    let there = session.rows(THERE, &[&schema.as_str()]).await?;
    let there: BTreeMap<String, bool> = there.iter().map(|row| (row.get(0), row.get(1))).collect();
    let missing = wanted(versions).into_iter().filter_map(|(name, made_by)| {
        let valid = there.get(&name);
        let statement = made_by.filter(|_| valid != Some(&true))?;
        Some((name, valid.is_some(), statement))
    });
    let missing: Vec<_> = missing.collect();
    if !missing.is_empty() {
        let put_off = session.rows(PUT_OFF, &[]).await?;
        if put_off.first().is_none_or(|row| row.get(0)) {
            return Ok(Vec::new());
        }
    }
    Ok(missing)
}

async fn make(
    session: &Session,
    schema: &SchemaName,
    name: &str,
    broken: bool,
    statement: &str,
) -> Result<(), PostgresError> {
    let run = async |sql: &str| session.client.batch_execute(&schema.fill(sql)).await;
    if broken {
        run(&format!(
            "DROP INDEX CONCURRENTLY IF EXISTS {{schema}}.{name}"
        ))
        .await?;
    }
    run(PATIENTLY).await?;
    run(&statement.replacen(" INDEX ", " INDEX CONCURRENTLY IF NOT EXISTS ", 1)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use hikyaku_postgres::testing::shared;
    use tokio::runtime::Builder;

    use super::*;
    use crate::{
        Options,
        connection::Connector,
        schema::{migrate::migrate_to, versions::VERSIONS},
    };

    const LATER: &str = "CREATE INDEX events_later ON {schema}.events (kind, id);";

    #[test]
    fn what_versions_make_and_take_away_is_known() {
        let version = |sql| Version {
            summary: "",
            sql,
            online: false,
        };
        let made = wanted(&[
            version(
                "CREATE UNIQUE INDEX a ON s.t (x); -- INDEX c\nCREATE INDEX b ON s.t (x);\n\
                 CREATE TABLE s.u (x int, CONSTRAINT q UNIQUE (x));",
            ),
            version("DROP INDEX s.b; ALTER TABLE s.t ADD CONSTRAINT p PRIMARY KEY (x)"),
        ]);
        let made: Vec<_> = made
            .iter()
            .map(|(name, sql)| (&**name, sql.as_deref()))
            .collect();
        let statement = Some("CREATE UNIQUE INDEX a ON s.t (x)");
        assert_eq!(made, [("a", statement), ("p", None), ("q", None)]);
        for name in [
            "events_pkey",
            "events_id_key",
            "events_time",
            "event_tags_value",
        ] {
            assert!(wanted(VERSIONS).contains_key(name), "{name}");
        }
    }

    #[test]
    fn a_later_version_s_index_on_events_is_made_behind_it_and_a_broken_one_anew() {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (url, schema) = shared();
        let options = Options {
            schema,
            ..Options::new(&url)
        };
        let connector = Connector::new(&options, runtime.handle().clone()).unwrap();
        let later = || Version {
            summary: "an index",
            sql: LATER,
            online: true,
        };
        let version = |version: &Version| Version {
            summary: version.summary,
            sql: version.sql,
            online: version.online,
        };
        let versions: Vec<_> = VERSIONS.iter().map(version).chain([later()]).collect();
        runtime.block_on(async {
            let session = connector.connect().await.unwrap();
            let (client, schema) = (&session.client, &connector.schema);
            let run = async |sql: &str| client.batch_execute(&schema.fill(sql)).await.unwrap();
            let names = async || -> Vec<String> {
                let missing = missing(&session, schema, &versions).await.unwrap();
                missing.into_iter().map(|(name, ..)| name).collect()
            };
            migrate_to(client, schema, VERSIONS).await.unwrap();
            run(
                "INSERT INTO {schema}.events (seq, age, author, tie, kind, conditional, vanish, id, \
                 pubkey, json) VALUES (1, 1, 1, gen_random_uuid(), 1, false, false, '', '', '')",
            )
            .await;
            migrate_to(client, schema, &versions).await.unwrap();
            assert_eq!(names().await, ["events_later"], "the migration waits for nothing");
            run("DROP INDEX {schema}.events_kind").await;
            run(
                "UPDATE pg_index SET indisvalid = false \
                 WHERE indexrelid = '{schema}.events_hidden'::regclass",
            )
            .await;
            assert_eq!(names().await, ["events_hidden", "events_kind", "events_later"]);
            run("INSERT INTO {schema}.deferred_indexes VALUES ('x', 'y')").await;
            assert!(names().await.is_empty(), "an import makes its own");
            run("DELETE FROM {schema}.deferred_indexes").await;
            assert!(make_missing(&session, schema, &versions).await.unwrap());
            assert!(names().await.is_empty());
        });
    }
}
