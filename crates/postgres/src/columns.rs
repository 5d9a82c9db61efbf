//! How the values of events stand in columns.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use hikyaku_event::{Address, EventId, PublicKey, Timestamp};
use sha2::{Digest, Sha256};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// A tag value of up to so many bytes stands in the index as it is: keys and ids in hex just fit.
const VALUE_BYTES_MAX: usize = 64;
/// The first byte of the digest of a longer one: no UTF-8 has it, so no value can pass for a digest.
const DIGEST_MARK: u8 = 0xff;

/// Returns the column of a time: what is newer is less, and every one of the 2^64 fits.
pub(crate) fn age(created_at: Timestamp) -> i64 {
    (i128::from(i64::MAX) - i128::from(created_at)) as i64
}

/// Returns the time that this column says.
pub(crate) fn created_at(age: i64) -> Timestamp {
    (i128::from(i64::MAX) - i128::from(age)).unsigned_abs() as Timestamp
}

/// Returns the column of a point in time that need not be told apart beyond 2^63.
pub(crate) fn seconds(time: Timestamp) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

/// Returns the first look at an author: the key's first 8 bytes.
pub(crate) fn author(pubkey: &PublicKey) -> i64 {
    let head = pubkey.as_bytes().first_chunk();
    head.map_or(0, |head| i64::from_be_bytes(*head))
}

/// Returns what stands for an address.
pub(crate) fn address(address: &Address) -> [u8; 32] {
    let Address { kind, pubkey, d } = address;
    Sha256::digest(format!("{}:{pubkey}:{d}", kind.0)).into()
}

/// Returns what stands for a tag's value.
pub(crate) fn value(value: &str) -> Vec<u8> {
    if value.len() <= VALUE_BYTES_MAX {
        return value.as_bytes().to_vec();
    }
    let mut digest = Sha256::digest(value).to_vec();
    if let Some(first) = digest.first_mut() {
        *first = DIGEST_MARK;
    }
    digest
}

/// The first 16 bytes of an id, which decide between events of one time. As `uuid`: of fixed width, and
/// ordered by its bytes. That two ids share them takes 2^64 hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tie(pub(crate) u128);

impl Tie {
    pub(crate) const FIRST: Self = Self(0);
    pub(crate) const LAST: Self = Self(u128::MAX);

    pub(crate) fn of(id: &EventId) -> Self {
        let mut bytes = [0; 16];
        let (head, _) = id.as_bytes().split_at(16);
        bytes.copy_from_slice(head);
        Self(u128::from_be_bytes(bytes))
    }
}

impl ToSql for Tie {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }
    accepts!(UUID);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Tie {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(u128::from_be_bytes(raw.try_into()?)))
    }
    accepts!(UUID);
}

/// 32 bytes as `bytea`: an id, a key, a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Word(pub(crate) [u8; 32]);

impl From<EventId> for Word {
    fn from(id: EventId) -> Self {
        Self(*id.as_bytes())
    }
}

impl From<PublicKey> for Word {
    fn from(key: PublicKey) -> Self {
        Self(*key.as_bytes())
    }
}

impl From<Word> for EventId {
    fn from(word: Word) -> Self {
        Self::new(word.0)
    }
}

impl From<Word> for PublicKey {
    fn from(word: Word) -> Self {
        Self::new(word.0)
    }
}

impl ToSql for Word {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }
    accepts!(BYTEA);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Word {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw.try_into()?))
    }
    accepts!(BYTEA);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_is_less_for_all_of_64_bits() {
        let times = [0, 1, 1_700_000_000, 1 << 63, u64::MAX - 1, u64::MAX];
        assert!(
            times
                .iter()
                .map(|time| age(*time))
                .is_sorted_by(|a, b| a > b)
        );
        assert!(times.iter().all(|time| created_at(age(*time)) == *time));
    }

    #[test]
    fn a_long_value_has_a_digest_that_no_value_has() {
        assert_eq!(value(&"é".repeat(32)), "é".repeat(32).as_bytes());
        let digest = value(&"x".repeat(65));
        assert_eq!((digest.len(), digest[0]), (32, 0xff));
        assert_ne!(digest, value(&"x".repeat(66)));
        assert!(str::from_utf8(&digest).is_err());
    }
}
