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
        let tls = tls::configure(&mut config, &parameters)?;
        Ok(Self { config, tls })
    }
}
