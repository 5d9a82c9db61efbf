//! The settings as the program uses them. Their defaults are those of the crates they are for.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use hikyaku_engine::{Durability, Options};
use hikyaku_event::TagName;
use hikyaku_members::FootprintLimits;
use hikyaku_policies::PolicyConfig;
use hikyaku_relay::{RelayUrls, UrlError};
use hikyaku_server::ServerConfig;

use crate::{
    access_log::AccessLogSettings, certificate::CertificateFiles, sessions::SessionSettings,
    tables::TablesSettings,
};

/// All settings.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The data folder.
    pub(crate) data: PathBuf,
    /// The relay's own key, if the operator brings one.
    pub(crate) relay_key: Option<SecretKey>,
    /// What the server is told.
    pub(crate) server: ServerConfig,
    /// Origins whose pages may use plugins' routes; `*`: all.
    pub(crate) cors_origins: Vec<String>,
    /// The certificate that clients are shown, if there is any.
    pub(crate) certificate: CertificateFiles,
    /// The database that the store is in; unset, it is in the data folder.
    pub(crate) store_url: Option<DatabaseUrl>,
    /// A replica of it to read from.
    pub(crate) store_read_url: Option<DatabaseUrl>,
    /// The database's schema that everything is in.
    pub(crate) store_schema: String,
    /// Names of tags that are indexed beside the single letters.
    pub(crate) store_tag_names: Vec<TagName>,
    /// Connections to the database that one worker may use for reading.
    pub(crate) store_connections_per_worker: usize,
    /// How long one of the database's statements may take.
    pub(crate) store_statement_timeout: Duration,
    /// Whether an OK waits for the disk.
    pub(crate) durability: DurabilityKind,
    /// Within how many milliseconds the disk follows, where an OK does not wait for it.
    pub(crate) sync_interval_ms: u64,
    /// Within how many seconds what was vanished or purged leaves the log.
    pub(crate) purge_seconds_max: u64,
    /// Whether it is taken down who is here and who writes what.
    pub(crate) keep_members: bool,
    /// Whether browsers can log in.
    pub(crate) sessions: SessionSettings,
    /// What is kept of the visitors of members' pages.
    pub(crate) footprints: FootprintLimits,
    /// Who may write what.
    pub(crate) policies: PolicyConfig,
    /// Which tables are served beside the relay.
    pub(crate) tables: TablesSettings,
    /// Which log lines are written, as `info` or `warn,hikyaku_server=debug`.
    pub(crate) log_filter: String,
    /// How they are written.
    pub(crate) log_format: LogFormat,
    /// Whether HTTP requests are written down.
    pub(crate) access_log: AccessLogSettings,
}

/// The address of a database, which may hold a password. Never shown whole.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct DatabaseUrl(pub(crate) String);

impl DatabaseUrl {
    /// Returns it without what stands before the host, and without its parameters.
    pub(crate) fn shown(&self) -> String {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
        let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
        format!("postgres://{rest}")
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

/// When an OK is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DurabilityKind {
    /// After the disk has it.
    Sync,
    /// Before; the disk follows within an interval.
    Interval,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One object a line, for programs.
    Json,
}

/// A secret key's 32 bytes. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretKey(pub(crate) [u8; 32]);

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

impl Default for Settings {
    fn default() -> Self {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 7777));
        let mut server = ServerConfig::new(listen);
        server.information.software = String::from(env!("CARGO_PKG_NAME"));
        server.information.version = String::from(env!("CARGO_PKG_VERSION"));
        let database = hikyaku_postgres::Options::new("");
        Self {
            data: PathBuf::from("./data"),
            relay_key: None,
            server,
            cors_origins: Vec::new(),
            certificate: CertificateFiles::default(),
            store_url: None,
            store_read_url: None,
            store_schema: database.schema,
            store_tag_names: database.tag_names,
            store_connections_per_worker: database.connections_per_worker,
            store_statement_timeout: database.statement_timeout,
            durability: DurabilityKind::Sync,
            sync_interval_ms: 200,
            purge_seconds_max: Options::default().purge_seconds_max,
            keep_members: true,
            sessions: SessionSettings::default(),
            footprints: FootprintLimits::default(),
            policies: PolicyConfig::default(),
            tables: TablesSettings::default(),
            log_filter: "info".to_owned(),
            log_format: LogFormat::Text,
            access_log: AccessLogSettings::default(),
        }
    }
}

impl Settings {
    /// Returns what the engine is told.
    pub(crate) fn engine_options(&self, term_key: [u8; 16]) -> Options {
        Options {
            durability: match self.durability {
                DurabilityKind::Sync => Durability::Sync,
                DurabilityKind::Interval => Durability::Interval(self.sync_interval_ms),
            },
            purge_seconds_max: self.purge_seconds_max,
            term_key,
            ..Options::default()
        }
    }

    /// Returns what the database's store is told, if the store is in one.
    pub(crate) fn postgres_options(&self) -> Option<hikyaku_postgres::Options> {
        let url = self.store_url.as_ref()?;
        Some(hikyaku_postgres::Options {
            schema: self.store_schema.clone(),
            tag_names: self.store_tag_names.clone(),
            read_url: self.store_read_url.as_ref().map(|url| url.0.clone()),
            connections_per_worker: self.store_connections_per_worker,
            statement_timeout: self.store_statement_timeout,
            ..hikyaku_postgres::Options::new(&url.0)
        })
    }

    /// Returns the addresses that mean this relay in requests to vanish, where no server has bound
    /// one.
    pub(crate) fn urls(&self) -> Result<RelayUrls, UrlError> {
        match &self.server.public_url {
            Some(url) => RelayUrls::public(url),
            None if self.certificate.certificate.is_some() => {
                Ok(RelayUrls::listening_with_tls(self.server.listen))
            }
            None => Ok(RelayUrls::listening(self.server.listen)),
        }
    }
}
