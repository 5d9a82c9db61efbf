//! What readers see: the table as the last commit left it.

use std::{ops::Bound, path::Path, sync::Arc};

use redb::{ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata};

use super::{
    damage::{damaged, sheltered},
    open::{Opened, RECORDS, State},
    record::Record,
};
use crate::TableError;

/// A consistent view of the table. Readers share it; a commit puts another in its place.
pub(super) struct Snapshot {
    records: ReadOnlyTable<&'static [u8], &'static [u8]>,
    state: State,
    file_bytes: u64,
    /// Closed after the view, not before.
    _opened: Arc<Opened>,
}

impl Snapshot {
    pub(super) fn of(opened: &Arc<Opened>, state: State) -> Result<Self, redb::Error> {
        Ok(Self {
            state,
            file_bytes: opened.backend().bytes(),
            records: opened.database().begin_read()?.open_table(RECORDS)?,
            _opened: Arc::clone(opened),
        })
    }

    pub(super) const fn state(&self) -> State {
        self.state
    }

    /// Returns the bytes of the B-tree's file.
    pub(super) const fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Calls `read` with a record, if there is one.
    pub(super) fn get<T>(
        &self,
        path: &Path,
        key: &[u8],
        read: impl FnOnce(Record<'_>) -> T,
    ) -> Result<Option<T>, TableError> {
        let found = sheltered(path, || {
            let stored = self.records.get(key)?;
            Ok(stored.map(|stored| Record::read(key, stored.value()).map(read)))
        })?;
        match found {
            Some(None) => Err(wrong_record(path, key)),
            found => Ok(found.flatten()),
        }
    }

    pub(super) fn count(&self, path: &Path) -> Result<u64, TableError> {
        sheltered(path, || Ok(self.records.len()?))
    }

    pub(super) fn last_key(&self, path: &Path) -> Result<Option<Vec<u8>>, TableError> {
        sheltered(path, || {
            let last = self.records.last()?;
            Ok(last.map(|(key, _)| key.value().to_vec()))
        })
    }

    /// Calls `visit` with each record from `lower` on in the order of keys, as it is stored, until it
    /// says false.
    pub(super) fn walk(
        &self,
        path: &Path,
        lower: Bound<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool, redb::Error>,
    ) -> Result<(), TableError> {
        sheltered(path, || {
            for entry in self.records.range::<&[u8]>((lower, Bound::Unbounded))? {
                let (key, record) = entry?;
                if !visit(key.value(), record.value())? {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// Returns the error of a record that is not what was written.
pub(super) fn wrong_record(path: &Path, key: &[u8]) -> TableError {
    damaged(
        path,
        &format!("the checksum of the record {} differs", key.escape_ascii()),
    )
}
