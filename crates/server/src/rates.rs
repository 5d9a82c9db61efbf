//! How fast clients may publish and ask: by address, and by the key that wrote.

use std::{net::IpAddr, time::Duration};

use hikyaku_event::PublicKey;
use hikyaku_members::{AddressFamily, Rate, RateLimits};
use hikyaku_tables::{Stamp, TableError};

use crate::{
    AddressRange,
    address::household,
    clock::{unix_now, unix_now_us},
};

/// The rates that the server holds its clients to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Events from one address (IPv6: from one /64), before their signatures are checked.
    pub events_per_address: Rate,
    /// Events of one key, once their signatures are checked: nobody else can use its rate up.
    pub events_per_key: Rate,
    /// REQs and COUNTs from one address.
    pub queries_per_address: Rate,
}

impl Default for Rates {
    fn default() -> Self {
        // A client that comes to a new relay brings along what its owner wrote elsewhere.
        let events = Rate {
            per_minute: 600,
            burst: 5_000,
        };
        Self {
            events_per_address: events,
            events_per_key: events,
            queries_per_address: Rate {
                per_minute: 2_400,
                burst: 2_000,
            },
        }
    }
}

/// What is remembered of a client's address: where it comes from, and for its rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) family: AddressFamily,
    /// None where it has no limit.
    limited: Option<IpAddr>,
}

/// Holds all clients of all workers to their rates.
#[derive(Debug)]
pub(crate) struct RateGate {
    limits: RateLimits,
    rates: Rates,
    unlimited: Vec<AddressRange>,
}

/// Bytes of what a rate is kept for: a public key at most.
const KEY_LEN: usize = 32;

/// Places looked at in one sweep, so that no sweep is long.
const SLOTS_PER_SWEEP: usize = 10_000;
/// How often to sweep.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// What a client must wait for, in seconds.
pub(crate) type Wait = u64;

impl RateGate {
    pub(crate) fn new(limits: RateLimits, rates: Rates, unlimited: Vec<AddressRange>) -> Self {
        Self {
            limits,
            rates,
            unlimited,
        }
    }

    /// Finds out whether a client has limits.
    pub(crate) fn enter(&self, address: IpAddr) -> Client {
        let exempt = self.unlimited.iter().any(|range| range.contains(address));
        Client {
            family: match address.to_canonical() {
                IpAddr::V4(_) => AddressFamily::V4,
                IpAddr::V6(_) => AddressFamily::V6,
            },
            limited: (!exempt).then(|| household(address)),
        }
    }

    /// Forgets clients that have been idle, a part at a time.
    pub(crate) fn sweep(&self) {
        self.limits.sweep(unix_now(), SLOTS_PER_SWEEP);
    }

    /// Takes one event of a client's allowance.
    pub(crate) fn event_from(&self, client: Client) -> Result<(), Wait> {
        self.of_address(client, b'e', self.rates.events_per_address)
    }

    /// Takes one query of a client's allowance.
    pub(crate) fn query_from(&self, client: Client) -> Result<(), Wait> {
        self.of_address(client, b'q', self.rates.queries_per_address)
    }

    /// Takes one event of its author's allowance.
    pub(crate) fn event_by(&self, client: Client, author: &PublicKey) -> Result<(), Wait> {
        if client.limited.is_none() {
            return Ok(());
        }
        self.take(b'k', author.as_bytes(), self.rates.events_per_key)
    }

    fn of_address(&self, client: Client, what: u8, rate: Rate) -> Result<(), Wait> {
        let Some(address) = client.limited else {
            return Ok(());
        };
        let bits = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        self.take(what, &bits.to_be_bytes(), rate)
    }

    fn take(&self, what: u8, who: &[u8], rate: Rate) -> Result<(), Wait> {
        let mut key = [what; 1 + KEY_LEN];
        let key = key.get_mut(..=who.len()).unwrap_or_default();
        if let Some(rest) = key.get_mut(1..) {
            rest.copy_from_slice(who);
        }
        let stamp = Stamp {
            at_us: unix_now_us(),
            origin: 0,
        };
        match self.limits.take(key, 1, rate, stamp) {
            Ok(taken) => taken,
            Err(error) => {
                failed(&error);
                Ok(())
            }
        }
    }
}

/// A client is not to suffer from a table that fails; the operator is to know.
fn failed(error: &TableError) {
    tracing::warn!(%error, "rate not kept");
}
