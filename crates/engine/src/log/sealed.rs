//! A sealed file: mapped, never to change again, read by position.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use hikyaku_store::Sequence;
use hikyaku_vfs::Vfs;

use super::{
    error::LogError,
    frame::Frame,
    header::{FileHeader, HEADER_LEN, file_path},
    number::u32_at,
    position::LogPosition,
    record::Record,
    scan::{Scan, decode},
};

/// FORMAT: the last bytes of a rewritten file: magic, where the table begins, how many entries it
/// has, its checksum, and the footer's.
pub(super) const FOOTER_LEN: usize = 24;
pub(super) const FOOTER_MAGIC: [u8; 8] = *b"HIKYUTAB";

/// FORMAT: an entry of the table: the old offset, the new one.
pub(super) const ENTRY_LEN: usize = 8;

/// A sealed file. Cheap to clone; the mapping lives as long as a clone or a record read from it.
#[derive(Debug, Clone)]
pub(crate) struct SealedLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    header: FileHeader,
    bytes: Bytes,
    table: Option<Table>,
}

/// Where the records of a rewritten file were, sorted, and where they are now.
#[derive(Debug)]
struct Table {
    bytes: Bytes,
    /// Where it begins in the file.
    at: usize,
    crc: u32,
    /// Whether the checksum was right, once somebody has looked.
    intact: OnceLock<bool>,
}

impl SealedLog {
    /// Maps a sealed file and checks its header and footer; records are checked when they are read.
    pub(crate) fn open(
        disk: &dyn Vfs,
        dir: &Path,
        file: u32,
        generation: u32,
    ) -> Result<Self, LogError> {
        let path = file_path(dir, file, generation);
        let bytes = disk.map(&path).map_err(LogError::io("map", &path))?;
        Self::from_bytes(path, bytes, file, generation)
    }

    pub(super) fn from_bytes(
        path: PathBuf,
        bytes: Bytes,
        file: u32,
        generation: u32,
    ) -> Result<Self, LogError> {
        let header = FileHeader::decode(&bytes, &path, file, generation)?;
        let table = (generation > 1)
            .then(|| Table::read(&bytes, &path))
            .transpose()?;
        Ok(Self(Arc::new(Inner {
            path,
            header,
            bytes,
            table,
        })))
    }

    /// Returns the file's number.
    pub(crate) fn file(&self) -> u32 {
        self.0.header.file
    }

    /// Returns the file's generation: 1 as first written; each rewriting adds 1.
    pub(crate) fn generation(&self) -> u32 {
        self.0.header.generation
    }

    /// Returns the file's length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.0.bytes.len() as u64
    }

    /// Returns the file's path.
    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Reads the record at a position of this file, checksum verified. An event's JSON is a slice of
    /// the mapping.
    pub(crate) fn read(&self, offset: u32) -> Result<(Sequence, Record), LogError> {
        let Inner { path, bytes, .. } = &*self.0;
        let at = match &self.0.table {
            None => offset as usize,
            Some(table) => table.find(offset, path)?,
        };
        let records = bytes.get(..self.records_end()).unwrap_or_default();
        let damaged =
            |expected: String, found: String| LogError::corrupt(path, at, expected, found);
        let frame = Frame::read(records, at, self.file())
            .map_err(|damage| damaged(damage.expected(), damage.to_string()))?;
        if frame.offset != offset {
            return Err(damaged(
                format!("a record of offset {offset}"),
                format!("a record of offset {}", frame.offset),
            ));
        }
        Ok((frame.sequence, decode(bytes, &frame, path)?))
    }

    /// Hands over all records in order; the first damage is an error.
    pub(crate) fn read_all<E: From<LogError>>(
        &self,
        mut visit: impl FnMut(LogPosition, Sequence, Record) -> Result<(), E>,
    ) -> Result<Sequence, E> {
        self.check_table()?;
        let mut scan = self.scan();
        while !scan.is_at_end() {
            let frame = scan.next_frame().map_err(|damage| {
                LogError::corrupt(self.path(), scan.at(), damage.expected(), damage)
            })?;
            let (position, sequence, record) = scan.decode(&frame, self.path())?;
            visit(position, sequence, record)?;
        }
        Ok(scan.last_sequence())
    }

    pub(super) fn header(&self) -> &FileHeader {
        &self.0.header
    }

    /// Returns the length at which the file was sealed, which the next file's header states.
    pub(super) fn sealed_len(&self) -> u64 {
        if self.0.table.is_some() {
            u64::from(self.0.header.sealed_len)
        } else {
            self.len()
        }
    }

    pub(super) fn scan(&self) -> Scan {
        let bytes = self.0.bytes.slice(..self.records_end());
        let below_first = Sequence(self.0.header.first_sequence.0.saturating_sub(1));
        let rewritten = self.0.table.is_some();
        Scan::new(bytes, self.file(), rewritten, HEADER_LEN, below_first)
    }

    /// Checks the table of a rewritten file; fine if it has none.
    pub(super) fn check_table(&self) -> Result<(), LogError> {
        self.0
            .table
            .as_ref()
            .map_or(Ok(()), |table| table.check(self.path()))
    }

    fn records_end(&self) -> usize {
        self.0
            .table
            .as_ref()
            .map_or(self.0.bytes.len(), |table| table.at)
    }
}

impl Table {
    fn read(file: &Bytes, path: &Path) -> Result<Self, LogError> {
        let footer_at = file.len().saturating_sub(FOOTER_LEN);
        let footer = file.slice(footer_at..);
        let damaged = |found: &str| LogError::corrupt(path, footer_at, "a whole footer", found);
        let fields = (|| {
            Some((
                u32_at(&footer, 8)?,
                u32_at(&footer, 12)?,
                u32_at(&footer, 16)?,
                u32_at(&footer, 20)?,
            ))
        })();
        let (at, count, crc, footer_crc) = fields.ok_or_else(|| damaged("too few bytes"))?;
        let covered = footer.get(..FOOTER_LEN - 4).unwrap_or_default();
        if !covered.starts_with(&FOOTER_MAGIC) || crc32fast::hash(covered) != footer_crc {
            return Err(damaged("a wrong magic or checksum"));
        }
        let at = at as usize;
        if at < HEADER_LEN || at.checked_add(count as usize * ENTRY_LEN) != Some(footer_at) {
            return Err(damaged("a table of another length"));
        }
        Ok(Self {
            bytes: file.slice(at..footer_at),
            at,
            crc,
            intact: OnceLock::new(),
        })
    }

    fn len(&self) -> usize {
        self.bytes.len() / ENTRY_LEN
    }

    fn entry(&self, index: usize) -> Option<(u32, u32)> {
        let at = index * ENTRY_LEN;
        u32_at(&self.bytes, at).zip(u32_at(&self.bytes, at + 4))
    }

    fn check(&self, path: &Path) -> Result<(), LogError> {
        let is_intact = || crc32fast::hash(&self.bytes) == self.crc;
        if *self.intact.get_or_init(is_intact) {
            return Ok(());
        }
        Err(LogError::corrupt(
            path,
            self.at,
            format_args!("a table with checksum {:08x}", self.crc),
            format_args!("checksum {:08x}", crc32fast::hash(&self.bytes)),
        ))
    }

    /// Finds where the record that was written at `offset` is now.
    fn find(&self, offset: u32, path: &Path) -> Result<usize, LogError> {
        self.check(path)?;
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry(middle) {
                Some((old, new)) if old == offset => return Ok(new as usize),
                Some((old, _)) if old < offset => low = middle + 1,
                _ => high = middle,
            }
        }
        Err(LogError::corrupt(
            path,
            self.at,
            format_args!("the record of offset {offset}"),
            "a file that was rewritten without it",
        ))
    }
}
