//! The files in which waiting updates outlive their process: what is told is in them before its record
//! changes, so a kill takes nothing from the log that a table still has.
//!
//! There are two, used in turn: one for the batch to come, one for the batch that is being written.
//! They promise nothing after a power cut: then a checksum tells whether they are what was written.

use std::{
    io, mem,
    path::{Path, PathBuf},
    sync::Arc,
};

use hikyaku_vfs::{Disk, MappedFile};

use super::{
    batch::BATCH_HEADER_LEN,
    entry::{Entry, FACTOR, Kept, sum_of},
    options::LogPosition,
    queue::{RECORD_BYTES_MAX, Taken},
};
use crate::TableError;

/// FORMAT: where the position of the first entry stands.
const FIRST_AT: u64 = 0;
/// FORMAT: where the entries' length (the lower half) and checksum stand, as one number: it is changed
/// in one piece, after the entries that it is about.
const COMMIT_AT: u64 = 8;
/// FORMAT: where [`MAGIC`] stands, which names the format and its version.
const MAGIC_AT: u64 = 16;
const MAGIC: u64 = u64::from_le_bytes(*b"HIKYUWA2");
/// FORMAT: all but its last byte are the same in each version.
const VERSION_BITS: u64 = 0xff << 56;
/// FORMAT: where the entries begin.
const ENTRIES_AT: u64 = 24;

/// Both files.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The one that the batch to come goes to.
    current: Arc<MappedFile>,
    /// The one with the batch before.
    other: Arc<MappedFile>,
    /// Bytes of entries that both have room for on the disk.
    reserved: usize,
    sum: Sum,
}

fn path(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("waiting-{index}"))
}

impl Waiting {
    /// Begins with empty files; what was in them must be in the log by now.
    pub(super) fn begin(
        disk: &Disk,
        dir: &Path,
        first: LogPosition,
        bytes: usize,
    ) -> Result<Self, TableError> {
        let begin = |index| {
            let path = path(dir, index);
            let create = || {
                if disk.exists(&path)? {
                    disk.remove(&path)?;
                }
                drop(disk.create_new(&path)?);
                let capacity = ENTRIES_AT + (bytes + RECORD_BYTES_MAX) as u64;
                let file = disk.map_mut(&path, capacity + (1 << 10))?;
                file.reserve(0, ENTRIES_AT as usize + bytes)?;
                file.store_u64(MAGIC_AT, MAGIC);
                Ok(Arc::new(file))
            };
            create().map_err(TableError::io("begin", &path))
        };
        let mut waiting = Self {
            other: begin(0)?,
            current: begin(1)?,
            reserved: bytes,
            sum: Sum::default(),
        };
        waiting.turn(first);
        Ok(waiting)
    }

    /// Returns the bytes of entries that there is room for.
    pub(super) fn reserved(&self) -> usize {
        self.reserved
    }

    /// Makes room for so many bytes behind the entries that are there, as an entry that is longer than
    /// the queue needs.
    pub(super) fn reserve(&self, entries_len: usize, len: usize) -> Result<(), TableError> {
        if entries_len + len <= self.reserved {
            return Ok(());
        }
        let place = ENTRIES_AT + entries_len as u64;
        let reserved = self.current.reserve(place, len);
        reserved.map_err(TableError::io("grow", Path::new("waiting")))
    }

    /// Keeps an entry, behind the bytes of those before it. More than its bytes may be written, but
    /// no more than [`ENTRY_OVERHEAD_MAX`](super::entry::ENTRY_OVERHEAD_MAX) has room for.
    #[inline]
    pub(super) fn keep(&mut self, entries_len: usize, entry: &impl Kept) {
        self.sum.add(entry.sum());
        let commit = self.sum.commit(entries_len + entry.len());
        entry.store(&self.current, ENTRIES_AT + entries_len as u64);
        self.current.store_u64(COMMIT_AT, commit);
    }

    /// Begins the next batch in the other file, as the batch that stood there is in the log; returns
    /// the file with the batch that has come.
    pub(super) fn turn(&mut self, first: LogPosition) -> Arc<MappedFile> {
        mem::swap(&mut self.current, &mut self.other);
        self.sum = Sum::default();
        self.current.store_u64(COMMIT_AT, self.sum.commit(0));
        self.current.store_u64(FIRST_AT, first.0);
        Arc::clone(&self.other)
    }
}

/// Copies the entries of a batch that is waited for no more.
pub(super) fn load_entries(file: &MappedFile, entries: &mut [u8]) {
    file.load(ENTRIES_AT, entries);
}

/// Returns the batches that a process left behind at its end, if they are what it wrote; in order. An
/// error if a program of another version wrote them, which can carry them to the log.
pub(super) fn left_behind(disk: &Disk, dir: &Path) -> Result<Vec<Taken>, TableError> {
    let mut found = Vec::new();
    for index in 0..2 {
        let path = path(dir, index);
        let read = || {
            if !disk.exists(&path)? {
                return Ok(None);
            }
            let file = disk.open(&path)?;
            let file_len = file.len()?;
            if file_len < ENTRIES_AT {
                return Ok(None);
            }
            let (mut first, mut commit, mut magic) = ([0; 8], [0; 8], [0; 8]);
            file.read_exact_at(&mut first, FIRST_AT)?;
            file.read_exact_at(&mut commit, COMMIT_AT)?;
            file.read_exact_at(&mut magic, MAGIC_AT)?;
            let commit = u64::from_le_bytes(commit);
            let len = commit & u64::from(u32::MAX);
            let magic = u64::from_le_bytes(magic);
            if magic != MAGIC && magic | VERSION_BITS == MAGIC | VERSION_BITS && len > 0 {
                return Ok(Some(Err(newer(&path))));
            }
            if magic != MAGIC || len > file_len - ENTRIES_AT {
                return Ok(None);
            }
            let mut bytes = vec![0; BATCH_HEADER_LEN + len as usize];
            if let Some(entries) = bytes.get_mut(BATCH_HEADER_LEN..) {
                file.read_exact_at(entries, ENTRIES_AT)?;
            }
            Ok(batch(bytes, u64::from_le_bytes(first), commit).map(Ok))
        };
        let read: io::Result<Option<Result<Taken, TableError>>> = read();
        let read = read.map_err(TableError::io("read", &path))?;
        found.extend(read.transpose()?);
    }
    found.sort_by_key(|taken| taken.first);
    Ok(found)
}

fn newer(path: &Path) -> TableError {
    TableError::Newer(format!(
        "{} has updates that a program of another version left behind; open the tables with that \
         one first",
        path.display()
    ))
}

/// Reads a batch; `None` if it is empty or not what was committed.
fn batch(bytes: Vec<u8>, first: u64, commit: u64) -> Option<Taken> {
    let mut sum = Sum::default();
    let (mut at, mut stamp) = (BATCH_HEADER_LEN, None);
    let (mut entries, mut highest_us) = (0, 0);
    while at < bytes.len() {
        let entry = Entry::read(&bytes, at, stamp)?;
        sum.add(sum_of(bytes.get(at..entry.end)?));
        stamp = Some(entry.stamp);
        highest_us = entry.stamp.at_us.max(highest_us);
        entries += 1;
        at = entry.end;
    }
    let is_whole = sum.commit(bytes.len() - BATCH_HEADER_LEN) == commit;
    (is_whole && entries > 0).then_some(Taken {
        bytes: bytes.into(),
        entries,
        first: LogPosition(first),
        highest_us,
        wanted: 0,
    })
}

/// Returns a file with these entries, as a process leaves it behind that was killed.
#[cfg(any(test, feature = "testing"))]
pub(super) fn left_with(entries: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; BATCH_HEADER_LEN];
    bytes.extend_from_slice(entries);
    let (mut sum, mut at, mut stamp) = (Sum::default(), BATCH_HEADER_LEN, None);
    while let Some(entry) = Entry::read(&bytes, at, stamp) {
        sum.add(sum_of(bytes.get(at..entry.end).unwrap_or_default()));
        (at, stamp) = (entry.end, Some(entry.stamp));
    }
    let head = [0, sum.commit(entries.len()), MAGIC].map(u64::to_le_bytes);
    [head.as_flattened(), entries].concat()
}

/// A running checksum of entries: of a few bytes each, as they come. It tells pages that were not
/// written from those that were, no more.
#[derive(Debug, Clone, Copy)]
struct Sum(u64);

impl Default for Sum {
    /// FORMAT: what no entries have.
    fn default() -> Self {
        Self(0x243f_6a88_85a3_08d3)
    }
}

impl Sum {
    /// FORMAT: for each entry: rotate to the left by 5, exclusive or with the entry's own sum, multiply.
    #[inline]
    fn add(&mut self, entry: u64) {
        self.0 = (self.0.rotate_left(5) ^ entry).wrapping_mul(FACTOR);
    }

    /// FORMAT: the length in the lower half, the sum's upper half in the upper.
    #[inline]
    fn commit(self, len: usize) -> u64 {
        self.0 & !u64::from(u32::MAX) | len as u64
    }
}
