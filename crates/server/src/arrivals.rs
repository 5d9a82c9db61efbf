//! From where the last clients came: what shows that a proxy stands before the relay unknown to it.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

/// Clients that are remembered.
const RECENT_MAX: usize = 256;

/// The last WebSocket clients of all workers.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<VecDeque<Arrival>>);

#[derive(Debug, Clone, Copy)]
struct Arrival {
    /// The client, as far as we believe it.
    client: IpAddr,
    /// It has named others it speaks for, and is no trusted proxy.
    speaks_for_others: bool,
}

/// What is known about the last clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecentClients {
    /// How many are remembered.
    pub clients: usize,
    /// The address that most of them had, and how many had it.
    pub commonest: Option<(IpAddr, usize)>,
    /// How many said like a proxy that they speak for others, and were not believed; with one's address.
    pub speaking_for_others: Option<(IpAddr, usize)>,
}

impl Arrivals {
    /// Notes a client.
    pub(crate) fn note(&self, client: IpAddr, speaks_for_others: bool) {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back(Arrival {
            client: client.to_canonical(),
            speaks_for_others,
        });
    }

    pub(crate) fn recent(&self) -> RecentClients {
        let recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for arrival in recent.iter() {
            *counts.entry(arrival.client).or_default() += 1;
        }
        let proxies = || recent.iter().filter(|arrival| arrival.speaks_for_others);
        RecentClients {
            clients: recent.len(),
            commonest: counts.into_iter().max_by_key(|(_, count)| *count),
            speaking_for_others: proxies()
                .next_back()
                .map(|last| (last.client, proxies().count())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_clients_are_remembered() {
        let arrivals = Arrivals::default();
        assert_eq!(arrivals.recent(), RecentClients::default());
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        for _ in 0..RECENT_MAX {
            arrivals.note(address(9), false);
        }
        for _ in 0..RECENT_MAX / 4 {
            arrivals.note(address(1), true);
        }
        let recent = arrivals.recent();
        assert_eq!(recent.clients, RECENT_MAX);
        assert_eq!(recent.commonest, Some((address(9), RECENT_MAX * 3 / 4)));
        assert_eq!(
            recent.speaking_for_others,
            Some((address(1), RECENT_MAX / 4))
        );
    }
}
