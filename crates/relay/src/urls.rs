//! The addresses that mean this relay in AUTH events (NIP-42) and requests to vanish (NIP-62).

use std::net::SocketAddr;

/// A text that is not a `ws://` or `wss://` URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a ws:// or wss:// address")]
pub struct UrlError(pub String);

/// The addresses by which clients may mean this relay. Never taken from a Host header: another
/// relay could pass on an AUTH that was signed for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayUrls {
    normalized: Vec<String>,
}

impl RelayUrls {
    /// The one address that the operator has configured.
    pub fn public(url: &str) -> Result<Self, UrlError> {
        Ok(Self {
            normalized: vec![url.to_owned()],
        })
    }

    /// The listen address and localhost, while no address is configured.
    pub fn listening(address: SocketAddr) -> Self {
        Self {
            normalized: vec![address.to_string()],
        }
    }

    /// Tells whether the URL means this relay.
    pub fn names_us(&self, url: &str) -> bool {
        self.normalized.iter().any(|ours| ours == url)
    }
}
