//! Making a connection: to the first of the address's hosts that lets us in, within its time.

use std::{error::Error, io, rc::Rc, sync::Arc, time::Duration};

use hikyaku_address::Address;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpStream, UnixStream},
    time::timeout,
};
use tokio_postgres::{
    Config,
    config::{Host, LoadBalanceHosts, TargetSessionAttrs},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    PostgresError,
    connection::Connection,
    handshake,
    session::Session,
    socket::{Socket, Stream},
    wire::Wire,
};

/// What connections are called in `pg_stat_activity`, unless the address says something else.
const NAME: &str = "hikyaku plugins";
/// How long a connection may take to be made, unless the address says something else.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// PostgreSQL's port.
const PORT: u16 = 5432;

/// Where connections go to.
pub(super) struct Target {
    config: Config,
    /// What speaks TLS, if it is spoken.
    tls: Option<MakeRustlsConnect>,
}

impl Target {
    /// Reads an address; refuses what it may say and nothing here heeds.
    pub(super) fn new(url: &str, statement_timeout: Duration) -> Result<Self, PostgresError> {
        let address = url.parse::<Address>();
        let Address { mut config, tls } =
            address.map_err(|error| PostgresError::Address(error.to_string()))?;
        if config.get_target_session_attrs() != TargetSessionAttrs::Any {
            return Err(PostgresError::Unheeded("target_session_attrs"));
        }
        if config.get_load_balance_hosts() != LoadBalanceHosts::Disable {
            return Err(PostgresError::Unheeded("load_balance_hosts"));
        }
        let given = config.get_options().unwrap_or_default().to_owned();
        let milliseconds = statement_timeout.as_millis();
        config.options(format!("-c statement_timeout={milliseconds} {given}"));
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(statement_timeout);
        }
        if config.get_application_name().is_none() {
            config.application_name(NAME);
        }
        Ok(Self { config, tls })
    }

    /// Connects, and is let in. `Err` says why the last of the hosts was no good.
    pub(super) async fn connect(&self) -> Result<Session, String> {
        let time = self.config.get_connect_timeout().copied();
        let time = time.unwrap_or(CONNECT_TIMEOUT);
        let mut result = Err("the address names no host".to_owned());
        let count = self
            .config
            .get_hosts()
            .len()
            .max(self.config.get_hostaddrs().len());
        for index in 0..count {
            result = match timeout(time, self.connect_to(index)).await {
                Ok(made) => made.map_err(|error| with_causes(&*error)),
                Err(_) => Err(format!("no connection within {} s", time.as_secs_f64())),
            };
            if result.is_ok() {
                break;
            }
        }
        result
    }

    async fn connect_to(&self, index: usize) -> Result<Session, Box<dyn Error>> {
        let stream = open(&self.config, index).await?;
        let in_flight = Arc::default();
        let socket = Socket::new(stream, Arc::clone(&in_flight));
        let wire = match (&self.tls, self.config.get_hosts().get(index)) {
            // As in libpq: what stays on this machine is not encrypted, whatever the address says.
            (None, _) | (_, Some(Host::Unix(_))) => Wire::Plain(socket),
            (Some(tls), Some(Host::Tcp(host))) => {
                Wire::encrypted(socket, &self.config, tls.clone(), host).await?
            }
            (Some(tls), None) => {
                let address = self.config.get_hostaddrs().get(index);
                let host = address.map_or_else(String::new, ToString::to_string);
                Wire::encrypted(socket, &self.config, tls.clone(), &host).await?
            }
        };
        let wire = handshake::let_in(&self.config, wire).await?;
        let connection = Rc::new(Connection::new(in_flight));
        let driven = Rc::clone(&connection).drive(wire);
        tokio::task::spawn_local(async move {
            if let Err(error) = driven.await {
                tracing::warn!(error, "a plugin's connection to the database has ended");
            }
        });
        Ok(Session::new(connection))
    }
}

/// Opens a socket to one of the hosts.
async fn open(config: &Config, index: usize) -> io::Result<Stream> {
    let ports = config.get_ports();
    let port = ports.get(index).or(ports.first()).copied().unwrap_or(PORT);
    let address = config.get_hostaddrs().get(index);
    let stream = match (address, config.get_hosts().get(index)) {
        // The host is a name for the certificate then.
        (Some(address), _) => TcpStream::connect((*address, port)).await?,
        (None, Some(Host::Tcp(name))) => TcpStream::connect((name.as_str(), port)).await?,
        (None, Some(Host::Unix(folder))) => {
            let path = folder.join(format!(".s.PGSQL.{port}"));
            return Ok(Stream::Unix(UnixStream::connect(path).await?));
        }
        (None, None) => return Err(io::Error::other("the address names no host")),
    };
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    if config.get_keepalives() {
        let mut keepalive = TcpKeepalive::new().with_time(config.get_keepalives_idle());
        if let Some(interval) = config.get_keepalives_interval() {
            keepalive = keepalive.with_interval(interval);
        }
        if let Some(retries) = config.get_keepalives_retries() {
            keepalive = keepalive.with_retries(retries);
        }
        socket.set_tcp_keepalive(&keepalive)?;
    }
    socket.set_tcp_user_timeout(config.get_tcp_user_timeout().copied())?;
    Ok(Stream::Tcp(stream))
}

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
