//! `ms` and `md`.

use hikyaku_tables::{Attributes, Change, Condition, Outcome, Stamp, Table, TableError, Update};

use super::Meta;
use crate::memcached::{
    leases::{Leases, Mark},
    words::expires_at,
};

/// Returns the update that `ms` asks for.
pub(in crate::memcached) fn update<'a>(
    meta: &'a Meta<'_>,
    key: &'a [u8],
    data: &'a [u8],
    now: u64,
) -> Result<Update<'a>, &'static str> {
    let options = &meta.options;
    let compared = options.unique.map(Condition::Unique);
    let (condition, change) = match options.mode.unwrap_or(b'S') {
        b'S' => (compared.unwrap_or_default(), Change::Put(data)),
        b'E' => (Condition::Absent, Change::Put(data)),
        b'R' => (compared.unwrap_or(Condition::Present), Change::Put(data)),
        b'A' => (compared.unwrap_or(Condition::Present), Change::Append(data)),
        b'P' => (
            compared.unwrap_or(Condition::Present),
            Change::Prepend(data),
        ),
        b'Q' => {
            let change = Change::Rotate {
                bytes: data,
                size: options.size,
            };
            (compared.unwrap_or_default(), change)
        }
        b'V' => {
            let change = Change::RotateEntry {
                entry: data,
                size: options.size,
                identity: options.identity,
                not_before: &meta.not_before,
            };
            (compared.unwrap_or_default(), change)
        }
        _ => return Err("CLIENT_ERROR invalid mode for ms M token"),
    };
    let attributes = Attributes {
        flags: options.flags,
        expires_at: expires_at(options.expiry.unwrap_or(0), now),
    };
    Ok(Update {
        key,
        condition,
        change,
        attributes,
    })
}

/// Carries out `ms` with `C` and `I`: a value that is older than the record's is stored too, but the
/// record is stale then, and keeps its expiry.
pub(in crate::memcached) fn store(
    table: &dyn Table,
    leases: &Leases,
    update: &Update<'_>,
    stamp: Stamp,
) -> Result<Outcome, TableError> {
    let mut value = Vec::new();
    loop {
        let outcome = table.update(update, stamp)?;
        let (Outcome::Differs, Condition::Unique(unique)) = (outcome, update.condition) else {
            return Ok(outcome);
        };
        let Some(found) = table.get(update.key, stamp.seconds(), &mut value)? else {
            return Ok(Outcome::NotFound);
        };
        if unique >= found.unique {
            return Ok(Outcome::Differs);
        }
        let older = Update {
            condition: Condition::Unique(found.unique),
            attributes: Attributes {
                flags: update.attributes.flags,
                expires_at: found.expires_at,
            },
            ..*update
        };
        let known = leases.mark(update.key, found.unique);
        let outcome = table.update(&older, stamp)?;
        if let Outcome::Stored { unique } = outcome {
            let mark = Mark {
                unique,
                is_stale: true,
                is_won: known.is_won,
            };
            leases.set(update.key, mark);
        }
        if outcome != Outcome::Differs {
            return Ok(outcome);
        }
    }
}

/// Returns the update that `md` asks for.
pub(in crate::memcached) fn remove<'a>(meta: &Meta<'_>, key: &'a [u8]) -> Update<'a> {
    Update {
        condition: meta
            .options
            .unique
            .map(Condition::Unique)
            .unwrap_or_default(),
        ..Update::new(key, Change::Remove)
    }
}

/// Carries out `md` with `I`: the record stays, and is stale.
pub(in crate::memcached) fn invalidate(
    table: &dyn Table,
    leases: &Leases,
    key: &[u8],
    meta: &Meta<'_>,
    stamp: Stamp,
) -> Result<Outcome, TableError> {
    let now = stamp.seconds();
    let mut value = Vec::new();
    loop {
        let Some(found) = table.get(key, now, &mut value)? else {
            return Ok(Outcome::NotFound);
        };
        if meta
            .options
            .unique
            .is_some_and(|unique| unique != found.unique)
        {
            return Ok(Outcome::Differs);
        }
        // Written again, so that it gets another unique number.
        let again = Update {
            key,
            condition: Condition::Unique(found.unique),
            change: Change::Put(&value),
            attributes: Attributes {
                flags: found.flags,
                expires_at: meta
                    .options
                    .expiry
                    .map_or(found.expires_at, |expiry| expires_at(expiry, now)),
            },
        };
        match table.update(&again, stamp)? {
            Outcome::Differs | Outcome::NotFound => {}
            outcome => {
                if let Outcome::Stored { unique } = outcome {
                    let mark = Mark {
                        unique,
                        is_stale: true,
                        is_won: false,
                    };
                    leases.set(key, mark);
                }
                return Ok(outcome);
            }
        }
    }
}
