//! What an operator should look at in the database, as figures: whoever reads them judges.

use std::collections::BTreeSet;

use crate::{
    Connections, Options, PostgresError,
    connection::{OwnThread, Session},
    schema::{VERSIONS, wanted_indexes},
};

/// Settings and counts of the server.
const SERVER: &str = "SELECT \
    current_setting('server_version'), \
    (SELECT setting::bigint * 8192 FROM pg_settings WHERE name = 'shared_buffers'), \
    pg_database_size(current_database()), \
    current_setting('autovacuum') = 'on', \
    current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on', \
    current_setting('synchronous_commit') <> 'off', \
    (SELECT coalesce(extract(epoch FROM max(now() - xact_start)), 0)::bigint FROM pg_stat_activity \
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()), \
    (SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'), \
    (SELECT age(datfrozenxid)::bigint FROM pg_database WHERE datname = current_database()), \
    (SELECT blks_hit FROM pg_stat_database WHERE datname = current_database()), \
    (SELECT blks_read FROM pg_stat_database WHERE datname = current_database()), \
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

const INDEXES: &str = "SELECT c.relname::text, i.indisvalid FROM pg_index i \
    JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = $1::text";

const TABLES: &str = "SELECT s.relname::text, s.n_live_tup, s.n_dead_tup, s.n_mod_since_analyze, \
    coalesce(s.last_analyze, s.last_autoanalyze) IS NOT NULL, \
    greatest(c.reltuples, 0)::bigint, pg_total_relation_size(s.relid) \
    FROM pg_stat_all_tables s JOIN pg_class c ON c.oid = s.relid \
    WHERE s.schemaname = $1::text ORDER BY s.relname";

const HAS_STATEMENTS: &str =
    "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_stat_statements')";

const STATEMENTS: &str = "SELECT left(query, 300), calls, mean_exec_time, max_exec_time \
    FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
    AND userid = (SELECT oid FROM pg_roles WHERE rolname = current_user) AND calls >= 5 \
    ORDER BY mean_exec_time DESC LIMIT 5";

const SYSTEM: &str = "SELECT system_identifier FROM pg_control_system()";

/// A replica that has all it was sent is behind by nothing, however old that is.
const PLACE: &str = "SELECT pg_is_in_recovery(), \
    (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() \
        ELSE pg_current_wal_insert_lsn() END - '0/0')::bigint, \
    (CASE WHEN pg_is_in_recovery() AND pg_last_wal_replay_lsn() < pg_last_wal_receive_lsn() \
        THEN coalesce(extract(epoch FROM now() - pg_last_xact_replay_timestamp()), 0) \
        ELSE 0 END)::bigint, \
    EXISTS (SELECT FROM pg_stat_wal_receiver)";

/// What was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Examination {
    /// The server's version.
    pub server_version: String,
    /// The server's connections, without this examination's own.
    pub connections: Connections,
    /// The server's own cache.
    pub shared_buffers_bytes: u64,
    /// The whole database.
    pub database_bytes: u64,
    /// Whether the server cleans up by itself.
    pub autovacuum: bool,
    /// Whether the server survives a power cut (`fsync`, `full_page_writes`).
    pub crash_safe: bool,
    /// Whether what is committed is on the disk.
    pub synchronous_commit: bool,
    /// The age of the oldest transaction of any client that this role may know of, in seconds.
    pub oldest_transaction_seconds: u64,
    /// Sessions that wait for a lock.
    pub waiting_for_locks: u64,
    /// Transactions since the oldest one that is not frozen; at two thousand million the server stops.
    pub unfrozen_transactions: u64,
    /// Pages that were found in the server's cache, and those that were not.
    pub pages_found: u64,
    /// See `pages_found`.
    pub pages_read: u64,
    /// The server's clock, in milliseconds since 1970.
    pub clock_ms: u64,
    /// Whether the schema is there.
    pub schema_exists: bool,
    /// Indexes that the schema has and the database has not.
    pub missing_indexes: Vec<String>,
    /// Indexes whose making was broken off.
    pub invalid_indexes: Vec<String>,
    /// The schema's tables.
    pub tables: Vec<TableExamination>,
    /// The replica that is read from, if one is configured; or why it can't be asked.
    pub replica: Option<Result<ReplicaExamination, String>>,
    /// The slowest statements by mean time; `None` without `pg_stat_statements`.
    pub slow_statements: Option<Vec<SlowStatement>>,
}

/// A server to read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaExamination {
    /// Its connections, without this examination's own.
    pub connections: Connections,
    /// It follows another server.
    pub follows: bool,
    /// What it has is not the database that is written to.
    pub is_of_another: bool,
    /// It is connected to the one it follows.
    pub receives: bool,
    /// Bytes of the write-ahead log that it has yet to carry out.
    pub bytes_behind: u64,
    /// How old what it carries out is, in seconds; 0 if it has carried out all it was sent.
    pub seconds_behind: u64,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableExamination {
    /// Its name.
    pub name: String,
    /// Rows.
    pub live_rows: u64,
    /// Rows that are gone and whose room is not free yet.
    pub dead_rows: u64,
    /// Rows that changed since the statistics were made.
    pub changed_rows: u64,
    /// Whether there are statistics.
    pub analyzed: bool,
    /// Rows as the planner believes.
    pub estimated_rows: u64,
    /// With indexes.
    pub bytes: u64,
}

/// One statement of `pg_stat_statements`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SlowStatement {
    /// Its text, without values.
    pub text: String,
    /// How often.
    pub calls: u64,
    /// In milliseconds.
    pub mean_ms: f64,
    /// In milliseconds.
    pub max_ms: f64,
}

impl Examination {
    /// Connects and looks; changes nothing, and makes no schema.
    pub fn of(options: &Options) -> Result<Self, PostgresError> {
        let primary = OwnThread::start(options)?;
        let (mut found, here) = primary
            .with(async |session| Ok((examine(session, options).await?, place(session).await?)))?;
        if let Some(url) = &options.read_url {
            let options = Options {
                url: url.clone(),
                ..options.clone()
            };
            let replica = OwnThread::start(&options)
                .and_then(|replica| {
                    replica.with(async |session| {
                        Ok((place(session).await?, Connections::of(session).await?))
                    })
                })
                .map(|(replica, connections)| ReplicaExamination {
                    connections,
                    follows: replica.follows,
                    receives: replica.receives,
                    // Where both may be asked.
                    is_of_another: replica
                        .system
                        .zip(here.system)
                        .is_some_and(|(replica, here)| replica != here),
                    bytes_behind: here.bytes.saturating_sub(replica.bytes),
                    seconds_behind: replica.seconds_behind,
                });
            found.replica = Some(replica.map_err(|error| error.to_string()));
        }
        Ok(found)
    }
}

/// Where a server is in the write-ahead log, and whose log that is.
struct Place {
    system: Option<i64>,
    follows: bool,
    bytes: u64,
    seconds_behind: u64,
    receives: bool,
}

async fn place(session: &Session) -> Result<Place, PostgresError> {
    // Who may not ask whose log it is does not know it.
    let system = session.rows(SYSTEM, &[]).await.unwrap_or_default();
    let rows = session.rows(PLACE, &[]).await?;
    let none = || PostgresError::Corrupt("the server does not say where it is".to_owned());
    let row = rows.first().ok_or_else(none)?;
    Ok(Place {
        system: system.first().map(|row| row.get(0)),
        follows: row.get(0),
        bytes: row.get::<_, Option<i64>>(1).unwrap_or(0).unsigned_abs(),
        seconds_behind: row.get::<_, i64>(2).unsigned_abs(),
        receives: row.get(3),
    })
}

async fn examine(session: &Session, options: &Options) -> Result<Examination, PostgresError> {
    let number = |value: Option<i64>| value.unwrap_or(0).unsigned_abs();
    let mut found = Examination::default();
    if let Some(row) = session.rows(SERVER, &[]).await?.first() {
        found = Examination {
            server_version: row.get(0),
            connections: Connections::of(session).await?,
            shared_buffers_bytes: number(row.get(1)),
            database_bytes: number(row.get(2)),
            autovacuum: row.get(3),
            crash_safe: row.get(4),
            synchronous_commit: row.get(5),
            oldest_transaction_seconds: number(row.get(6)),
            waiting_for_locks: number(row.get(7)),
            unfrozen_transactions: number(row.get(8)),
            pages_found: number(row.get(9)),
            pages_read: number(row.get(10)),
            clock_ms: number(row.get(11)),
            ..found
        };
    }
    for row in session.rows(TABLES, &[&options.schema]).await? {
        found.tables.push(TableExamination {
            name: row.get(0),
            live_rows: number(row.get(1)),
            dead_rows: number(row.get(2)),
            changed_rows: number(row.get(3)),
            analyzed: row.get(4),
            estimated_rows: number(row.get(5)),
            bytes: number(row.get(6)),
        });
    }
    found.schema_exists = found.tables.iter().any(|table| table.name == "events");
    let mut there = BTreeSet::new();
    for row in session.rows(INDEXES, &[&options.schema]).await? {
        let name: String = row.get(0);
        if !row.get::<_, bool>(1) {
            found.invalid_indexes.push(name.clone());
        }
        there.insert(name);
    }
    if found.schema_exists {
        let wanted = wanted_indexes(VERSIONS).into_keys();
        found.missing_indexes = wanted.filter(|name| !there.contains(name)).collect();
    }
    let has = session.rows(HAS_STATEMENTS, &[]).await?;
    if has.first().is_some_and(|row| row.get(0)) {
        // Without the right to read it, or where it is installed and not loaded, it is not there.
        found.slow_statements = session.rows(STATEMENTS, &[]).await.ok().map(|rows| {
            let statement = |row: &tokio_postgres::Row| SlowStatement {
                text: row.get(0),
                calls: number(row.get(1)),
                mean_ms: row.get(2),
                max_ms: row.get(3),
            };
            rows.iter().map(statement).collect()
        });
    }
    Ok(found)
}
