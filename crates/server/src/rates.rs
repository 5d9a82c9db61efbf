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

mod spent;

use spent::Spent;

/// The rates that the server holds its clients to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Events from one address (IPv6: from one /64), before their signatures are checked.
    pub events_per_address: Rate,
    /// Events of one key, once their signatures are checked: nobody else can use its rate up.
    pub events_per_key: Rate,
    /// REQs and COUNTs from one address.
    pub queries_per_address: Rate,
    /// Sessions that browsers of one address begin: each may leave a revocation behind, which is
    /// remembered until it would have ended.
    pub logins_per_address: Rate,
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
            // An office whose members come in the morning.
            logins_per_address: Rate {
                per_minute: 10,
                burst: 100,
            },
        }
    }
}

/// What is remembered of a client's address: where it comes from, and for its rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) address: IpAddr,
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
    /// What other nodes do not know yet, where there can be any.
    spent: Option<Spent>,
}

// What a rate is of: the first byte of its key.
const EVENTS_OF_ADDRESS: u8 = b'e';
const EVENTS_OF_KEY: u8 = b'k';
const QUERIES_OF_ADDRESS: u8 = b'q';
const LOGINS_OF_ADDRESS: u8 = b'l';

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
            spent: None,
        }
    }

    /// Takes down what clients spend, for other nodes to know.
    pub(crate) fn share(&mut self, shared: bool) {
        self.spent = shared.then(Spent::default);
    }

    /// Returns what is to be told to other nodes now.
    pub(crate) fn spent(&self) -> Vec<String> {
        let now = unix_now_us();
        let due = |spent: &Spent| spent.due(now, |what| self.rate(what));
        self.spent.as_ref().map_or_else(Vec::new, due)
    }

    /// Takes what clients have spent at another node off their allowances here.
    pub(crate) fn spent_elsewhere(&self, text: &str) {
        let stamp = Stamp {
            at_us: unix_now_us(),
            origin: 0,
        };
        for (key, units) in spent::parse(text) {
            let Some(rate) = key.first().and_then(|what| self.rate(*what)) else {
                continue;
            };
            if let Err(error) = self.limits.charge(&key, units, rate, stamp) {
                failed(&error);
            }
        }
    }

    fn rate(&self, what: u8) -> Option<Rate> {
        match what {
            EVENTS_OF_ADDRESS => Some(self.rates.events_per_address),
            EVENTS_OF_KEY => Some(self.rates.events_per_key),
            QUERIES_OF_ADDRESS => Some(self.rates.queries_per_address),
            LOGINS_OF_ADDRESS => Some(self.rates.logins_per_address),
            _ => None,
        }
    }

    /// Finds out whether a client has limits.
    pub(crate) fn enter(&self, address: IpAddr) -> Client {
        let exempt = self.unlimited.iter().any(|range| range.contains(address));
        Client {
            address,
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
        self.of_address(client, EVENTS_OF_ADDRESS, self.rates.events_per_address)
    }

    /// Takes one query of a client's allowance.
    pub(crate) fn query_from(&self, client: Client) -> Result<(), Wait> {
        self.of_address(client, QUERIES_OF_ADDRESS, self.rates.queries_per_address)
    }

    /// Takes one login of a client's allowance.
    pub(crate) fn login_from(&self, client: Client) -> Result<(), Wait> {
        self.of_address(client, LOGINS_OF_ADDRESS, self.rates.logins_per_address)
    }

    /// Takes one event of its author's allowance.
    pub(crate) fn event_by(&self, client: Client, author: &PublicKey) -> Result<(), Wait> {
        if client.limited.is_none() {
            return Ok(());
        }
        self.take(EVENTS_OF_KEY, author.as_bytes(), self.rates.events_per_key)
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
            Ok(taken) => {
                if let (Ok(()), Some(spent)) = (taken, &self.spent) {
                    spent.add(key, stamp.at_us);
                }
                taken
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    const BURST: u32 = 200;

    fn gate() -> RateGate {
        let rate = Rate {
            per_minute: 1,
            burst: BURST,
        };
        let rates = Rates {
            events_per_address: rate,
            events_per_key: rate,
            queries_per_address: rate,
            logins_per_address: rate,
        };
        let mut gate = RateGate::new(RateLimits::new(1 << 20), rates, Vec::new());
        gate.share(true);
        gate
    }

    fn tell(from: &RateGate, to: &RateGate) {
        for text in from.spent() {
            to.spent_elsewhere(&text);
        }
    }

    #[test]
    fn a_client_that_spreads_over_nodes_gets_little_more_than_at_one() {
        let nodes = [gate(), gate(), gate()];
        let client = nodes[0].enter("192.0.2.1".parse().unwrap());
        let (mut taken, mut refused) = (0, 0);
        while refused < nodes.len() {
            refused = 0;
            for node in &nodes {
                match node.event_from(client) {
                    Ok(()) => taken += 1,
                    Err(_) => refused += 1,
                }
            }
            for (at, node) in nodes.iter().enumerate() {
                for text in node.spent() {
                    for (_, other) in nodes.iter().enumerate().filter(|(other, _)| *other != at) {
                        other.spent_elsewhere(&text);
                    }
                }
            }
        }
        // A hundredth of a burst may be untold at each of the two others.
        assert!((BURST..=BURST + 6).contains(&taken), "{taken}");
    }

    #[test]
    fn what_was_spent_elsewhere_is_gone_here_and_other_clients_keep_theirs() {
        let (one, other) = (gate(), gate());
        let client = |address: &str| one.enter(address.parse().unwrap());
        let (spender, saver) = (client("192.0.2.1"), client("192.0.2.2"));
        while one.event_from(spender).is_ok() {}
        tell(&one, &other);
        let left = (0..BURST).filter(|_| other.event_from(spender).is_ok());
        assert!(left.count() <= (BURST / 100) as usize);
        assert_eq!(other.event_from(saver), Ok(()));
        assert_eq!(other.query_from(spender), Ok(()));
        // What is not a spending changes nothing.
        other.spent_elsewhere("65:99 zz:1 6b:4294967295 x");
        assert_eq!(other.event_from(saver), Ok(()));
    }
}
