//! What each key must hold: values that tell their key and which write they are of.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

/// The first key: all keys have as many digits.
const FIRST_KEY: u32 = 10_000_000;
/// Entries that a rotated list keeps.
pub(crate) const ENTRIES: usize = 8;
/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = 8;

/// Returns the name of a key.
pub(crate) fn name(key: u32) -> u32 {
    FIRST_KEY + key
}

/// The records of one server, as they were last written.
#[derive(Debug)]
pub(crate) struct Records {
    /// Which write each holds; `None` if one has failed, so that nobody knows.
    versions: RefCell<Vec<Option<u32>>>,
    writes: Cell<u32>,
    sizes: Vec<usize>,
}

impl Records {
    pub(crate) fn new(keys: u32, sizes: &[usize]) -> Self {
        Self {
            versions: RefCell::new(vec![Some(0); keys as usize]),
            writes: Cell::new(0),
            sizes: sizes.to_vec(),
        }
    }

    /// Returns the number of the next write: no other has it.
    pub(crate) fn next(&self) -> u32 {
        self.writes.set(self.writes.get().wrapping_add(1));
        self.writes.get()
    }

    /// A record holds what the write of this number wrote.
    pub(crate) fn hold(&self, key: u32, version: u32) {
        if let Some(held) = self.versions.borrow_mut().get_mut(key as usize) {
            *held = Some(version);
        }
    }

    /// Returns which write a record holds.
    pub(crate) fn version(&self, key: u32) -> Option<u32> {
        self.versions.borrow().get(key as usize).copied().flatten()
    }

    /// A write failed: nobody knows what the record holds until it is written again.
    pub(crate) fn forget(&self, key: u32) {
        if let Some(version) = self.versions.borrow_mut().get_mut(key as usize) {
            *version = None;
        }
    }

    /// Appends the value that a write of this number has.
    pub(crate) fn value(&self, key: u32, version: u32, out: &mut Vec<u8>) {
        let sizes = self.sizes.len().max(1);
        let size = self.sizes.get(key as usize % sizes).copied().unwrap_or(1);
        digits(key, version, size, out);
    }
}

/// The rotated lists of one server: the versions of the entries that each keeps, the oldest first.
#[derive(Debug)]
pub(crate) struct Lists {
    pub(crate) prefix: String,
    entries: RefCell<Vec<VecDeque<u32>>>,
}

impl Lists {
    pub(crate) fn new(prefix: &str, keys: u32) -> Self {
        Self {
            prefix: prefix.to_owned(),
            entries: RefCell::new(vec![VecDeque::new(); keys as usize]),
        }
    }

    pub(crate) fn keys(&self) -> u32 {
        self.entries.borrow().len() as u32
    }

    /// Appends an entry, and drops the oldest if the list is full.
    pub(crate) fn rotate(&self, key: u32, version: u32) {
        if let Some(entries) = self.entries.borrow_mut().get_mut(key as usize) {
            if entries.len() == ENTRIES {
                entries.pop_front();
            }
            entries.push_back(version);
        }
    }

    /// Returns the entries of a list, the oldest first.
    pub(crate) fn entries(&self, key: u32) -> Vec<[u8; ENTRY_BYTES]> {
        let all = self.entries.borrow();
        let versions = all.get(key as usize).into_iter().flatten();
        versions.map(|version| entry(key, *version)).collect()
    }
}

/// Returns an entry of a list.
pub(crate) fn entry(key: u32, version: u32) -> [u8; ENTRY_BYTES] {
    let mut bytes = Vec::with_capacity(ENTRY_BYTES);
    digits(key, version, ENTRY_BYTES, &mut bytes);
    bytes.try_into().unwrap_or([b'0'; ENTRY_BYTES])
}

/// Appends bytes that hardly any other key or version has: 16 hex digits, again and again.
fn digits(key: u32, version: u32, size: usize, out: &mut Vec<u8>) {
    // The finaliser of SplitMix64: different numbers stay different.
    let mut bits = u64::from(key) << 32 | u64::from(version);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    let digit = |place: usize| {
        let nibble = (bits >> (60 - 4 * (place % 16))) & 0xf;
        char::from_digit(nibble as u32, 16).map_or(b'0', |digit| digit as u8)
    };
    out.extend((0..size).map(digit));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_list_loses_its_oldest_entry() {
        let lists = Lists::new("", 1);
        for version in 0..10 {
            lists.rotate(0, version);
        }
        let right: Vec<_> = (2..10).map(|version| entry(0, version)).collect();
        assert_eq!(lists.entries(0), right);
    }

    #[test]
    fn a_value_tells_its_key_and_its_version() {
        let records = Records::new(2, &[8, 20]);
        let value = |key, version| {
            let mut value = Vec::new();
            records.value(key, version, &mut value);
            value
        };
        assert_eq!((value(0, 1).len(), value(1, 1).len()), (8, 20));
        assert_ne!(value(0, 1), value(0, 2));
        assert_ne!(value(0, 1), value(1, 1)[..8]);
        records.hold(0, records.next());
        assert_eq!(records.version(0), Some(1));
        records.forget(0);
        assert_eq!(records.version(0), None);
    }
}
