//! `mg` and `me`.

use hikyaku_tables::{
    Attributes, Change, Condition, Found, Outcome, Stamp, Table, TableError, Update,
};

use super::{Facts, Meta};
use crate::memcached::{
    leases::{Leases, Mark},
    words::{expires_at, write_number},
};

/// Carries `mg` out and writes its answer. Tells whether there was a record.
pub(in crate::memcached) fn get(
    table: &dyn Table,
    leases: &Leases,
    key: &[u8],
    meta: &Meta<'_>,
    stamp: Stamp,
    value: &mut Vec<u8>,
    output: &mut Vec<u8>,
) -> Result<bool, TableError> {
    let now = stamp.seconds();
    let options = &meta.options;
    let mut found = table.get(key, now, value)?;
    let mut mark = None;
    if let (None, Some(expiry)) = (found, options.vivify) {
        let attributes = Attributes {
            flags: 0,
            expires_at: expires_at(expiry, now),
        };
        let made = make(table, key, attributes, stamp)?;
        if let Some(made) = made {
            let won = Mark {
                unique: made.unique,
                is_stale: false,
                is_won: true,
            };
            leases.set(key, won);
            mark = Some(Mark {
                is_won: false,
                ..won
            });
            value.clear();
        }
        // Another may have been faster.
        found = made.map_or_else(|| table.get(key, now, value), |made| Ok(Some(made)))?;
    }
    let is_made = mark.is_some();
    if let (Some(_), Some(expiry)) = (found, options.expiry) {
        let expires_at = expires_at(expiry, now);
        let touch = Update {
            attributes: Attributes {
                flags: 0,
                expires_at,
            },
            ..Update::new(key, Change::Touch)
        };
        match (table.update(&touch, stamp)?, &mut found) {
            (Outcome::Stored { unique }, Some(found)) => {
                found.unique = unique;
                found.expires_at = expires_at;
            }
            (Outcome::NotFound, found) => *found = None,
            _ => {}
        }
    }
    let Some(found) = found else {
        if !options.is_quiet {
            output.extend_from_slice(b"EN");
            meta.write_flags(b"kO", &Facts::default(), output);
            output.extend_from_slice(b"\r\n");
        }
        return Ok(false);
    };
    if let Some(bytes) = options.entry {
        newest_first(value, bytes.get(), options.identity, &meta.not_before);
    }
    let mark = mark.unwrap_or_else(|| leases.mark(key, found.unique));
    let expires = found.expires_at;
    let is_due = options.renew_below.is_some_and(|seconds| {
        expires != 0 && expires < expires_at(seconds, now) && !is_made && !mark.is_won
    });
    let wins =
        is_made || (is_due || (mark.is_stale && !mark.is_won)) && leases.win(key, found.unique);
    let facts = Facts {
        flags: found.flags,
        size: value.len(),
        expires_at: expires,
        unique: found.unique,
        now,
    };
    if options.wants_value {
        output.extend_from_slice(b"VA ");
        write_number(value.len(), output);
    } else {
        output.extend_from_slice(b"HD");
    }
    meta.write_flags(super::Command::Get.told(), &facts, output);
    for (is_so, flag) in [(mark.is_won, b" Z"), (mark.is_stale, b" X"), (wins, b" W")] {
        if is_so {
            output.extend_from_slice(flag);
        }
    }
    output.extend_from_slice(b"\r\n");
    if options.wants_value {
        output.extend_from_slice(value);
        output.extend_from_slice(b"\r\n");
    }
    Ok(true)
}

/// Turns a sequence of entries round, and leaves out those that are too old, as `ms` in the mode `V`
/// would with the same flags. What is before the first whole entry is none.
fn newest_first(value: &mut Vec<u8>, bytes: usize, identity: usize, not_before: &[u8]) {
    let is_new = |entry: &&[u8]| entry.get(identity..).unwrap_or_default() >= not_before;
    let entries = value.rchunks_exact(bytes).filter(is_new);
    *value = entries.flatten().copied().collect();
}

/// Makes an empty record, unless there is one.
fn make(
    table: &dyn Table,
    key: &[u8],
    attributes: Attributes,
    stamp: Stamp,
) -> Result<Option<Found>, TableError> {
    let update = Update {
        key,
        condition: Condition::Absent,
        change: Change::Put(b""),
        attributes,
    };
    Ok(match table.update(&update, stamp)? {
        Outcome::Stored { unique } => Some(Found {
            flags: attributes.flags,
            expires_at: attributes.expires_at,
            unique,
        }),
        _ => None,
    })
}

/// Carries `me` out and writes its answer: what is known of a record.
pub(in crate::memcached) fn debug(
    table: &dyn Table,
    key: &[u8],
    key_word: &[u8],
    now: u64,
    value: &mut Vec<u8>,
    output: &mut Vec<u8>,
) -> Result<(), TableError> {
    let Some(found) = table.get(key, now, value)? else {
        output.extend_from_slice(b"EN\r\n");
        return Ok(());
    };
    output.extend_from_slice(b"ME ");
    output.extend_from_slice(key_word);
    output.extend_from_slice(b" exp=");
    if found.expires_at == 0 {
        output.extend_from_slice(b"-1");
    } else {
        write_number(found.expires_at.saturating_sub(now), output);
    }
    output.extend_from_slice(b" cas=");
    write_number(found.unique, output);
    output.extend_from_slice(b" size=");
    write_number(value.len(), output);
    output.extend_from_slice(b"\r\n");
    Ok(())
}
