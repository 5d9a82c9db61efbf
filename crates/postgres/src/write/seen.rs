//! What an import need not ask the database: whether it has what this process has not put there.
//!
//! Into a schema that was empty one process writes almost everything itself, and most of what its events
//! are about is not there. A filter in memory says so of each key for certain, or that it may be there;
//! only those are looked up. It holds as long as nobody else stores anything, which the number of the
//! last commit tells.

use hikyaku_store::rules;

use super::picture::{Picture, Stored, targets};
use crate::columns::{self, Word};

/// 32 MiB: of 10 million events one in a thousand keys is looked up for nothing.
const BITS: usize = 1 << 28;
/// Bits of a key.
const PROBES: u64 = 4;

/// What a key is asked about.
#[derive(Clone, Copy)]
pub(super) enum About {
    Id,
    Address,
    DeletionOf,
}

/// The keys of everything that is stored, and some that are not.
pub(super) struct Seen {
    bits: Vec<u64>,
    /// The last commit that is in here.
    last: i64,
}

impl Seen {
    /// Returns what is true of a schema in which nothing has ever been stored.
    pub(super) fn nothing() -> Self {
        Self {
            bits: vec![0; BITS / 64],
            last: 0,
        }
    }

    /// Tells whether it knows everything up to this commit.
    pub(super) fn is_whole(&self, position: i64) -> bool {
        self.last == position
    }

    /// Takes in what a batch has stored.
    pub(super) fn add(&mut self, picture: &Picture) {
        for row in picture.new_events() {
            self.add_event(row);
        }
        self.last = picture.last;
    }

    fn add_event(&mut self, row: &Stored) {
        self.set(About::Id, row.event.id().into());
        if let Some(address) = row.event.address() {
            self.set(About::Address, Word(columns::address(&address)));
        }
        for target in targets(&rules::effect(&row.event, row.vanish)) {
            self.set(About::DeletionOf, target);
        }
    }

    /// Tells whether a key may be there.
    pub(super) fn may_have(&self, about: About, key: Word) -> bool {
        places(about, key).all(|(word, bit)| self.bits.get(word).is_none_or(|bits| bits & bit != 0))
    }

    fn set(&mut self, about: About, key: Word) {
        for (word, bit) in places(about, key) {
            if let Some(bits) = self.bits.get_mut(word) {
                *bits |= bit;
            }
        }
    }
}

/// Returns where a key's bits are. Keys are digests, or might as well be: who chooses others has them
/// looked up.
fn places(about: About, Word(key): Word) -> impl Iterator<Item = (usize, u64)> {
    let number = |part: usize| {
        let bytes = key.as_chunks::<8>().0.get(part);
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    let (first, step) = match about {
        About::Id => (number(0), number(1)),
        About::Address => (number(1), number(2)),
        About::DeletionOf => (number(2), number(3)),
    };
    (0..PROBES).map(move |probe| {
        let bit = first.wrapping_add(probe.wrapping_mul(step | 1)) as usize % BITS;
        (bit / 64, 1 << (bit % 64))
    })
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn what_was_added_may_be_there_and_little_else_is() {
        let key = |number: u64| Word(Sha256::digest(number.to_le_bytes()).into());
        let mut seen = Seen::nothing();
        for number in 0..10_000 {
            seen.set(About::Id, key(number));
        }
        assert!((0..10_000).all(|number| seen.may_have(About::Id, key(number))));
        let others = (10_000..20_000).filter(|number| seen.may_have(About::Id, key(*number)));
        assert_eq!(others.count(), 0);
        let otherwise = (0..10_000).filter(|number| seen.may_have(About::DeletionOf, key(*number)));
        assert_eq!(otherwise.count(), 0);
    }
}
