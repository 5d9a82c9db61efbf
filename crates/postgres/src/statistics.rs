//! Figures of the store, as the database has them.

use crate::{PostgresError, connection::Session};

const FIGURES: &str = "SELECT \
    (SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = '{schema}.events'::regclass), \
    (SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = '{schema}.event_tags'::regclass), \
    (SELECT count(*) FROM {schema}.events WHERE hidden), \
    pg_table_size('{schema}.events') + pg_table_size('{schema}.event_tags'), \
    pg_indexes_size('{schema}.events') + pg_indexes_size('{schema}.event_tags'), \
    (SELECT last_value FROM {schema}.position), \
    (SELECT max(version) FROM {schema}.versions), \
    current_setting('server_version'), \
    (SELECT count(*) FROM pg_stat_activity \
        WHERE coalesce(backend_type, 'client backend') = 'client backend' AND datid IS NOT NULL), \
    current_setting('max_connections')::bigint";

/// Figures of the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PostgresStatistics {
    /// Stored events, as the server's last ANALYZE or VACUUM estimated them.
    pub events_estimated: u64,
    /// Indexed tags, likewise.
    pub tags_estimated: u64,
    /// Hidden events.
    pub hidden: u64,
    /// Bytes of the tables.
    pub table_bytes: u64,
    /// Bytes of their indexes.
    pub index_bytes: u64,
    /// The last number given to an event.
    pub position: u64,
    /// The schema's version.
    pub schema_version: u32,
    /// The server's version.
    pub server_version: String,
    /// Connections that the server has open now, everybody's.
    pub connections: u64,
    /// Connections that the server allows.
    pub connections_max: u64,
}

/// Asks for the figures.
pub(crate) async fn statistics(session: &Session) -> Result<PostgresStatistics, PostgresError> {
    let rows = session.rows(FIGURES, &[]).await?;
    let Some(row) = rows.first() else {
        return Ok(PostgresStatistics::default());
    };
    let number = |column| {
        row.get::<_, Option<i64>>(column)
            .unwrap_or(0)
            .unsigned_abs()
    };
    Ok(PostgresStatistics {
        events_estimated: number(0),
        tags_estimated: number(1),
        hidden: number(2),
        table_bytes: number(3),
        index_bytes: number(4),
        position: number(5),
        schema_version: row.get::<_, Option<i32>>(6).unwrap_or(0).unsigned_abs(),
        server_version: row.get(7),
        connections: number(8),
        connections_max: number(9),
    })
}
