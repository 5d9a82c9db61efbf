//! The functions of `misc`: a name, byte strings in, byte strings out.

use hikyaku_tables::{Change, Condition, Outcome, Stamp, Table, TableError, Update};

use super::{
    arguments::Strings,
    keys::Word,
    search,
    wire::{DONE, write_string},
};

/// Records of a list that are changed together.
const TOGETHER: usize = 512;

/// Why a function has no result.
#[derive(Debug)]
pub(super) enum MiscError {
    /// There is no such function, or it has other arguments.
    Invalid,
    /// The keys are of several tables.
    Tables,
    /// A record is there that should not be.
    Present,
    /// A record is not there.
    Absent,
    /// The result would be too long.
    TooLong,
    /// The table refuses.
    Table(TableError),
}

impl From<MiscError> for TableError {
    fn from(error: MiscError) -> Self {
        let what = match error {
            MiscError::Table(error) => return error,
            MiscError::Invalid => "there is no such function, or it takes other arguments",
            MiscError::Tables => "the keys of one call are of one table",
            MiscError::Present => "the record exists",
            MiscError::Absent => "there is no such record",
            MiscError::TooLong => "the answer would be too long",
        };
        Self::Syntax(what.to_owned())
    }
}

impl From<TableError> for MiscError {
    fn from(error: TableError) -> Self {
        Self::Table(error)
    }
}

/// A result as it goes out: a byte, a count, strings.
pub(super) struct Answer {
    bytes: Vec<u8>,
    strings: u32,
    bytes_max: usize,
}

impl Answer {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes: vec![DONE, 0, 0, 0, 0],
            strings: 0,
            bytes_max,
        }
    }

    pub(super) fn push(&mut self, string: &[u8]) -> Result<(), MiscError> {
        if self.bytes.len() + string.len() > self.bytes_max {
            return Err(MiscError::TooLong);
        }
        write_string(&mut self.bytes, string);
        self.strings += 1;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        if let Some(count) = self.bytes.get_mut(1..5) {
            count.copy_from_slice(&self.strings.to_be_bytes());
        }
        self.bytes
    }
}

/// Tells whether a function reads a few records only, so that it can be called in a worker.
pub(super) fn is_short(name: &[u8]) -> bool {
    matches!(name, b"get" | b"getlist" | b"getpart")
}

/// Tells whether a function reads much and changes nothing, so that nobody need wait for it.
pub(super) fn is_search(name: &[u8]) -> bool {
    matches!(name, b"range" | b"regex")
}

/// Tells which of a function's arguments are keys: every one, every second one, the first, or none.
pub(super) fn keys_step(name: &[u8]) -> Option<usize> {
    match name {
        b"outlist" | b"getlist" => Some(1),
        b"putlist" => Some(2),
        b"put" | b"putkeep" | b"putcat" | b"out" | b"get" | b"getpart" | b"range" => {
            Some(usize::MAX)
        }
        _ => None,
    }
}

/// Calls a function. `skip`: bytes before each key, which name the table.
pub(super) fn call(
    name: &[u8],
    arguments: &Strings,
    skip: usize,
    table: &dyn Table,
    stamp: Stamp,
    bytes_max: usize,
) -> Result<Vec<u8>, MiscError> {
    let mut answer = Answer::new(bytes_max);
    let key = |index: usize| -> Result<&[u8], MiscError> {
        let key = arguments.get(index).ok_or(MiscError::Invalid)?;
        key.get(skip..).ok_or(MiscError::Invalid)
    };
    let string = |index: usize| arguments.get(index).ok_or(MiscError::Invalid);
    let now = stamp.seconds();
    match name {
        b"put" | b"putkeep" | b"putcat" => {
            let value = string(1)?;
            let change = match name {
                b"putcat" => Change::Append(value),
                _ => Change::Put(value),
            };
            let condition = match name {
                b"putkeep" => Condition::Absent,
                _ => Condition::Any,
            };
            let update = Update {
                condition,
                ..Update::new(key(0)?, change)
            };
            change_one(table, &update, stamp)?;
        }
        b"out" => change_one(table, &Update::new(key(0)?, Change::Remove), stamp)?,
        b"putlist" => {
            let pairs = (0..arguments.len() / 2).map(|pair| {
                let (key, value) = (key(2 * pair)?, string(2 * pair + 1)?);
                Ok(Update::new(key, Change::Put(value)))
            });
            change_all(table, pairs, stamp)?;
        }
        b"outlist" => {
            let keys = (0..arguments.len()).map(|at| Ok(Update::new(key(at)?, Change::Remove)));
            change_all(table, keys, stamp)?;
        }
        b"get" => {
            let mut value = Vec::new();
            read(table, key(0)?, now, &mut value)?;
            answer.push(&value)?;
        }
        b"getlist" => {
            let mut value = Vec::new();
            for index in 0..arguments.len() {
                match read(table, key(index)?, now, &mut value) {
                    Ok(()) => {
                        answer.push(string(index)?)?;
                        answer.push(&value)?;
                    }
                    Err(MiscError::Absent) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        b"getpart" => {
            let mut value = Vec::new();
            read(table, key(0)?, now, &mut value)?;
            let number = |index| arguments.get(index).map_or(Ok(None), decimal);
            let offset = number(1)?.unwrap_or(0);
            let length = number(2)?.unwrap_or(usize::MAX);
            let part = value.get(offset..).filter(|part| !part.is_empty());
            let part = part.ok_or(MiscError::Invalid)?;
            answer.push(part.get(..length.min(part.len())).unwrap_or_default())?;
        }
        b"range" => search::range(table, arguments, skip, now, &mut answer)?,
        b"regex" => search::by_pattern(table, arguments, now, &mut answer)?,
        b"sync" => table.sync()?,
        b"optimize" => table.optimise(text(arguments.get(0).unwrap_or_default())?)?,
        b"vanish" => table.vanish(stamp)?,
        _ => return Err(MiscError::Invalid),
    }
    Ok(answer.finish())
}

/// Reads parameters as text.
pub(super) fn text(bytes: &[u8]) -> Result<&str, MiscError> {
    std::str::from_utf8(bytes).map_err(|_| MiscError::Invalid)
}

/// Reads a number; below zero it is as if it was not there.
pub(super) fn decimal(text: &[u8]) -> Result<Option<usize>, MiscError> {
    if text.is_empty() || text.first() == Some(&b'-') {
        return Ok(None);
    }
    let text = self::text(text)?;
    text.parse().map(Some).map_err(|_| MiscError::Invalid)
}

fn change_one(table: &dyn Table, update: &Update<'_>, stamp: Stamp) -> Result<(), MiscError> {
    let outcome = match Word::of(table, update.key) {
        Some(word) => word.update(table, update, stamp)?,
        None => table.update(update, stamp)?,
    };
    match outcome {
        Outcome::NotStored => Err(MiscError::Present),
        Outcome::NotFound => Err(MiscError::Absent),
        _ => Ok(()),
    }
}

/// Changes records in order, up to the first that is refused. One to remove may be absent.
fn change_all<'u>(
    table: &dyn Table,
    updates: impl Iterator<Item = Result<Update<'u>, MiscError>>,
    stamp: Stamp,
) -> Result<(), MiscError> {
    let mut together = Vec::new();
    let mut outcomes = Vec::new();
    let mut change = |together: &mut Vec<Update<'_>>| -> Result<(), MiscError> {
        table.update_all(together, stamp, &mut outcomes);
        together.clear();
        for outcome in outcomes.drain(..) {
            outcome?;
        }
        Ok(())
    };
    for update in updates {
        together.push(update?);
        if together.len() == TOGETHER {
            change(&mut together)?;
        }
    }
    change(&mut together)
}

fn read(table: &dyn Table, key: &[u8], now: u64, value: &mut Vec<u8>) -> Result<(), MiscError> {
    let found = match Word::of(table, key) {
        Some(word) => match word.key(table)? {
            Some(key) => table.get(&key, now, value)?,
            None => None,
        },
        None => table.get(key, now, value)?,
    };
    found.map(drop).ok_or(MiscError::Absent)
}
