//! What a table server is told: addresses, limits, times.

use std::{fmt, net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use crate::replication::Source;

/// The configuration of a table server; the defaults listen nowhere.
#[derive(Clone)]
pub struct TableServerConfig {
    /// Where to listen; port 0 lets the system choose. An address that is not loopback needs a
    /// token.
    pub listen: Option<SocketAddr>,
    /// A Unix socket to listen on; its file is for its owner alone. A socket that nobody listens on
    /// any more is replaced.
    pub unix: Option<PathBuf>,
    /// What clients over TCP must present before anything else. Who can open the Unix socket's file
    /// needs none.
    pub token: Option<String>,
    /// How many workers; `None` for one per core.
    pub workers: Option<NonZeroUsize>,
    /// Where clients may have copies of tables written to; nowhere without it.
    pub copies: Option<PathBuf>,
    /// The folder of the update logs that clients may have restored; none without it.
    pub restores: Option<PathBuf>,
    /// Which server to follow from the start; only for tables that were opened together.
    pub follow: Option<Source>,
    /// This server's number in the update log; 0 for none.
    pub server_id: u32,
    /// Connections open at the same time.
    pub connections_max: usize,
    /// Bytes of one value; a longer one is refused and skipped.
    pub value_bytes_max: usize,
    /// How long a client may take to send a request once it has begun, and for which it may pause
    /// within one that is skipped.
    pub request_timeout: Duration,
    /// How long a client may leave its answers unread.
    pub unread_timeout: Duration,
    /// How long a connection may be silent; `None` for ever.
    pub idle_timeout: Option<Duration>,
    /// How long a shutdown waits for answers under way.
    pub drain_timeout: Duration,
    /// Whether it is measured what requests cost.
    pub measure_requests: bool,
}

impl Default for TableServerConfig {
    fn default() -> Self {
        Self {
            listen: None,
            unix: None,
            token: None,
            workers: None,
            copies: None,
            restores: None,
            follow: None,
            server_id: 0,
            connections_max: 10_000,
            // memcached's own default.
            value_bytes_max: 1024 * 1024,
            request_timeout: Duration::from_secs(30),
            unread_timeout: Duration::from_secs(30),
            // Clients keep pools of connections, which may be idle for days.
            idle_timeout: None,
            drain_timeout: Duration::from_secs(10),
            measure_requests: true,
        }
    }
}

impl fmt::Debug for TableServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableServerConfig")
            .field("listen", &self.listen)
            .field("unix", &self.unix)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
