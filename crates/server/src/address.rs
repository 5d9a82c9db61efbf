//! Clients' addresses: ranges of them, who a proxy speaks for, and how many connections each has.

use std::{
    fmt,
    hash::BuildHasher,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use crate::arrivals::Arrivals;

/// A range of IP addresses: `192.0.2.7`, `10.0.0.0/8`, `2001:db8::/32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    network: IpAddr,
    prefix: u8,
}

/// A text that is not a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an IP address or a range like 10.0.0.0/8")]
pub struct AddressRangeError(String);

impl FromStr for AddressRange {
    type Err = AddressRangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || AddressRangeError(text.to_owned());
        let (network, prefix) = match text.split_once('/') {
            Some((network, prefix)) => (network, Some(prefix)),
            None => (text, None),
        };
        let network: IpAddr = network.parse().map_err(|_| refused())?;
        let longest = if network.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix.parse().map_err(|_| refused())?,
            None => longest,
        };
        if prefix > longest {
            return Err(refused());
        }
        Ok(Self { network, prefix })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

impl AddressRange {
    /// The addresses of this machine itself.
    pub const LOOPBACK: [Self; 2] = [
        Self {
            network: IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 0)),
            prefix: 8,
        },
        Self {
            network: IpAddr::V6(Ipv6Addr::LOCALHOST),
            prefix: 128,
        },
    ];

    /// Returns the first address.
    pub(crate) fn network(&self) -> IpAddr {
        self.network
    }

    /// Returns how many leading bits its addresses share.
    pub(crate) fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Returns the same range, beginning with its first address.
    pub(crate) fn masked(self) -> Self {
        let prefix = u32::from(self.prefix);
        let network = match self.network {
            IpAddr::V4(network) => {
                let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
                IpAddr::V4((network.to_bits() & mask).into())
            }
            IpAddr::V6(network) => {
                let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
                IpAddr::V6((network.to_bits() & mask).into())
            }
        };
        Self { network, ..self }
    }

    /// Tells whether the address is in the range. An IPv4 address in IPv6's clothes counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differing = network.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= u32::from(self.prefix)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differing = network.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= u32::from(self.prefix)
            }
            _ => false,
        }
    }
}

/// Returns the client that a chain of proxies speaks for: the last address in `X-Forwarded-For`
/// that is not itself a trusted proxy. What stands before it anybody may have written. `peer` must
/// be a trusted proxy; it is the answer where the header is missing or unreadable.
pub(crate) fn forwarded_client<'a>(
    peer: IpAddr,
    trusted: &[AddressRange],
    headers: impl DoubleEndedIterator<Item = &'a str>,
) -> IpAddr {
    let mut client = peer;
    for text in headers.rev().flat_map(|header| header.rsplit(',')) {
        let Ok(address) = text.trim().parse::<IpAddr>() else {
            return client;
        };
        client = address;
        if !trusted.iter().any(|range| range.contains(address)) {
            return client;
        }
    }
    client
}

/// Returns the address that stands for a client in limits: an IPv6 client is the /64 that providers
/// hand out.
pub(crate) fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64))
        }
        other => other,
    }
}

/// How many addresses can be told apart: 256 kB of counters.
const SLOTS: usize = 1 << 16;

/// Counts connections by address, for all workers, without a lock and in bounded memory.
///
/// Addresses are hashed to counters with a secret seed. Two that share a counter share their
/// allowance: rare, harmless, and nothing that anybody can arrange.
#[derive(Debug)]
pub(crate) struct AddressCounts {
    pub(crate) arrivals: Arrivals,
    slots: Box<[AtomicU32]>,
    hasher: foldhash::fast::FixedState,
    max: u32,
    exempt: Vec<AddressRange>,
}

/// One counted connection; counted until it is dropped.
#[derive(Debug)]
pub(crate) struct AddressPermit {
    /// None for an exempt address.
    counted: Option<(Arc<AddressCounts>, usize)>,
}

impl AddressCounts {
    pub(crate) fn new(max: u32, exempt: Vec<AddressRange>, seed: u64) -> Self {
        Self {
            arrivals: Arrivals::default(),
            slots: (0..SLOTS).map(|_| AtomicU32::new(0)).collect(),
            hasher: foldhash::fast::FixedState::with_seed(seed),
            max,
            exempt,
        }
    }

    /// Counts one more connection, unless the address has as many as it may.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<AddressPermit> {
        let address = household(address);
        if self.exempt.iter().any(|range| range.contains(address)) {
            return Some(AddressPermit { counted: None });
        }
        let slot = self.hasher.hash_one(address) as usize % SLOTS;
        let counter = self.slots.get(slot)?;
        if counter.fetch_add(1, Relaxed) >= self.max {
            counter.fetch_sub(1, Relaxed);
            return None;
        }
        Some(AddressPermit {
            counted: Some((Arc::clone(self), slot)),
        })
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        if let Some((counts, slot)) = &self.counted
            && let Some(counter) = counts.slots.get(*slot)
        {
            counter.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn ranges_contain_their_addresses_only() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.1.2", "11.0.0.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("192.0.2.7", "::ffff:192.0.2.7", "::1"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("2001:db8::/32", "2001:db8:1::1", "2001:db9::"),
        ] {
            assert!(range(text).contains(ip(inside)), "{inside} in {text}");
            assert!(!range(text).contains(ip(outside)), "{outside} in {text}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0/8",
            "::/129",
            "localhost",
            "1.2.3.4/-1",
        ] {
            assert!(text.parse::<AddressRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_address_that_no_proxy_of_ours_has_is_the_client() {
        let trusted = [range("10.0.0.0/8")];
        for (headers, client) in [
            (vec![], "10.0.0.1"),
            (vec!["203.0.113.9"], "203.0.113.9"),
            (vec!["198.51.100.1, 203.0.113.9, 10.0.0.2"], "203.0.113.9"),
            (vec!["198.51.100.1", "203.0.113.9,10.0.0.2"], "203.0.113.9"),
            (vec!["203.0.113.9, nonsense"], "10.0.0.1"),
            (vec!["nonsense, 10.0.0.3"], "10.0.0.3"),
        ] {
            let found = forwarded_client(ip("10.0.0.1"), &trusted, headers.iter().copied());
            assert_eq!(found, ip(client), "{headers:?}");
        }
    }

    #[test]
    fn an_address_has_its_allowance_and_gets_it_back() {
        let counts = Arc::new(AddressCounts::new(2, AddressRange::LOOPBACK.to_vec(), 7));
        let client = ip("2001:db8::1");
        let first = counts.enter(client).unwrap();
        let _second = counts.enter(ip("2001:db8::2")).unwrap();
        assert!(counts.enter(client).is_none());
        drop(first);
        assert!(counts.enter(client).is_some());
        let many: Vec<_> = (0..9).map(|_| counts.enter(ip("127.0.0.1"))).collect();
        assert!(many.iter().all(Option::is_some));
        let mapped: Vec<_> = (0..9)
            .map(|_| counts.enter(ip("::ffff:127.0.0.1")))
            .collect();
        assert!(mapped.iter().all(Option::is_some));
    }
}
