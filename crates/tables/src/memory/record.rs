//! A record in memory: its key and value in one allocation.

use crate::{Attributes, Found, rules::Current};

/// Bytes a record takes beside its key and its value: the slot in the hash table at its usual load,
/// and what the allocator adds.
pub(super) const RECORD_BYTES: u64 = 72;

/// A record.
#[derive(Debug)]
pub(super) struct Record {
    /// The key, then the value.
    bytes: Box<[u8]>,
    key_len: u32,
    flags: u32,
    expires_at: u64,
    unique: u64,
}

impl Record {
    pub(super) fn new(key: &[u8], value: &[u8], attributes: Attributes, unique: u64) -> Self {
        Self {
            bytes: [key, value].concat().into_boxed_slice(),
            key_len: key.len() as u32,
            flags: attributes.flags,
            expires_at: attributes.expires_at,
            unique,
        }
    }

    pub(super) fn key(&self) -> &[u8] {
        self.bytes.get(..self.key_len as usize).unwrap_or_default()
    }

    pub(super) fn value(&self) -> &[u8] {
        self.bytes.get(self.key_len as usize..).unwrap_or_default()
    }

    /// Replaces all but the key. A value of the same length needs no allocation.
    pub(super) fn set(&mut self, value: &[u8], attributes: Attributes, unique: u64) {
        if self.value().len() == value.len() {
            if let Some(place) = self.bytes.get_mut(self.key_len as usize..) {
                place.copy_from_slice(value);
            }
        } else {
            self.bytes = [self.key(), value].concat().into_boxed_slice();
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

    /// Returns the bytes that a record counts as.
    pub(super) const fn bytes_of(key: &[u8], value: &[u8]) -> u64 {
        (key.len() + value.len()) as u64 + RECORD_BYTES
    }

    /// Returns the bytes that this one counts as.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes.len() as u64 + RECORD_BYTES
    }
}
