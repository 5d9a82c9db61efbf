//! An address: what the driver knows of it, and what it does not.

use std::str::FromStr;

use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{parameters, tls};

/// A database's address as libpq has it, a URL or `key=value` pairs, with what speaks TLS to it.
pub struct Address {
    /// Everything that is not about TLS, but for whether it is spoken.
    pub config: Config,
    /// What speaks it, if anything does.
    pub tls: Option<MakeRustlsConnect>,
}

/// Why an address can't be used: it is not one, or what it says about TLS can't be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(pub String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(url: &str) -> Result<Self, AddressError> {
        let (url, parameters) = parameters::split(url)?;
        let mut config = Config::from_str(&url).map_err(|error| {
            let cause = std::error::Error::source(&error);
            let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
            AddressError(format!("the database's address is not one{cause}"))
        })?;
        if config.get_hosts().is_empty() {
            // What has no name is called by its address: TLS has one for whom it speaks to.
            for address in config.get_hostaddrs().to_vec() {
                config.host(address.to_string());
            }
        }
        let tls = tls::configure(&mut config, &parameters)?;
        Ok(Self { config, tls })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Waker},
    };

    use rustls::server::Acceptor;
    use tokio::io::{AsyncRead, DuplexStream, ReadBuf, duplex};
    use tokio_postgres::{
        config::SslMode,
        tls::{MakeTlsConnect, TlsConnect},
    };

    use super::*;

    fn address(text: &str) -> Address {
        let parsed = text.parse::<Address>();
        parsed.unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn tls_is_tried_with_other_machines() {
        for (hosts, mode) in [
            ("host=db.example", SslMode::Prefer),
            ("host=localhost", SslMode::Disable),
            ("host=/run/postgresql", SslMode::Disable),
            ("host=localhost,db.example", SslMode::Prefer),
            ("hostaddr=192.0.2.1", SslMode::Prefer),
            ("hostaddr=127.0.0.1", SslMode::Disable),
            ("hostaddr=::1", SslMode::Disable),
            // It goes to the address, whatever that is called.
            ("host=localhost hostaddr=192.0.2.1", SslMode::Prefer),
            ("host=db.example hostaddr=127.0.0.1", SslMode::Disable),
        ] {
            let found = address(&format!("{hosts} user=u"));
            assert_eq!(found.config.get_ssl_mode(), mode, "{hosts}");
            assert_eq!(found.tls.is_some(), mode != SslMode::Disable, "{hosts}");
            let named = found.config.get_hosts().len();
            assert!(named >= found.config.get_hostaddrs().len(), "{hosts}");
        }
    }

    /// Returns the protocols that a client offers in its first message of TLS.
    fn offered(text: &str) -> Option<Vec<Vec<u8>>> {
        let mut tls = address(text).tls.unwrap();
        let (near, far) = duplex(16 * 1024);
        let connect = MakeTlsConnect::<DuplexStream>::make_tls_connect(&mut tls, "db.example");
        let mut cx = Context::from_waker(Waker::noop());
        assert!(
            pin!(connect.unwrap().connect(near))
                .poll(&mut cx)
                .is_pending()
        );
        let mut bytes = [0; 4096];
        let mut hello = ReadBuf::new(&mut bytes);
        assert!(pin!(far).poll_read(&mut cx, &mut hello).is_ready());
        let mut acceptor = Acceptor::default();
        acceptor.read_tls(&mut hello.filled()).unwrap();
        let accepted = acceptor.accept().unwrap().unwrap();
        let offered = accepted.client_hello().alpn()?;
        Some(offered.map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn who_begins_with_tls_says_what_is_spoken_in_it() {
        let direct = "host=db.example user=u sslmode=require sslnegotiation=direct";
        assert_eq!(offered(direct), Some(vec![b"postgresql".to_vec()]));
        assert_eq!(offered("host=db.example user=u sslmode=require"), None);
    }

    #[test]
    fn what_begins_with_tls_can_do_nothing_else() {
        for mode in ["", "sslmode=disable", "sslmode=prefer"] {
            let text = format!("host=db.example user=u sslnegotiation=direct {mode}");
            let refused = text.parse::<Address>().err().map(|error| error.to_string());
            let refused = refused.unwrap_or_default();
            assert!(
                refused.starts_with("sslnegotiation=direct goes with"),
                "{mode}: {refused}"
            );
        }
    }
}
