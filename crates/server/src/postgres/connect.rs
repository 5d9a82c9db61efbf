//! Making a connection: to the first of the address's hosts that lets us in, within its time.

use std::{cell::Cell, error::Error, io, rc::Rc, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpStream, UnixStream},
    time::timeout,
};
use tokio_postgres::{
    Client, Config, Connection, NoTls,
    config::{Host, LoadBalanceHosts, TargetSessionAttrs},
    tls::NoTlsStream,
};

use super::{
    PostgresError,
    socket::{Socket, Stream},
};

/// How long a connection may take to be made, unless the address says something else.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// PostgreSQL's port.
const PORT: u16 = 5432;

/// A connection, and what drives it.
pub(super) type Made = (Client, Connection<Socket, NoTlsStream>);

/// Refuses what an address may say and nothing here heeds.
pub(super) fn check(config: &Config) -> Result<(), PostgresError> {
    let unheeded = if config.get_target_session_attrs() != TargetSessionAttrs::Any {
        "target_session_attrs"
    } else if config.get_load_balance_hosts() != LoadBalanceHosts::Disable {
        "load_balance_hosts"
    } else {
        return Ok(());
    };
    Err(PostgresError::Unheeded(unheeded))
}

/// Connects, and is let in. `Err` says why the last of the hosts was no good.
pub(super) async fn connect(config: &Config, in_flight: Rc<Cell<usize>>) -> Result<Made, String> {
    let time = config.get_connect_timeout().copied();
    let time = time.unwrap_or(CONNECT_TIMEOUT);
    let mut result = Err("the address names no host".to_owned());
    let count = config.get_hosts().len().max(config.get_hostaddrs().len());
    for index in 0..count {
        let connecting = connect_to(config, index, Rc::clone(&in_flight));
        result = match timeout(time, connecting).await {
            Ok(made) => made.map_err(|error| with_causes(&*error)),
            Err(_) => Err(format!("no connection within {} s", time.as_secs_f64())),
        };
        if result.is_ok() {
            break;
        }
    }
    result
}

async fn connect_to(
    config: &Config,
    index: usize,
    in_flight: Rc<Cell<usize>>,
) -> Result<Made, Box<dyn Error>> {
    let stream = open(config, index).await?;
    let socket = Socket::new(stream, in_flight);
    Ok(config.connect_raw(socket, NoTls).await?)
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

pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
