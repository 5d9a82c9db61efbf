//! A record in memory: small ones in their slot of the hash table, others in one allocation.

use crate::{Attributes, Found, rules::Current};

/// Bytes of a key and its value that lie in the slot itself: with what else is in it, the slot has 56
/// bytes. Most counters, times and short lists need no allocation, and a read of one touches no
/// other memory.
const INLINE_BYTES: usize = 30;

/// Bytes that a slot counts as: with its control byte, at the hash table's usual load.
const SLOT_BYTES: u64 = 88;

/// Bytes that an allocation counts as beside its contents.
const ALLOCATION_BYTES: u64 = 16;

/// A record.
#[derive(Debug)]
pub(super) struct Record {
    bytes: Bytes,
    unique: u64,
    expires_at: u64,
    flags: u32,
    key_len: u32,
}

/// The key, then the value.
#[derive(Debug)]
enum Bytes {
    Inline { len: u8, bytes: [u8; INLINE_BYTES] },
    Allocated(Box<[u8]>),
}

impl Bytes {
    fn new(key: &[u8], value: &[u8]) -> Self {
        let len = key.len() + value.len();
        let mut bytes = [0; INLINE_BYTES];
        match bytes.get_mut(..len) {
            Some(place) => {
                let (key_place, value_place) = place.split_at_mut(key.len());
                key_place.copy_from_slice(key);
                value_place.copy_from_slice(value);
                let len = len as u8;
                Self::Inline { len, bytes }
            }
            None => Self::Allocated([key, value].concat().into_boxed_slice()),
        }
    }

    fn all(&self) -> &[u8] {
        match self {
            Self::Inline { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or(bytes),
            Self::Allocated(bytes) => bytes,
        }
    }

    fn all_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Inline { len, bytes } => {
                let len = usize::from(*len).min(INLINE_BYTES);
                bytes.split_at_mut(len).0
            }
            Self::Allocated(bytes) => bytes,
        }
    }
}

impl Record {
    pub(super) fn new(key: &[u8], value: &[u8], attributes: Attributes, unique: u64) -> Self {
        Self {
            bytes: Bytes::new(key, value),
            unique,
            expires_at: attributes.expires_at,
            flags: attributes.flags,
            key_len: key.len() as u32,
        }
    }

    pub(super) fn key(&self) -> &[u8] {
        let key = self.bytes.all().get(..self.key_len as usize);
        key.unwrap_or_default()
    }

    pub(super) fn value(&self) -> &[u8] {
        let value = self.bytes.all().get(self.key_len as usize..);
        value.unwrap_or_default()
    }

    /// Replaces all but the key. A value of the same length needs no allocation.
    pub(super) fn set(&mut self, value: &[u8], attributes: Attributes, unique: u64) {
        let place = self.bytes.all_mut().get_mut(self.key_len as usize..);
        match place.filter(|place| place.len() == value.len()) {
            Some(place) => place.copy_from_slice(value),
            None => self.bytes = Bytes::new(self.key(), value),
        }
        self.flags = attributes.flags;
        self.unique = unique;
        self.expires_at = attributes.expires_at;
    }

    pub(super) fn set_expiry(&mut self, expires_at: u64) {
        self.expires_at = expires_at;
    }

    pub(super) const fn has_expired(&self, now: u64) -> bool {
        self.expires_at != 0 && self.expires_at <= now
    }

    pub(super) const fn unique(&self) -> u64 {
        self.unique
    }

    pub(super) const fn found(&self) -> Found {
        Found {
            flags: self.flags,
            expires_at: self.expires_at,
            unique: self.unique,
        }
    }

    pub(super) fn current(&self) -> Current<'_> {
        Current {
            value: self.value(),
            attributes: Attributes {
                flags: self.flags,
                expires_at: self.expires_at,
            },
            unique: self.unique,
        }
    }

    /// Returns the bytes that a record of such a key and value counts as.
    pub(super) const fn bytes_of(key: &[u8], value: &[u8]) -> u64 {
        let len = key.len() + value.len();
        if len <= INLINE_BYTES {
            SLOT_BYTES
        } else {
            SLOT_BYTES + ALLOCATION_BYTES + len as u64
        }
    }

    /// Returns the bytes that this one counts as.
    pub(super) fn bytes(&self) -> u64 {
        Self::bytes_of(self.key(), self.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_the_size_that_is_counted() {
        assert_eq!(size_of::<Record>(), 56);
    }

    #[test]
    fn records_of_all_sizes_are_kept() {
        let bytes: Vec<u8> = (0..60).collect();
        for key_len in 0..34 {
            let (key, rest) = bytes.split_at(key_len);
            let mut record = Record::new(key, &[], Attributes::default(), 1);
            for value_len in [0, 1, 26, 25, 3, 26, 4, 0] {
                let value = &rest[..value_len];
                record.set(value, Attributes::default(), 2);
                assert_eq!((record.key(), record.value()), (key, value));
                assert_eq!(record.bytes(), Record::bytes_of(key, value));
            }
        }
    }
}
