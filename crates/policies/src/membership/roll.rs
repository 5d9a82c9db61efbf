//! Who is a member, by the configuration and by what the relay has said.

use std::collections::{BTreeSet, HashSet};

use hashbrown::HashMap;
use hikyaku_event::{PublicKey, Timestamp};

/// The members.
#[derive(Debug, Default)]
pub(super) struct Roll {
    /// Members by the configuration: they can't be removed.
    founders: HashSet<PublicKey>,
    /// When each of the others was last added (true) or removed.
    said: HashMap<PublicKey, (Timestamp, bool), foldhash::quality::RandomState>,
    /// All of both, in the order of their keys.
    members: BTreeSet<PublicKey>,
}

impl Roll {
    pub(super) fn new(founders: impl IntoIterator<Item = PublicKey>) -> Self {
        let founders: HashSet<_> = founders.into_iter().collect();
        Self {
            members: founders.iter().copied().collect(),
            founders,
            said: HashMap::default(),
        }
    }

    /// Takes down that a key was added or removed, unless something later is known.
    pub(super) fn note(&mut self, key: PublicKey, at: Timestamp, added: bool) {
        let said = self.said.entry(key).or_insert((at, added));
        if said.0 < at {
            *said = (at, added);
        }
        if said.1 || self.founders.contains(&key) {
            self.members.insert(key);
        } else {
            self.members.remove(&key);
        }
    }

    pub(super) fn is_founder(&self, key: &PublicKey) -> bool {
        self.founders.contains(key)
    }

    pub(super) fn is_member(&self, key: &PublicKey) -> bool {
        self.is_founder(key) || self.said.get(key).is_some_and(|(_, added)| *added)
    }

    /// Returns a time for saying something about a key now: later than all that was said before.
    pub(super) fn next_time(&self, key: &PublicKey, now: Timestamp) -> Timestamp {
        let last = self.said.get(key).map_or(0, |(at, _)| *at);
        now.max(last.saturating_add(1))
    }

    /// Returns all members, in the order of their keys: the first of them cost what they are, however
    /// many there are.
    pub(super) fn members(&self) -> impl Iterator<Item = PublicKey> {
        self.members.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_last_counts_in_whatever_order_it_is_heard() {
        let [founder, one, other] = [1, 2, 3].map(|n| PublicKey::new([n; 32]));
        let mut roll = Roll::new([founder]);
        for (key, at, added) in [(one, 10, true), (one, 12, false), (one, 11, true)] {
            roll.note(key, at, added);
        }
        roll.note(other, 5, true);
        roll.note(founder, 5, false);
        assert_eq!(roll.members().collect::<Vec<_>>(), [founder, other]);
        assert!(!roll.is_member(&one));
        assert_eq!(roll.next_time(&one, 7), 13);
        assert_eq!(roll.next_time(&one, 20), 20);
        roll.note(one, 13, true);
        assert!(roll.is_member(&one) && !roll.is_founder(&one));
    }
}
