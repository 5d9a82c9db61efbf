//! A part of the table behind one lock: a hash table for single records, and the order of the keys.

use std::{collections::BTreeSet, ops::Bound};

use hashbrown::{HashTable, hash_table::Entry};

use super::record::Record;
use crate::Attributes;

/// The records of one part.
#[derive(Debug, Default)]
pub(super) struct Shard {
    records: HashTable<Record>,
    /// The keys in order, from the first time that somebody asked for an order: who only ever asks
    /// for single records neither waits for the order nor has memory for it.
    order: Option<BTreeSet<Box<[u8]>>>,
    /// The last unique number given.
    unique: u64,
    /// Where the next sweep goes on.
    swept: usize,
}

impl Shard {
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<&Record> {
        self.records.find(hash, |record| record.key() == key)
    }

    pub(super) fn find_mut(&mut self, hash: u64, key: &[u8]) -> Option<&mut Record> {
        self.records.find_mut(hash, |record| record.key() == key)
    }

    pub(super) const fn next_unique(&mut self) -> u64 {
        self.unique += 1;
        self.unique
    }

    /// Puts a record, and tells whether there was none. `hasher` hashes a key.
    pub(super) fn put(
        &mut self,
        hash: u64,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        unique: u64,
        hasher: impl Fn(&[u8]) -> u64,
    ) -> bool {
        let entry = self.records.entry(
            hash,
            |record| record.key() == key,
            |record| hasher(record.key()),
        );
        match entry {
            Entry::Occupied(mut entry) => {
                entry.get_mut().set(value, attributes, unique);
                false
            }
            Entry::Vacant(entry) => {
                entry.insert(Record::new(key, value, attributes, unique));
                if let Some(order) = &mut self.order {
                    order.insert(key.into());
                }
                true
            }
        }
    }

    /// Removes a record: the bytes that it counted as.
    pub(super) fn remove(&mut self, hash: u64, key: &[u8]) -> Option<u64> {
        let entry = self.records.find_entry(hash, |record| record.key() == key);
        let (record, _) = entry.ok()?.remove();
        if let Some(order) = &mut self.order {
            order.remove(key);
        }
        Some(record.bytes())
    }

    /// Looks at the next `slots` places and removes what has expired: how many records, how many
    /// bytes.
    pub(super) fn sweep(&mut self, now: u64, slots: usize) -> (u64, u64) {
        let (mut count, mut bytes) = (0, 0);
        let buckets = self.records.num_buckets();
        for _ in 0..slots.min(buckets) {
            if self.swept >= buckets {
                self.swept = 0;
            }
            let at = self.swept;
            self.swept += 1;
            let place = self.records.get_bucket(at);
            if !place.is_some_and(|record| record.has_expired(now)) {
                continue;
            }
            if let Ok(entry) = self.records.get_bucket_entry(at) {
                let (record, _) = entry.remove();
                if let Some(order) = &mut self.order {
                    order.remove(record.key());
                }
                count += 1;
                bytes += record.bytes();
            }
        }
        (count, bytes)
    }

    fn order(&mut self) -> &BTreeSet<Box<[u8]>> {
        let records = &self.records;
        self.order
            .get_or_insert_with(|| records.iter().map(|record| record.key().into()).collect())
    }

    /// Returns the last key in order.
    pub(super) fn last_key(&mut self) -> Option<Vec<u8>> {
        self.order().last().map(|key| key.to_vec())
    }

    /// Lists keys from `lower` on in order, as long as `within` says so, at most `limit`.
    pub(super) fn keys(
        &mut self,
        lower: Bound<&[u8]>,
        within: impl Fn(&[u8]) -> bool,
        limit: usize,
    ) -> Vec<Vec<u8>> {
        self.order()
            .range::<[u8], _>((lower, Bound::Unbounded))
            .map(|key| &**key)
            .take_while(|key| within(key))
            .take(limit)
            .map(<[u8]>::to_vec)
            .collect()
    }

    /// Empties the part: what was in it, to be dropped when nobody waits.
    pub(super) fn take(&mut self) -> Self {
        let unique = self.unique;
        let taken = std::mem::take(self);
        // A record that comes back does not have its numbers again.
        self.unique = unique;
        taken
    }

    pub(super) fn shrink(&mut self, hasher: impl Fn(&[u8]) -> u64) {
        self.records.shrink_to_fit(|record| hasher(record.key()));
    }
}
