//! Public keys and their numbers. The table of keys is the truth; the way back from a key to its
//! number is an index in memory, made when the tables are opened.

use std::{
    hash::BuildHasher as _,
    sync::{Arc, PoisonError, RwLock},
};

use foldhash::quality::FixedState;
use hashbrown::HashTable;
use hikyaku_event::PublicKey;
use hikyaku_tables::{Change, Stamp, Table, Update};

use crate::{MemberNumber, MembersError};

/// Keys read at once when the index is made.
const KEYS_AT_ONCE: usize = 1024;

#[derive(Debug)]
pub(crate) struct Registry {
    keys: Arc<dyn Table>,
    index: RwLock<Index>,
    hasher: FixedState,
}

#[derive(Debug, Default)]
struct Index {
    numbers: HashTable<MemberNumber>,
    /// The highest number given.
    last: u32,
}

impl Registry {
    /// Reads the table of keys. `seed` keys the index, so that nobody can choose colliding keys.
    pub(crate) fn open(keys: Arc<dyn Table>, seed: u64) -> Result<Self, MembersError> {
        let registry = Self {
            keys,
            index: RwLock::default(),
            hasher: FixedState::with_seed(seed),
        };
        let mut index = Index::default();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let names = registry.keys.keys_after(after.as_deref(), KEYS_AT_ONCE)?;
            for name in &names {
                let number = std::str::from_utf8(name)
                    .ok()
                    .and_then(|digits| digits.parse().ok())
                    .and_then(MemberNumber::new)
                    .ok_or_else(|| corrupt(&name.escape_ascii().to_string()))?;
                index.last = index.last.max(number.get());
                // A member that was forgotten keeps its number and has no key.
                if let Some(key) = registry.key(number)? {
                    registry.insert(&mut index, number, &key);
                }
            }
            match names.into_iter().next_back() {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        registry.set(index);
        Ok(registry)
    }

    /// Returns a key's number.
    pub(crate) fn number(&self, key: &PublicKey) -> Option<MemberNumber> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        self.find(&index, key)
    }

    /// Returns a key's number, the next free one if it has none yet.
    pub(crate) fn enrol(
        &self,
        key: &PublicKey,
        stamp: Stamp,
    ) -> Result<MemberNumber, MembersError> {
        if let Some(number) = self.number(key) {
            return Ok(number);
        }
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = self.find(&index, key) {
            return Ok(number);
        }
        let number = index
            .last
            .checked_add(1)
            .and_then(MemberNumber::new)
            .ok_or(MembersError::Full)?;
        let change = Change::Put(key.as_bytes());
        self.keys
            .update(&Update::new(number.key().as_bytes(), change), stamp)?;
        index.last = number.get();
        self.insert(&mut index, number, key);
        Ok(number)
    }

    /// Returns a member's key; none of a number that nobody has (any more).
    pub(crate) fn key(&self, number: MemberNumber) -> Result<Option<PublicKey>, MembersError> {
        let mut value = Vec::with_capacity(32);
        let name = number.key();
        if self.keys.get(name.as_bytes(), 0, &mut value)?.is_none() {
            return Ok(None);
        }
        let bytes: [u8; 32] = value.try_into().map_err(|_| corrupt(&name))?;
        Ok((bytes != [0; 32]).then(|| PublicKey::new(bytes)))
    }

    /// Forgets a key. Its number stays taken.
    pub(crate) fn forget(&self, number: MemberNumber, stamp: Stamp) -> Result<(), MembersError> {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let key = self.key(number)?;
        let change = Change::Put(&[0; 32]);
        self.keys
            .update(&Update::new(number.key().as_bytes(), change), stamp)?;
        if let Some(key) = key
            && let Ok(entry) = index
                .numbers
                .find_entry(self.hash(&key), |candidate| *candidate == number)
        {
            entry.remove();
        }
        Ok(())
    }

    /// Returns the highest number given.
    pub(crate) fn last(&self) -> u32 {
        self.index
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .last
    }

    /// Returns how many members there are.
    pub(crate) fn count(&self) -> usize {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.numbers.len()
    }

    fn set(&self, index: Index) {
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = index;
    }

    fn find(&self, index: &Index, key: &PublicKey) -> Option<MemberNumber> {
        let is_it = |number: &MemberNumber| matches!(self.key(*number), Ok(Some(k)) if k == *key);
        index.numbers.find(self.hash(key), is_it).copied()
    }

    fn insert(&self, index: &mut Index, number: MemberNumber, key: &PublicKey) {
        let rehash = |number: &MemberNumber| match self.key(*number) {
            Ok(Some(key)) => self.hash(&key),
            // Can't be: the index has only numbers with a readable key.
            _ => 0,
        };
        index.numbers.insert_unique(self.hash(key), number, rehash);
    }

    fn hash(&self, key: &PublicKey) -> u64 {
        self.hasher.hash_one(key)
    }
}

fn corrupt(key: &str) -> MembersError {
    MembersError::Corrupt {
        table: "keys",
        key: key.to_owned(),
    }
}
