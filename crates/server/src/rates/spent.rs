//! What clients have spent here and other nodes do not know yet.
//!
//! Small change is not told: a hundredth of a burst may stay, and what would have been regained
//! meanwhile is forgotten. So what is told grows with how much is spent, and not with how many clients
//! there are, and a client that spreads over many nodes gets no more than that hundredth of each, and
//! what it spends until they hear of each other.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use data_encoding::HEXLOWER_PERMISSIVE as HEX;
use hikyaku_members::Rate;

/// Parts behind a lock each, so that workers seldom meet.
const PARTS: usize = 32;
/// Clients of one part that are taken down; more are not known elsewhere for a moment.
const CLIENTS_MAX: usize = 8_192;
/// Clients in one text.
const CLIENTS_PER_TEXT: usize = 1_000;
/// The part of a burst that is not worth a word.
const UNTOLD: u32 = 100;

#[derive(Debug, Default)]
pub(super) struct Spent {
    parts: [Mutex<HashMap<Box<[u8]>, Untold>>; PARTS],
}

#[derive(Debug)]
struct Untold {
    units: u32,
    since_us: u64,
}

impl Spent {
    /// Takes down a unit.
    pub(super) fn add(&self, key: &[u8], now_us: u64) {
        // Keys are random, and addresses differ in their last bytes; neither matters much.
        let part = key.iter().fold(0, |sum: usize, byte| {
            sum.wrapping_mul(31) + usize::from(*byte)
        });
        let Some(part) = self.parts.get(part % PARTS) else {
            return;
        };
        let mut clients = part.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(untold) = clients.get_mut(key) {
            untold.units = untold.units.saturating_add(1);
        } else if clients.len() < CLIENTS_MAX {
            let first = Untold {
                units: 1,
                since_us: now_us,
            };
            clients.insert(key.into(), first);
        }
    }

    /// Returns what is worth telling, as texts for [`parse`].
    pub(super) fn due(&self, now_us: u64, rate: impl Fn(u8) -> Option<Rate>) -> Vec<String> {
        let mut due = Vec::new();
        for part in &self.parts {
            let mut clients = part.lock().unwrap_or_else(PoisonError::into_inner);
            clients.retain(|key, untold| {
                let Some(rate) = key.first().and_then(|what| rate(*what)) else {
                    return false;
                };
                if untold.units >= (rate.burst / UNTOLD).max(1) {
                    due.push(format!("{}:{}", HEX.encode(key), untold.units));
                    return false;
                }
                let minutes_us = u128::from(now_us.saturating_sub(untold.since_us));
                let regained = minutes_us * u128::from(rate.per_minute) / 60_000_000;
                regained < untold.units.into()
            });
        }
        due.chunks(CLIENTS_PER_TEXT)
            .map(|clients| clients.join(" "))
            .collect()
    }
}

/// Reads what another node has told: keys and units. What can't be read is left out.
pub(super) fn parse(text: &str) -> impl Iterator<Item = (Vec<u8>, u32)> {
    text.split(' ').filter_map(|client| {
        let (key, units) = client.split_once(':')?;
        let key = HEX.decode(key.as_bytes()).ok()?;
        Some((key, units.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(what: u8) -> Option<Rate> {
        (what == b'k').then_some(Rate {
            per_minute: 60,
            burst: 1_000,
        })
    }

    #[test]
    fn what_is_spent_is_told_once_and_small_change_is_forgotten() {
        let spent = Spent::default();
        for _ in 0..10 {
            spent.add(b"k much", 0);
        }
        for _ in 0..3 {
            spent.add(b"k little", 0);
        }
        spent.add(b"x unknown", 0);
        let told: Vec<_> = spent
            .due(0, rate)
            .iter()
            .flat_map(|text| parse(text).collect::<Vec<_>>())
            .collect();
        assert_eq!(told, [(b"k much".to_vec(), 10)]);
        assert!(spent.due(2_000_000, rate).is_empty());
        for _ in 0..7 {
            spent.add(b"k little", 0);
        }
        assert_eq!(spent.due(2_000_000, rate).len(), 1);
        spent.add(b"k little", 2_000_000);
        spent.due(4_000_000, rate);
        let left: usize = spent
            .parts
            .iter()
            .map(|part| part.lock().unwrap().len())
            .sum();
        assert_eq!(left, 0);
    }

    #[test]
    fn what_is_no_spending_is_left_out() {
        assert_eq!(parse("").count(), 0);
        assert_eq!(
            parse("zz:1 6b:x 6b 6b:7").collect::<Vec<_>>(),
            [(b"k".to_vec(), 7)]
        );
    }
}
