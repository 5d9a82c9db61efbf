//! How tables are opened and served: the same choices alone and beside the relay.

use std::{
    fmt, net::SocketAddr, num::NonZeroUsize, path::PathBuf, str::FromStr, sync::Arc, time::Duration,
};

use hikyaku_table_server::{Source, TableServerConfig};
use hikyaku_tables::{LogOptions, Logging, NamedTable, Tables, TablesOptions};
use hikyaku_vfs::{Disk, RealDisk};

use super::{failure, tell_widths};
use crate::failure::Failure;

/// memcached's port.
pub(super) const LISTEN: ([u8; 4], u16) = ([127, 0, 0, 1], 11211);

/// Bytes of a log file at least: its header, and updates that make it worth a file.
pub(crate) const LOG_FILE_BYTES_MIN: u32 = 64 << 10;
/// At most, so that offsets have 32 bits.
pub(crate) const LOG_FILE_BYTES_MAX: u32 = 1 << 30;

/// Which tables are served, where, to whom, and whom they follow.
#[derive(Debug, Clone)]
pub(crate) struct TablesSettings {
    /// The tables; none: none are served.
    pub(crate) open: Vec<NamedTable>,
    /// Where clients connect.
    pub(crate) listen: Option<SocketAddr>,
    /// A Unix socket.
    pub(crate) unix: Option<PathBuf>,
    /// What clients over TCP must present.
    pub(crate) token: Option<Token>,
    /// Whether updates are logged.
    pub(crate) logging: Logging,
    /// Bytes of the log that are kept for followers and restores.
    pub(crate) log_bytes: u64,
    /// Bytes of each of its files.
    pub(crate) log_file_bytes: u32,
    /// This server's number in update logs.
    pub(crate) server_id: u32,
    /// Whom to follow.
    pub(crate) follow: Option<Followed>,
    /// What it wants to be told first.
    pub(crate) follow_token: Option<Token>,
    /// Microseconds since 1970 from which on to follow it the first time.
    pub(crate) follow_since_us: u64,
    /// Where clients may have copies written to.
    pub(crate) copies: Option<PathBuf>,
    /// The folder of the update logs that clients may have restored.
    pub(crate) restores: Option<PathBuf>,
    /// Threads; none: one for each core.
    pub(crate) workers: Option<NonZeroUsize>,
    /// Connections open at the same time.
    pub(crate) connections_max: usize,
    /// Bytes of one value.
    pub(crate) value_bytes_max: usize,
    /// How long a connection may be silent.
    pub(crate) idle_timeout: Option<Duration>,
}

impl Default for TablesSettings {
    fn default() -> Self {
        let (log, server) = (LogOptions::new(1), TableServerConfig::default());
        Self {
            open: Vec::new(),
            listen: Some(LISTEN.into()),
            unix: None,
            token: None,
            logging: Logging::Async,
            log_bytes: log.retain_bytes,
            log_file_bytes: log.file_bytes_max,
            server_id: log.server,
            follow: None,
            follow_token: None,
            follow_since_us: 0,
            copies: None,
            restores: None,
            workers: None,
            connections_max: server.connections_max,
            value_bytes_max: server.value_bytes_max,
            idle_timeout: None,
        }
    }
}

impl TablesSettings {
    /// Opens the tables in a folder, and says what is not as it was asked for.
    pub(super) fn open(&self, folder: &std::path::Path) -> Result<Arc<Tables>, Failure> {
        if self.follow.is_some() && self.logging == Logging::None {
            let text = "following another server needs an update log (--log, tables.log)";
            return Err(Failure::Usage(text.to_owned()));
        }
        let disk: Disk = Arc::new(RealDisk);
        let default = TablesOptions::new(self.server_id);
        let options = TablesOptions {
            logging: self.logging,
            log: LogOptions {
                retain_bytes: self.log_bytes,
                file_bytes_max: self.log_file_bytes,
                ..default.log.clone()
            },
            ..default
        };
        let tables = Tables::open(&disk, folder, &self.open, &options)
            .map_err(|error| failure("can't open the tables", &error))?;
        tell_widths(&tables);
        Ok(Arc::new(tables))
    }

    /// Returns how they are served.
    pub(super) fn config(&self, measure_requests: bool) -> TableServerConfig {
        let text = |token: &Option<Token>| token.as_ref().map(|token| token.0.clone());
        TableServerConfig {
            listen: self.listen,
            unix: self.unix.clone(),
            token: text(&self.token),
            workers: self.workers,
            copies: self.copies.clone(),
            restores: self.restores.clone(),
            follow: self.follow.as_ref().map(|followed| Source {
                host: followed.host.clone(),
                port: followed.port,
                token: text(&self.follow_token),
                since_us: self.follow_since_us,
            }),
            server_id: self.server_id,
            connections_max: self.connections_max,
            value_bytes_max: self.value_bytes_max,
            idle_timeout: self.idle_timeout,
            measure_requests,
            ..TableServerConfig::default()
        }
    }
}

/// What clients must present. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// A server to follow: `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Followed {
    host: String,
    port: u16,
}

impl FromStr for Followed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        let (host, port) = parts.ok_or("a server to follow is HOST:PORT")?;
        let port = port.parse().map_err(|_| format!("{port} is no port"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
