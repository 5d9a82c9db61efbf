//! What looks through a table: ranges of keys, keys that begin so, keys that match a pattern.

use std::ops::Bound;

use hikyaku_tables::{End, Interval, Kind, Table, TableError};
use regex::bytes::{Regex, RegexBuilder};

use super::{
    arguments::Strings,
    misc::{Answer, MiscError, decimal, text},
};

/// Keys that are read together.
const KEYS_TOGETHER: usize = 256;
/// Bytes of a pattern, and of what it becomes. A match takes time in proportion to the key, whatever
/// the pattern.
const PATTERN_BYTES_MAX: usize = 4096;
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Keys and values from a key on (the first argument; none: from the first key), at most so many
/// (the second; none or 0: all), up to a key (the third) that is not among them.
pub(super) fn range(
    table: &dyn Table,
    arguments: &Strings,
    skip: usize,
    now: u64,
    answer: &mut Answer,
) -> Result<(), MiscError> {
    let key = |index: usize| arguments.get(index).filter(|key| !key.is_empty());
    let bound = |key: &[u8]| {
        key.get(skip..)
            .map(<[u8]>::to_vec)
            .ok_or(MiscError::Invalid)
    };
    let max = arguments.get(1).map_or(Ok(None), decimal)?;
    let mut left = max.filter(|max| *max > 0).unwrap_or(usize::MAX);
    let mut interval = Interval {
        lower: match key(0) {
            Some(key) => Bound::Included(End::Key(bound(key)?)),
            None => Bound::Unbounded,
        },
        upper: match key(2) {
            Some(key) => Bound::Excluded(End::Key(bound(key)?)),
            None => Bound::Unbounded,
        },
    };
    let prefix = key(0).and_then(|key| key.get(..skip)).unwrap_or_default();
    let mut value = Vec::new();
    while left > 0 {
        let together = left.min(KEYS_TOGETHER);
        let keys = match table.kind() {
            Kind::Hash => walked(table, &interval, together, now)?,
            _ => table.range(&interval, together)?,
        };
        let Some(last) = keys.last() else {
            break;
        };
        interval.lower = Bound::Excluded(End::Key(last.clone()));
        for key in &keys {
            if table.get(key, now, &mut value)?.is_some() {
                answer.push(&[prefix, key].concat())?;
                answer.push(&value)?;
                left -= 1;
            }
        }
    }
    Ok(())
}

/// Lists keys of a hash table as the original does: from a key on as the table is walked, up to
/// another one.
fn walked(
    table: &dyn Table,
    interval: &Interval,
    limit: usize,
    now: u64,
) -> Result<Vec<Vec<u8>>, TableError> {
    let mut keys = Vec::new();
    let after = match &interval.lower {
        Bound::Included(End::Key(first)) => {
            if table.size(first, now)?.is_some() {
                keys.push(first.clone());
            }
            Some(first)
        }
        Bound::Excluded(End::Key(last)) => Some(last),
        _ => None,
    };
    keys.extend(table.keys_after(after.map(Vec::as_slice), limit)?);
    if let Bound::Excluded(End::Key(end)) = &interval.upper
        && let Some(at) = keys.iter().position(|key| key == end)
    {
        keys.truncate(at);
    }
    keys.truncate(limit);
    Ok(keys)
}

/// Lists the keys that begin so, of a table without an order: looks at all.
fn scanned(table: &dyn Table, beginning: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, TableError> {
    let mut found = Vec::new();
    let mut last: Option<Vec<u8>> = None;
    while found.len() < limit {
        let keys = table.keys_after(last.as_deref(), KEYS_TOGETHER)?;
        let Some(key) = keys.last() else {
            break;
        };
        last = Some(key.clone());
        found.extend(keys.into_iter().filter(|key| key.starts_with(beginning)));
    }
    found.truncate(limit);
    Ok(found)
}

/// Lists keys as `fwmkeys` does: those of an interval in a fixed table, elsewhere those that begin
/// so. `prefix`: what stands before each of them, the name of their table.
pub(super) fn keys(
    table: &dyn Table,
    pattern: &[u8],
    prefix: &[u8],
    max: usize,
    bytes_max: usize,
) -> Result<Vec<u8>, MiscError> {
    let mut answer = Answer::new(bytes_max);
    // A key takes at least its length on the wire.
    let limit = max.min(bytes_max / 4);
    let keys = match table.kind() {
        Kind::Fixed if pattern.is_empty() => table.range(&Interval::ALL, limit)?,
        Kind::Fixed => table.range(&Interval::parse(pattern)?, limit)?,
        Kind::Hash => scanned(table, pattern, limit)?,
        _ => table.with_prefix(pattern, limit)?,
    };
    for key in keys {
        if prefix.is_empty() {
            answer.push(&key)?;
        } else {
            answer.push(&[prefix, &key].concat())?;
        }
    }
    Ok(answer.finish())
}

/// Keys and values whose key matches a pattern (the first argument; a `*` before it: whatever the
/// case of letters), at most so many (the second; none or 0: all).
pub(super) fn by_pattern(
    table: &dyn Table,
    arguments: &Strings,
    now: u64,
    answer: &mut Answer,
) -> Result<(), MiscError> {
    let pattern = pattern(arguments.get(0).ok_or(MiscError::Invalid)?)?;
    let max = arguments.get(1).map_or(Ok(None), decimal)?;
    let mut left = max.filter(|max| *max > 0).unwrap_or(usize::MAX);
    let mut value = Vec::new();
    let mut last: Option<Vec<u8>> = None;
    loop {
        let mut keys = table.keys_after(last.as_deref(), KEYS_TOGETHER)?;
        for key in keys.iter().filter(|key| pattern.is_match(key)) {
            if left == 0 {
                return Ok(());
            }
            if table.get(key, now, &mut value)?.is_some() {
                answer.push(key)?;
                answer.push(&value)?;
                left -= 1;
            }
        }
        last = keys.pop();
        if last.is_none() || left == 0 {
            return Ok(());
        }
    }
}

fn pattern(given: &[u8]) -> Result<Regex, MiscError> {
    if given.len() > PATTERN_BYTES_MAX {
        let why = format!("the pattern is longer than {PATTERN_BYTES_MAX} bytes");
        return Err(TableError::Syntax(why).into());
    }
    let (is_any_case, given) = match given.strip_prefix(b"*") {
        Some(given) => (true, given),
        None => (false, given),
    };
    RegexBuilder::new(text(given)?)
        .case_insensitive(is_any_case)
        .unicode(false)
        .size_limit(COMPILED_BYTES_MAX)
        .build()
        .map_err(|_| TableError::Syntax("that is no pattern, or it is too large".to_owned()).into())
}
