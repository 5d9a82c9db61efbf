//! What handlers know of the client that they decide about.

use std::{net::IpAddr, sync::Arc};

use hikyaku_event::PublicKey;
use hikyaku_relay::{Limits, RelayConfig};

/// One client's connection: its address, the keys it has authenticated, the limits it is under.
#[derive(Debug, Clone)]
pub struct Client {
    address: IpAddr,
    connection: u64,
    keys: Vec<PublicKey>,
    relay: Arc<RelayConfig>,
}

impl Client {
    pub(crate) fn new(address: IpAddr, connection: u64, relay: Arc<RelayConfig>) -> Self {
        Self {
            address,
            connection,
            keys: Vec::new(),
            relay,
        }
    }

    /// Returns the same client with the keys it has authenticated by now.
    pub(crate) fn with_keys(&self, keys: &[PublicKey]) -> Self {
        Self {
            keys: keys.to_vec(),
            ..self.clone()
        }
    }

    /// Returns its address; behind a trusted proxy, the one that the proxy speaks for.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns a number that no other connection of this server has while it runs.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// Returns the keys it has authenticated (NIP-42), in that order.
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }

    /// Tells whether it has authenticated this key.
    pub fn has_key(&self, key: &PublicKey) -> bool {
        self.keys.contains(key)
    }

    /// Returns the limits it is under.
    pub fn limits(&self) -> &Limits {
        &self.relay.limits
    }
}
