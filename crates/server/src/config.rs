//! What a server is told: addresses, limits, times.

use std::{
    collections::BTreeMap, fmt, net::SocketAddr, num::NonZeroUsize, sync::Arc, time::Duration,
};

use hikyaku_members::Members;
use hikyaku_relay::{Limits, RelayInformation};
use hikyaku_tables::Table;

use crate::{AccessLog, AddressRange, Cors, Rates, Sessions, Tls, metrics::Gauges};

/// The configuration of a server. [`ServerConfig::new`] has the defaults.
#[derive(Clone)]
pub struct ServerConfig {
    /// Where to listen; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// The certificate to show there; `None` for no encryption (a proxy may do it).
    pub tls: Option<Tls>,
    /// The relay's address as clients know it, `wss://...`. While it is unset only the listen
    /// address and localhost mean this relay in AUTH events and requests to vanish.
    pub public_url: Option<String>,
    /// What the relay says about itself. Its limits are taken from `limits`.
    pub information: RelayInformation,
    /// The limits put on each client.
    pub limits: Limits,
    /// How many workers; `None` for one per core.
    pub workers: Option<NonZeroUsize>,
    /// Connections open at the same time.
    pub connections_max: usize,
    /// Connections open at the same time from one address (IPv6: from one /64).
    pub connections_per_address_max: u32,
    /// Addresses that the limit per address and the rates leave alone.
    pub unlimited_addresses: Vec<AddressRange>,
    /// How fast clients may publish and ask.
    pub rates: Rates,
    /// Where it is taken down who was here; `None` for nowhere.
    pub members: Option<Arc<Members>>,
    /// The sessions that browsers begin by logging in; `None`: nobody can log in.
    pub sessions: Option<Sessions>,
    /// Proxies whose `X-Forwarded-For` is believed. Nobody else's is read.
    pub trusted_proxies: Vec<AddressRange>,
    /// How long a client may take to send the headers of a request.
    pub header_timeout: Duration,
    /// How long nothing may move on an HTTP connection before it is closed.
    pub http_timeout: Duration,
    /// How long a plugin's handler may take for one request or event.
    pub handler_timeout: Duration,
    /// The database that plugins connect to (`Worker::postgres`, with the feature `postgres`).
    pub postgres_url: Option<String>,
    /// Connections to it, of the whole server: divided among the workers. 0 is one for each; fewer than
    /// that are refused, more than one each helps where some statements take long.
    pub postgres_connections: usize,
    /// Which pages of other origins may use the routes; `None`: only those that a handler lets.
    pub cors: Option<Cors>,
    /// Bytes of a request's body that a plugin's handler reads at most.
    pub body_bytes_max: usize,
    /// After how long a silence a client is pinged; it has as long again to answer.
    pub ping_interval: Duration,
    /// How long a closing connection may take to say goodbye.
    pub close_timeout: Duration,
    /// How long a shutdown waits for writes and goodbyes.
    pub drain_timeout: Duration,
    /// How many bytes of live events may wait for one client before it is closed as too slow.
    pub queued_bytes_max: usize,
    /// How many events of one connection may be on their way to the store before it is read on.
    pub publications_in_flight_max: usize,
    /// How often what has expired is removed from the store.
    pub sweep_interval: Duration,
    /// Tables that plugins find by their names (`Worker::table`).
    pub tables: BTreeMap<String, Arc<dyn Table>>,
    /// Where an operator reads the metrics; `None` for nowhere.
    pub metrics_listen: Option<SocketAddr>,
    /// Whether it is measured what requests cost, by their shape.
    pub measure_requests: bool,
    /// Where each HTTP request is written to; `None` for nowhere.
    pub access_log: Option<AccessLog>,
    /// Figures kept by others to show among the metrics.
    pub gauges: Option<Gauges>,
}

impl ServerConfig {
    /// Returns the defaults for this address.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            tls: None,
            public_url: None,
            information: RelayInformation::default(),
            limits: Limits::default(),
            workers: None,
            connections_max: 100_000,
            // A household, an office or a carrier's gateway shares one address.
            connections_per_address_max: 200,
            unlimited_addresses: AddressRange::LOOPBACK.to_vec(),
            rates: Rates::default(),
            members: None,
            sessions: None,
            trusted_proxies: Vec::new(),
            header_timeout: Duration::from_secs(10),
            http_timeout: Duration::from_mins(1),
            handler_timeout: Duration::from_secs(10),
            postgres_url: None,
            postgres_connections: 0,
            cors: None,
            body_bytes_max: 1024 * 1024,
            // Shorter than the idle time-outs of the usual proxies (60 s) would keep phones awake;
            // longer loses track of clients that vanished.
            ping_interval: Duration::from_secs(55),
            close_timeout: Duration::from_secs(10),
            drain_timeout: Duration::from_secs(15),
            queued_bytes_max: 8 * 1024 * 1024,
            publications_in_flight_max: 1024,
            sweep_interval: Duration::from_mins(1),
            tables: BTreeMap::new(),
            metrics_listen: None,
            measure_requests: true,
            access_log: None,
            gauges: None,
        }
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("listen", &self.listen)
            .field("public_url", &self.public_url)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
