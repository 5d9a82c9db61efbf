//! Where a server listens, and whether it may be loaded: a load that hits somebody else's server is
//! an attack on it.

use std::{
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    time::Duration,
};

use crate::error::{BenchError, During, Result};

/// A server on this machine or in its neighbourhood accepts within this, or not at all.
const CONNECT: Duration = Duration::from_secs(10);

/// Permission to load servers that are not on this machine.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct Permission {
    /// Load a server that is not on this machine. Do that to your own only
    #[arg(long)]
    pub(crate) i_own_this_server: bool,
}

/// A server: `host:port`, or a URL with a scheme that is asked for, a host, a port and a path.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    text: String,
    host: String,
    path: String,
    socket: SocketAddr,
}

impl Address {
    /// Finds a server that accepts connections. `scheme` is what the text begins with (`ws://`), or
    /// empty; `port` is for a text that has none.
    pub(crate) fn reach(
        text: &str,
        scheme: &str,
        port: Option<u16>,
        permission: Permission,
    ) -> Result<Self> {
        let rest = text.strip_prefix(scheme).ok_or_else(|| {
            let expected = format!("{text}: expected {scheme}host:port");
            BenchError::Input(
                if text.starts_with("wss://") || text.starts_with("https://") {
                    format!("{expected}; load the server itself, without the proxy that encrypts")
                } else {
                    expected
                },
            )
        })?;
        let (host, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let resolved = match port {
            Some(port) if !has_port(host) => format!("{host}:{port}"),
            _ => host.to_owned(),
        };
        let found: Vec<_> = resolved.to_socket_addrs().during(text)?.collect();
        if !permission.i_own_this_server
            && let Some(other) = found.iter().find(|address| !address.ip().is_loopback())
        {
            return Err(BenchError::Input(format!(
                "{text} is {other}, which is not this machine: a load can take a server down; if it \
                 is yours, say --i-own-this-server"
            )));
        }
        let mut refused = None;
        for socket in found {
            match TcpStream::connect_timeout(&socket, CONNECT) {
                Ok(_) => {
                    return Ok(Self {
                        text: text.trim_end_matches('/').to_owned(),
                        host: host.to_owned(),
                        path: path.to_owned(),
                        socket,
                    });
                }
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.map_or_else(
            || BenchError::Input(format!("{text}: no address")),
            |source| BenchError::Io {
                what: format!("nothing answers at {text}"),
                source,
            },
        ))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns what a request names as its host.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn socket(&self) -> SocketAddr {
        self.socket
    }

    pub(crate) fn is_local(&self) -> bool {
        self.socket.ip().is_loopback()
    }
}

/// Tells whether a host ends with a port; an IPv6 address has colons of its own, in brackets.
fn has_port(host: &str) -> bool {
    host.rsplit_once(']')
        .map_or(host, |(_, after)| after)
        .contains(':')
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn refusal(text: &str, scheme: &str) -> String {
        let reached = Address::reach(text, scheme, None, Permission::default());
        reached.err().unwrap().to_string()
    }

    #[test]
    fn a_server_elsewhere_is_not_loaded_without_the_owners_word() {
        // An address of documentation (RFC 5737): nothing answers there, and nothing is sent.
        let said = refusal("ws://192.0.2.1:7777", "ws://");
        assert!(said.contains("--i-own-this-server"), "{said}");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let text = format!("ws://{}/path", listener.local_addr().unwrap());
        let here = Address::reach(&text, "ws://", None, Permission::default()).unwrap();
        assert!(here.is_local());
        assert_eq!(here.path(), "/path");
    }

    #[test]
    fn what_is_no_address_is_said_to_be_none() {
        assert!(refusal("127.0.0.1:1", "ws://").contains("expected ws://host:port"));
        assert!(refusal("wss://localhost", "ws://").contains("without the proxy"));
        assert!(has_port("[::1]:80") && !has_port("[::1]") && !has_port("localhost"));
    }
}
