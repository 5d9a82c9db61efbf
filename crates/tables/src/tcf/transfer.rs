//! Moves records between a `.tcf` file and a table.

use std::path::Path;

use hikyaku_vfs::Vfs;

use super::{ByteOrder, TcfReader, TcfWriter};
use crate::{Change, Outcome, Stamp, Table, TableError, Update};

/// Records that go into a table together.
const BATCH: usize = 512;
/// Bytes of values that are held at a time.
const BATCH_BYTES: usize = 1 << 20;

/// Checks that a table has a place for every record of a file, and returns how many there are.
pub fn check_tcf(reader: &mut TcfReader, table: &dyn Table) -> Result<u64, TableError> {
    let (mut value, mut checked) = (Vec::new(), 0);
    while let Some(key) = reader.next(&mut value)? {
        let key = key.to_string();
        let refused = |error| TableError::Syntax(format!("record {key} has no place: {error}"));
        table.check(key.as_bytes(), value.len()).map_err(refused)?;
        checked += 1;
    }
    Ok(checked)
}

/// Puts every record of a file into a table, over what is there, and returns how many there were.
/// The first that the table refuses ends it; those before it are in.
pub fn import_tcf(
    reader: &mut TcfReader,
    table: &dyn Table,
    stamp: Stamp,
) -> Result<u64, TableError> {
    let mut imported = 0;
    let mut batch: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut bytes = 0;
    let mut value = Vec::new();
    loop {
        let key = reader.next(&mut value)?;
        if let Some(key) = key {
            bytes += value.len();
            batch.push((key.to_string().into_bytes(), value.clone()));
        }
        if key.is_none() || batch.len() >= BATCH || bytes >= BATCH_BYTES {
            imported += put_all(table, &batch, stamp)?;
            batch.clear();
            bytes = 0;
        }
        if key.is_none() {
            return Ok(imported);
        }
    }
}

fn put_all(
    table: &dyn Table,
    batch: &[(Vec<u8>, Vec<u8>)],
    stamp: Stamp,
) -> Result<u64, TableError> {
    let updates: Vec<Update<'_>> = batch
        .iter()
        .map(|(key, value)| Update::new(key, Change::Put(value)))
        .collect();
    let mut outcomes = Vec::with_capacity(updates.len());
    table.update_all(&updates, stamp, &mut outcomes);
    let outcomes: Vec<Outcome> = outcomes.into_iter().collect::<Result<_, _>>()?;
    Ok(outcomes.len() as u64)
}

/// Writes every record of a table into a new file, and returns how many there were. All keys must be
/// numbers from 1, as a fixed table has them. `width`: bytes of a record (`None`: as the longest
/// value needs).
pub fn export_tcf(
    table: &dyn Table,
    now: u64,
    disk: &dyn Vfs,
    path: &Path,
    byte_order: ByteOrder,
    width: Option<u32>,
) -> Result<u64, TableError> {
    let width = match width {
        Some(width) => width,
        None => widest(table, now)?,
    };
    let mut writer = TcfWriter::create(disk, path, byte_order, width)?;
    let mut value = Vec::new();
    for_each_key(table, |number, key| {
        if table.get(key, now, &mut value)?.is_some() {
            writer.push(number, &value)?;
        }
        Ok(())
    })?;
    Ok(writer.finish(disk)?.count)
}

/// Returns the length of the longest value, which is at least 1.
fn widest(table: &dyn Table, now: u64) -> Result<u32, TableError> {
    let mut widest = 1;
    for_each_key(table, |_, key| {
        widest = widest.max(table.size(key, now)?.unwrap_or_default());
        Ok(())
    })?;
    u32::try_from(widest).map_err(|_| TableError::ValueTooLong {
        limit: i32::MAX as usize,
    })
}

fn for_each_key(
    table: &dyn Table,
    mut visit: impl FnMut(u64, &[u8]) -> Result<(), TableError>,
) -> Result<(), TableError> {
    let mut last: Option<Vec<u8>> = None;
    loop {
        let mut keys = table.keys_after(last.as_deref(), BATCH)?;
        for key in &keys {
            visit(number(key)?, key)?;
        }
        match keys.pop() {
            Some(key) => last = Some(key),
            None => return Ok(()),
        }
    }
}

/// Reads a key as a fixed table writes it: `07` would be another record than `7` elsewhere.
fn number(key: &[u8]) -> Result<u64, TableError> {
    let text = std::str::from_utf8(key).map_err(|_| TableError::KeyNotANumber)?;
    let number: u64 = text.parse().map_err(|_| TableError::KeyNotANumber)?;
    if number == 0 || number.to_string() != text {
        return Err(TableError::KeyNotANumber);
    }
    Ok(number)
}
