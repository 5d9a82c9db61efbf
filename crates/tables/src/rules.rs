//! What an update makes of a record: one pure function for every kind of table.

use crate::{Attributes, Change, Condition, IntegerWidth, TableError, Update};

/// A record as it stands, to decide on.
#[derive(Debug, Clone, Copy)]
pub struct Current<'a> {
    /// Its value.
    pub value: &'a [u8],
    /// What stands beside it.
    pub attributes: Attributes,
    /// Its unique number.
    pub unique: u64,
}

/// What a table can hold.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The width of a fixed table's records: what a rotation without a size keeps.
    pub width: Option<usize>,
    /// Bytes a value may have.
    pub value_bytes_max: usize,
}

/// What is to be done with the record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    /// Its value becomes what was left in the buffer, with these attributes.
    Put(Attributes, Answer),
    /// Only its attributes change.
    Touch(Attributes),
    /// It goes.
    Remove,
    /// Nothing: a condition was not met.
    NotStored,
    /// Nothing: the unique number or the value differs.
    Differs,
    /// Nothing: there is no record.
    NotFound,
}

/// What the caller hears of a put.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer {
    /// That it was stored.
    Stored,
    /// The sum.
    Integer(i64),
    /// The sum.
    Double(f64),
    /// The result of counting.
    Number {
        /// The result.
        value: u64,
        /// Whether the record is new.
        is_new: bool,
    },
}

/// Decides what an update makes of a record (`None`: absent, or expired). The new value of a put is
/// left in `new`, whose former contents do not matter.
pub fn decide(
    current: Option<Current<'_>>,
    update: &Update<'_>,
    bounds: Bounds,
    new: &mut Vec<u8>,
) -> Result<Decision, TableError> {
    match (update.condition, current) {
        (Condition::Absent, Some(_)) | (Condition::Present, None) => {
            return Ok(Decision::NotStored);
        }
        (Condition::Unique(_) | Condition::Value(_), None) => return Ok(Decision::NotFound),
        (Condition::Unique(unique), Some(current)) if unique != current.unique => {
            return Ok(Decision::Differs);
        }
        (Condition::Value(value), Some(current)) if value != current.value => {
            return Ok(Decision::Differs);
        }
        _ => {}
    }
    let old = current.map_or(&[][..], |current| current.value);
    let kept = current.map_or(update.attributes, |current| current.attributes);
    new.clear();
    let (attributes, answer) = match update.change {
        Change::Put(value) => {
            new.extend_from_slice(value);
            (update.attributes, Answer::Stored)
        }
        Change::Append(bytes) => {
            new.extend_from_slice(old);
            new.extend_from_slice(bytes);
            (kept, Answer::Stored)
        }
        Change::Prepend(bytes) => {
            new.extend_from_slice(bytes);
            new.extend_from_slice(old);
            (kept, Answer::Stored)
        }
        Change::Rotate { bytes, size } => {
            rotate(old, bytes, rotation_size(size, bounds)?, new);
            (kept, Answer::Stored)
        }
        Change::RotateEntry {
            entry,
            size,
            identity,
            not_before,
        } => {
            let size = rotation_size(size, bounds)?;
            rotate_entry(old, entry, size, identity, not_before, new)?;
            (kept, Answer::Stored)
        }
        Change::AddInteger { by, width } => {
            let sum = add_integer(current.map(|current| current.value), by, width, new)?;
            (kept, Answer::Integer(sum))
        }
        Change::AddDouble(by) => {
            let sum = match current {
                None => by,
                Some(current) => {
                    let bytes = current.value.try_into();
                    by + f64::from_le_bytes(bytes.map_err(|_| TableError::NotANumber)?)
                }
            };
            if !sum.is_finite() {
                return Err(TableError::OutOfRange);
            }
            new.extend_from_slice(&sum.to_le_bytes());
            (kept, Answer::Double(sum))
        }
        Change::Increment { by, initial } | Change::Decrement { by, initial } => {
            let result = match (current, initial) {
                (None, None) => return Ok(Decision::NotFound),
                (None, Some(initial)) => initial,
                (Some(current), _) => {
                    let number = decimal(current.value).ok_or(TableError::NotANumber)?;
                    match update.change {
                        Change::Increment { .. } => number.wrapping_add(by),
                        _ => number.saturating_sub(by),
                    }
                }
            };
            new.extend_from_slice(result.to_string().as_bytes());
            // As memcached, which writes over the old number where the new one fits.
            if new.len() < old.len() {
                new.resize(old.len(), b' ');
            }
            let answer = Answer::Number {
                value: result,
                is_new: current.is_none(),
            };
            (kept, answer)
        }
        Change::Touch => {
            return Ok(current.map_or(Decision::NotFound, |current| {
                Decision::Touch(Attributes {
                    expires_at: update.attributes.expires_at,
                    ..current.attributes
                })
            }));
        }
        Change::Remove => {
            return Ok(current.map_or(Decision::NotFound, |_| Decision::Remove));
        }
    };
    if new.len() > bounds.value_bytes_max {
        return Err(TableError::ValueTooLong {
            limit: bounds.value_bytes_max,
        });
    }
    Ok(Decision::Put(attributes, answer))
}

fn rotation_size(size: Option<usize>, bounds: Bounds) -> Result<usize, TableError> {
    let most = bounds.width.unwrap_or(bounds.value_bytes_max);
    match size {
        Some(size) if size > most => Err(TableError::ValueTooLong { limit: most }),
        Some(size) => Ok(size),
        None => Ok(most),
    }
}

fn rotate(old: &[u8], bytes: &[u8], size: usize, new: &mut Vec<u8>) {
    let kept = size.saturating_sub(bytes.len()).min(old.len());
    let tail = |all: &[u8], len: usize, new: &mut Vec<u8>| {
        new.extend_from_slice(all.get(all.len() - len..).unwrap_or_default());
    };
    tail(old, kept, new);
    tail(bytes, bytes.len().min(size), new);
}

fn rotate_entry(
    old: &[u8],
    entry: &[u8],
    size: usize,
    identity: usize,
    not_before: &[u8],
    new: &mut Vec<u8>,
) -> Result<(), TableError> {
    let len = entry.len();
    let fits = len > 0
        && len <= size
        && old.len().is_multiple_of(len)
        && identity <= len
        && not_before.len() <= len - identity;
    let (about, _) = entry.split_at_checked(identity).ok_or(TableError::Entry)?;
    if !fits {
        return Err(TableError::Entry);
    }
    for older in old.chunks_exact(len) {
        let (its, rest) = older.split_at_checked(identity).unwrap_or_default();
        let repeats = identity > 0 && its == about;
        let is_old = rest < not_before;
        if !repeats && !is_old {
            new.extend_from_slice(older);
        }
    }
    let excess = (new.len() + len).saturating_sub(size).div_ceil(len) * len;
    new.drain(..excess);
    new.extend_from_slice(entry);
    Ok(())
}

fn add_integer(
    old: Option<&[u8]>,
    by: i64,
    width: IntegerWidth,
    new: &mut Vec<u8>,
) -> Result<i64, TableError> {
    let stored = match (old, width) {
        (None, _) => 0,
        (Some(old), IntegerWidth::Four) => {
            i32::from_le_bytes(old.try_into().map_err(|_| TableError::NotANumber)?).into()
        }
        (Some(old), IntegerWidth::Eight) => {
            i64::from_le_bytes(old.try_into().map_err(|_| TableError::NotANumber)?)
        }
    };
    let sum = stored.checked_add(by).ok_or(TableError::OutOfRange)?;
    match width {
        IntegerWidth::Four => {
            let sum = i32::try_from(sum).map_err(|_| TableError::OutOfRange)?;
            new.extend_from_slice(&sum.to_le_bytes());
        }
        IntegerWidth::Eight => new.extend_from_slice(&sum.to_le_bytes()),
    }
    Ok(sum)
}

/// Reads decimal digits, and the white space that a shorter number leaves behind it. Signs, other
/// bytes and what 64 bits don't hold are no number.
fn decimal(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii_end();
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
