//! Revocations as records of a table, in memory or on disk. A record expires when nothing is left that
//! it could be about.
//!
//! | key | value |
//! |---|---|
//! | `s`, a session's name (16 bytes) | nothing |
//! | `k`, a public key (32 bytes) | its epoch (8 bytes, little-endian) |

use hikyaku_event::{PublicKey, Timestamp};
use hikyaku_store::{Revocation, Revoked, SessionId};
use hikyaku_tables::{Attributes, Change, Condition, Outcome, Stamp, Table, TableError, Update};

const SESSION: u8 = b's';
const KEY: u8 = b'k';

/// Records listed at once.
const PAGE: usize = 1_000;

/// Tells whether a session is revoked by its name.
pub(super) fn has_session(
    table: &dyn Table,
    id: SessionId,
    now: Timestamp,
) -> Result<bool, TableError> {
    let mut name = [SESSION; 17];
    let (_, rest) = name.split_at_mut(1);
    rest.copy_from_slice(&id.0);
    Ok(table.size(&name, now)?.is_some())
}

/// Returns the epoch of a key.
pub(super) fn epoch_of(
    table: &dyn Table,
    key: &PublicKey,
    now: Timestamp,
) -> Result<u64, TableError> {
    let mut name = [KEY; 33];
    let (_, rest) = name.split_at_mut(1);
    rest.copy_from_slice(key.as_bytes());
    // Few keys have any: nothing is allocated for the others.
    let mut value = Vec::new();
    let found = table.get(&name, now, &mut value)?;
    Ok(found.map_or(0, |_| epoch_in(&value).unwrap_or(0)))
}

/// Writes a new revocation down; returns it as it is in force: a key's epoch is beyond the last one.
pub(super) fn begin(
    table: &dyn Table,
    revocation: &Revocation,
    stamp: Stamp,
) -> Result<Revocation, TableError> {
    put(table, revocation, stamp, 1)
}

/// Writes down a revocation that is in force elsewhere. What is known to go further stays.
pub(super) fn learn(
    table: &dyn Table,
    revocation: &Revocation,
    stamp: Stamp,
) -> Result<Revocation, TableError> {
    put(table, revocation, stamp, 0)
}

/// Writes a revocation down, with an epoch of at least so many more than the known one.
fn put(
    table: &dyn Table,
    revocation: &Revocation,
    stamp: Stamp,
    step: u64,
) -> Result<Revocation, TableError> {
    let name = name_of(&revocation.revoked);
    let mut value = Vec::new();
    loop {
        let found = table.get(&name, stamp.seconds(), &mut value)?;
        let known_until = found.map_or(0, |found| found.expires_at);
        let mut put = *revocation;
        put.until = put.until.max(known_until);
        if let Revoked::Key { epoch, .. } = &mut put.revoked
            && let Some(known) = found.and_then(|_| epoch_in(&value))
        {
            *epoch = (*epoch).max(known.saturating_add(step));
        }
        let epoch = match put.revoked {
            Revoked::Session(_) => None,
            Revoked::Key { epoch, .. } => Some(epoch.to_le_bytes()),
        };
        let update = Update {
            key: &name,
            condition: match found {
                Some(found) => Condition::Unique(found.unique),
                None => Condition::Absent,
            },
            change: Change::Put(epoch.as_ref().map_or(&[], |epoch| epoch)),
            attributes: Attributes {
                flags: 0,
                expires_at: put.until,
            },
        };
        // Somebody else was quicker otherwise.
        if let Outcome::Stored { .. } = table.update(&update, stamp)? {
            return Ok(put);
        }
    }
}

/// Lists the revocations that are in force. Other records are passed over, if `is_other` knows them.
pub(super) fn list(
    table: &dyn Table,
    now: Timestamp,
    is_other: impl Fn(&[u8]) -> bool,
) -> Result<Vec<Revocation>, TableError> {
    let (mut listed, mut value) = (Vec::new(), Vec::new());
    let mut names = table.keys_after(None, PAGE)?;
    while let Some(last) = names.last() {
        for name in names.iter().filter(|name| !is_other(name)) {
            let Some(found) = table.get(name, now, &mut value)? else {
                continue;
            };
            let revoked = parse(name, &value).ok_or_else(|| {
                let name = name.escape_ascii();
                TableError::Corrupt(format!("the record {name} is no revoked session"))
            })?;
            listed.push(Revocation {
                revoked,
                until: found.expires_at,
            });
        }
        names = table.keys_after(Some(last), PAGE)?;
    }
    Ok(listed)
}

fn name_of(revoked: &Revoked) -> Vec<u8> {
    match revoked {
        Revoked::Session(id) => [&[SESSION], &id.0[..]].concat(),
        Revoked::Key { key, .. } => [&[KEY], &key.as_bytes()[..]].concat(),
    }
}

fn parse(name: &[u8], value: &[u8]) -> Option<Revoked> {
    match name.split_first()? {
        (&SESSION, id) if value.is_empty() => {
            Some(Revoked::Session(SessionId(id.try_into().ok()?)))
        }
        (&KEY, key) => Some(Revoked::Key {
            key: PublicKey::new(key.try_into().ok()?),
            epoch: epoch_in(value)?,
        }),
        _ => None,
    }
}

fn epoch_in(value: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(value.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use hikyaku_tables::{MemoryOptions, MemoryTable};

    use super::*;

    const NOW: Timestamp = 1_700_000_000;

    fn at(seconds: u64) -> Stamp {
        Stamp {
            at_us: seconds * 1_000_000,
            origin: 0,
        }
    }

    fn of_key(key: PublicKey, epoch: u64, until: Timestamp) -> Revocation {
        Revocation {
            revoked: Revoked::Key { key, epoch },
            until,
        }
    }

    #[test]
    fn an_epoch_only_goes_forward_until_it_is_forgotten() {
        let table = MemoryTable::new(MemoryOptions::default(), None);
        let key = PublicKey::new([7; 32]);
        let epoch = || epoch_of(&table, &key, NOW).unwrap();
        assert_eq!(epoch(), 0);
        let begun = begin(&table, &of_key(key, 50, NOW + 9), at(NOW)).unwrap();
        assert_eq!(begun, of_key(key, 50, NOW + 9));
        // A clock that is behind begins a new one all the same.
        let begun = begin(&table, &of_key(key, 40, NOW + 5), at(NOW)).unwrap();
        assert_eq!(begun, of_key(key, 51, NOW + 9));
        learn(&table, &of_key(key, 51, NOW + 9), at(NOW)).unwrap();
        learn(&table, &of_key(key, 2, NOW + 9), at(NOW)).unwrap();
        assert_eq!(epoch(), 51);
        learn(&table, &of_key(key, 60, NOW + 9), at(NOW)).unwrap();
        assert_eq!(epoch(), 60);
        assert_eq!(epoch_of(&table, &key, NOW + 9).unwrap(), 0);
        assert_eq!(epoch_of(&table, &PublicKey::new([8; 32]), NOW).unwrap(), 0);
    }

    #[test]
    fn a_session_is_revoked_until_its_end_and_then_gone() {
        let table = MemoryTable::new(MemoryOptions::default(), None);
        let (id, other) = (SessionId([1; 16]), SessionId([2; 16]));
        let one = Revocation {
            revoked: Revoked::Session(id),
            until: NOW + 10,
        };
        begin(&table, &one, at(NOW)).unwrap();
        assert!(has_session(&table, id, NOW + 9).unwrap());
        assert!(!has_session(&table, id, NOW + 10).unwrap());
        assert!(!has_session(&table, other, NOW).unwrap());
        assert_eq!(table.count(), 1);
        table.sweep(NOW + 10, 10_000).unwrap();
        assert_eq!(table.count(), 0);
    }

    #[test]
    fn all_are_listed_and_what_is_none_is_an_error() {
        let table = MemoryTable::new(MemoryOptions::default(), None);
        let mut expected = Vec::new();
        for number in 0..2_500_u64 {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            let one = of_key(PublicKey::new(bytes), number, NOW + 1);
            expected.push(begin(&table, &one, at(NOW)).unwrap());
        }
        let is_other = |name: &[u8]| name == b"other";
        let put = |name: &[u8]| {
            let update = Update::new(name, Change::Put(b"x"));
            table.update(&update, at(NOW)).unwrap();
        };
        put(b"other");
        assert_eq!(list(&table, NOW, is_other).unwrap(), expected);
        assert_eq!(list(&table, NOW + 1, is_other).unwrap(), []);
        put(b"k short");
        let error = list(&table, NOW, is_other).unwrap_err();
        assert!(error.to_string().contains("k short"), "{error}");
    }
}
