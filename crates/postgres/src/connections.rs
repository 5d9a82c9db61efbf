//! Who may need how many of a server's connections. Nodes write into their connections' names how many
//! they may have; names are what everybody may read, also of other roles' connections.

use crate::{Options, PostgresError, connection::Session};

/// A node's connections beside its workers': the writer's, the listener's, that of what nodes tell each
/// other, and that of the backfill, which looks for work now and then. One node's has a second one, while
/// it has the whole time.
pub const CONNECTIONS_BESIDE: usize = 4;

/// A role that is not told of others' sessions sees no `backend_type` there; what belongs to no database
/// is none of a client.
const SQL: &str = "WITH open AS ( \
        SELECT application_name AS name, \
            substring(application_name FROM ' node [0-9a-f]{8} up to ([0-9]+)$')::bigint AS most \
        FROM pg_stat_activity \
        WHERE coalesce(backend_type, 'client backend') = 'client backend' \
            AND datid IS NOT NULL AND pid <> pg_backend_pid() \
    ), nodes AS (SELECT DISTINCT name, most FROM open WHERE most IS NOT NULL) \
    SELECT current_setting('max_connections')::bigint \
        - current_setting('superuser_reserved_connections')::bigint \
        - coalesce(current_setting('reserved_connections', true)::bigint, 0), \
        (SELECT count(*) FROM nodes), (SELECT coalesce(sum(most), 0)::bigint FROM nodes), \
        (SELECT count(*) FROM open WHERE most IS NULL), (SELECT count(*) FROM open)";

/// The connections of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connections {
    /// Those that the server allows those who are no superusers.
    pub allowed: u64,
    /// Nodes that are connected, of all relays.
    pub nodes: u64,
    /// As many as these nodes may have.
    pub of_nodes: u64,
    /// Those that are open beside theirs: other programs', and those by which one node at a time has a
    /// task.
    pub others: u64,
    /// All that are open, without the one that asks.
    pub open: u64,
}

impl Connections {
    pub(crate) async fn of(session: &Session) -> Result<Self, PostgresError> {
        let rows = session.rows(SQL, &[]).await?;
        let count = |column| {
            let count = rows.first().map_or(0, |row| row.get::<_, i64>(column));
            count.unsigned_abs()
        };
        Ok(Self {
            allowed: count(0),
            nodes: count(1),
            of_nodes: count(2),
            others: count(3),
            open: count(4),
        })
    }

    /// Refuses a node that may need more than the server can ever have, and warns where all together may
    /// need more.
    pub(crate) fn check(&self, needed: usize) -> Result<(), PostgresError> {
        let Self {
            allowed,
            nodes,
            of_nodes,
            others,
            ..
        } = *self;
        let needed = needed as u64;
        if needed > allowed {
            return Err(PostgresError::Refused(format!(
                "this node may need {needed} connections (workers x connections per worker + \
                 {CONNECTIONS_BESIDE}), and the server allows {allowed}: raise its max_connections, \
                 or lower store.connections_per_worker or workers"
            )));
        }
        if needed.saturating_add(of_nodes).saturating_add(others) > allowed {
            tracing::warn!(
                "the database may run out of connections: this node may need {needed}, {nodes} other \
                 nodes {of_nodes}, other programs have {others}, and the server allows {allowed}; \
                 raise its max_connections, or lower store.connections_per_worker"
            );
        }
        Ok(())
    }
}

/// Returns how many connections a node may have to the server that it writes to.
pub(crate) fn to_primary(options: &Options) -> usize {
    options.workers * options.connections_per_worker + CONNECTIONS_BESIDE
}

/// Returns how many it may have to the one that it only reads from: the workers', and one that asks how
/// far it is.
pub(crate) fn to_replica(options: &Options) -> usize {
    options.workers * options.connections_per_worker + 1
}
