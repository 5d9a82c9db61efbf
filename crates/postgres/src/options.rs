//! What an operator can say about the store.

use std::time::Duration;

use hikyaku_event::TagName;

/// How the store reaches its database, and what it may use of it.
#[derive(Clone)]
pub struct Options {
    /// `postgres://user:password@host:port/database?...`, or `key=value` pairs, as libpq has them.
    pub url: String,
    /// A replica that is read from, in the same form: a read that must see more than it has yet goes to
    /// `url`, and all do while it is away.
    pub read_url: Option<String>,
    /// The schema that everything is in: several relays can share a database.
    pub schema: String,
    /// Connections that one worker may use for reading at the same time; each is made when it is first
    /// needed. At least 1. Beside them a node has four: the writer's, the listener's, the one that tells
    /// other nodes what no table keeps, and one that looks for work now and then.
    pub connections_per_worker: usize,
    /// Workers of this node: with the connections of each, what is compared with the server's
    /// `max_connections` at the start. 0 compares nothing.
    pub workers: usize,
    /// How long one statement may take before the server gives it up.
    pub statement_timeout: Duration,
    /// How long a write may wait for other nodes' writes.
    pub lock_timeout: Duration,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// For how long writes are tried again while the database can't be reached, before they are refused.
    pub retry_time: Duration,
    /// Whether this node takes its turn at filling the index of tags with names that were switched on
    /// later.
    pub backfill: bool,
    /// Tag names beside the single letters that shall be indexed. Those that are not yet are switched on
    /// when the store is opened, which begins a backfill; with `backfill`, also later: when one that is
    /// under way has ended, or when a name has been dropped.
    pub tag_names: Vec<TagName>,
    /// An import: into a schema that is empty, and that nobody else has open, the indexes that only
    /// questions need are made at its end ([`crate::PostgresStore::make_indexes`]), or by who comes next.
    pub defer_indexes: bool,
}

impl Options {
    /// Returns the defaults for this database.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            read_url: None,
            schema: "hikyaku".to_owned(),
            connections_per_worker: 4,
            workers: 0,
            statement_timeout: Duration::from_secs(10),
            lock_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
            retry_time: Duration::from_secs(5),
            backfill: true,
            tag_names: Vec::new(),
            defer_indexes: false,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The URL may hold a password.
        f.debug_struct("Options")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}
