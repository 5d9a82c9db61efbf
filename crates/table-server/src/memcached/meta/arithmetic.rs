//! `ma`.

use hikyaku_tables::{Attributes, Change, Condition, Outcome, Stamp, Table, TableError, Update};

use super::{Facts, Meta, changed_number};
use crate::memcached::words::expires_at;

/// Returns the update that `ma` asks for.
pub(in crate::memcached) fn increment<'a>(
    meta: &Meta<'_>,
    key: &'a [u8],
    now: u64,
) -> Result<Update<'a>, &'static str> {
    let options = &meta.options;
    let by = options.delta.unwrap_or(1);
    let initial = options.vivify.map(|_| options.initial);
    let change = match options.mode.unwrap_or(b'I') {
        b'I' | b'+' => Change::Increment { by, initial },
        b'D' | b'-' => Change::Decrement { by, initial },
        _ => return Err("CLIENT_ERROR invalid mode for ma M token"),
    };
    Ok(Update {
        key,
        condition: options.unique.map(Condition::Unique).unwrap_or_default(),
        change,
        attributes: Attributes {
            flags: 0,
            expires_at: expires_at(options.vivify.unwrap_or(0), now),
        },
    })
}

/// Carries out `ma` that asks for more than one update does: an expiry to be told (`t`) or changed
/// (`T`), or a record to be made (`N`) that would be compared (`C`) if it were there.
pub(in crate::memcached) fn arithmetic(
    table: &dyn Table,
    update: &Update<'_>,
    meta: &Meta<'_>,
    stamp: Stamp,
    output: &mut Vec<u8>,
) -> Result<Outcome, TableError> {
    let options = &meta.options;
    let mut outcome = table.update(update, stamp)?;
    if outcome == Outcome::NotFound && options.vivify.is_some() {
        let anyhow = Update {
            condition: Condition::Any,
            ..*update
        };
        outcome = table.update(&anyhow, stamp)?;
    }
    let Outcome::Number {
        value,
        unique,
        is_new,
    } = outcome
    else {
        super::answer(super::Command::Arithmetic, meta, &Ok(outcome), output);
        return Ok(outcome);
    };
    let now = stamp.seconds();
    let mut record = Vec::new();
    let mut expires = 0;
    if let Some(expiry) = options.expiry {
        expires = expires_at(expiry, now);
        let touch = Update {
            attributes: Attributes {
                flags: 0,
                expires_at: expires,
            },
            ..Update::new(update.key, Change::Touch)
        };
        table.update(&touch, stamp)?;
    } else if let Some(found) = table.get(update.key, now, &mut record)? {
        expires = found.expires_at;
    }
    let facts = Facts {
        expires_at: expires,
        unique,
        now,
        ..Facts::default()
    };
    changed_number(meta, (value, is_new), &facts, output);
    Ok(outcome)
}
