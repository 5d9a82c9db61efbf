//! The interface of every table.

use std::{fmt, path::Path};

use crate::{Effect, Interval, Outcome, Stamp, TableError, Update};

/// What a table is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An array in a mapped file; keys are numbers.
    Fixed,
    /// On disk, keys without order.
    Hash,
    /// On disk, keys in order of their bytes.
    Ordered,
    /// In memory, keys in order of their bytes; gone at the end.
    Memory,
}

/// A record that was found; its value is in the caller's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The client's own 32 bits; 0 in fixed tables.
    pub flags: u32,
    /// Unix seconds from which on it is absent; 0 is never.
    pub expires_at: u64,
    /// A number that another state of the record does not have. Fixed tables, which have no room
    /// for one, give a hash of the value: a value that comes back has its number again.
    pub unique: u64,
}

/// Who is told of each update, in the order of a record's updates: it is called while the record is
/// locked, so it must be quick and must not call the table.
pub trait UpdateSink: Send + Sync + fmt::Debug {
    /// Takes an update down. After an error the table leaves the record as it was.
    fn updated(&self, effect: Effect<'_>, stamp: Stamp) -> Result<(), TableError>;
}

/// A table: shared by all threads. Updates of different records do not wait for each other where
/// the kind allows it (fixed and memory), and reads wait for nobody.
pub trait Table: Send + Sync + fmt::Debug {
    /// Returns the kind.
    fn kind(&self) -> Kind;
    /// Tells whether an update may wait for the disk, so that it belongs on a thread of its own. Such
    /// a table is given many updates at once ([`Table::update_all`]).
    fn updates_wait(&self) -> bool;
    /// Returns the bytes that each record has room for, in a fixed table.
    fn width(&self) -> Option<usize> {
        None
    }
    /// Reads a record: replaces what is in `value`. `now`: Unix seconds; what has expired is absent.
    fn get(&self, key: &[u8], now: u64, value: &mut Vec<u8>) -> Result<Option<Found>, TableError>;
    /// Returns the size of a record's value.
    fn size(&self, key: &[u8], now: u64) -> Result<Option<usize>, TableError>;
    /// Changes a record.
    fn update(&self, update: &Update<'_>, stamp: Stamp) -> Result<Outcome, TableError>;
    /// Changes many records in order, each by itself: one that is refused does not stop the others.
    /// Appends one result for each. What can be made durable together is.
    fn update_all(
        &self,
        updates: &[Update<'_>],
        stamp: Stamp,
        outcomes: &mut Vec<Result<Outcome, TableError>>,
    ) {
        outcomes.extend(updates.iter().map(|update| self.update(update, stamp)));
    }
    /// Checks that a record of this key has a place here, with a value of so many bytes.
    fn check(&self, key: &[u8], value_bytes: usize) -> Result<(), TableError>;
    /// Carries out what another server, or this one before a crash, has done. The sink is told. It is
    /// durable after [`Table::sync`], whatever the table's setting: who carries out a log notes how
    /// far only then.
    fn apply(&self, effect: Effect<'_>, stamp: Stamp) -> Result<(), TableError>;
    /// Returns the number of records (those that have expired but are not yet removed included).
    fn count(&self) -> u64;
    /// Returns the bytes on disk, or in memory where there is no disk.
    fn bytes(&self) -> u64;
    /// Lists keys behind `after` (`None`: from the first) in the table's own order, at most `limit`.
    /// A record that is there all the while is listed once by going on from the last key; others may
    /// be or not.
    fn keys_after(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Vec<u8>>, TableError>;
    /// Returns the last key in the table's own order (`None`: there is none).
    fn last_key(&self) -> Result<Option<Vec<u8>>, TableError>;
    /// Lists the keys of an interval in order, at most `limit`. Not for hash tables.
    fn range(&self, interval: &Interval, limit: usize) -> Result<Vec<Vec<u8>>, TableError>;
    /// Lists the keys that begin so, at most `limit`. Not for fixed tables.
    fn with_prefix(&self, prefix: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, TableError>;
    /// Removes records that have expired by `now` (Unix seconds): looks at about as many `records`
    /// (or places for some), going on where the last sweep stopped. Returns how many went. The sink
    /// is not told: who follows it knows when they expire. Nothing to do where nothing expires.
    fn sweep(&self, now: u64, records: usize) -> Result<u64, TableError> {
        let (_, _) = (now, records);
        Ok(0)
    }
    /// Removes all records.
    fn vanish(&self, stamp: Stamp) -> Result<(), TableError>;
    /// Makes the table smaller or otherwise fit: for a fixed table `width=N` changes the width (a
    /// value that would not fit refuses it all).
    fn optimise(&self, options: &str) -> Result<(), TableError>;
    /// Writes a consistent snapshot to a new file, while the table is in use. It has every update
    /// that the sink was told of before the call.
    fn copy(&self, to: &Path) -> Result<(), TableError>;
    /// Makes everything so far durable: every update that the sink was told of before the call is
    /// carried out and durable when this returns. (So a checkpoint of the log may say so.)
    fn sync(&self) -> Result<(), TableError>;
}
