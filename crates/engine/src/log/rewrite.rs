//! Reclaiming a sealed file: a new generation of it with some records left out.

use std::path::Path;

use hikyaku_store::Sequence;
use hikyaku_vfs::{Disk, File};

use super::{
    error::LogError,
    header::{FileHeader, file_path, unfinished},
    record::Record,
    sealed::{FOOTER_MAGIC, SealedLog},
};

/// How much is gathered before it is written.
const WRITE_BYTES: usize = 1 << 20;

/// Writes a new generation of a sealed file with the records that `keep` says yes to. Positions of
/// these stay valid. The old generation stays until [`remove`]; the new one counts from when the
/// manifest names it, and is removed by the next recovery if that never happens.
pub(crate) fn rewrite(
    disk: &Disk,
    sealed: &SealedLog,
    generation: u32,
    mut keep: impl FnMut(Sequence, &Record) -> bool,
) -> Result<SealedLog, LogError> {
    assert!(
        generation > sealed.generation(),
        "a rewritten file has a later generation"
    );
    let dir = sealed.path().parent().unwrap_or(Path::new(""));
    let path = file_path(dir, sealed.file(), generation);
    let header = FileHeader {
        generation,
        sealed_len: sealed.sealed_len() as u32,
        ..*sealed.header()
    };
    let result = Output::begin(disk, &path, &header).and_then(|mut output| {
        let mut scan = sealed.scan();
        while !scan.is_at_end() {
            let frame = scan.next_frame().map_err(|damage| {
                LogError::corrupt(sealed.path(), scan.at(), damage.expected(), damage)
            })?;
            let (position, sequence, record) = scan.decode(&frame, sealed.path())?;
            if keep(sequence, &record) {
                let bytes = scan.bytes().get(frame.start..frame.end).unwrap_or_default();
                output.put_record(position.offset, bytes)?;
            }
        }
        output.finish()?;
        let named = disk.rename(&unfinished(&path), &path);
        named
            .and_then(|()| disk.sync_dir(dir))
            .map_err(LogError::io("name", &path))
    });
    result.inspect_err(|_| {
        // Whatever is left of it, the next recovery removes too.
        let _ = disk.remove(&unfinished(&path));
    })?;
    SealedLog::open(&**disk, dir, sealed.file(), generation)
}

/// Removes a generation that the manifest no longer names, if it is still there. Whoever still reads
/// it can go on.
pub(crate) fn remove(disk: &Disk, sealed: &SealedLog) -> Result<(), LogError> {
    let path = sealed.path();
    let dir = path.parent().unwrap_or(Path::new(""));
    let remove = || {
        if disk.exists(path)? {
            disk.remove(path)?;
        }
        disk.sync_dir(dir)
    };
    remove().map_err(LogError::io("remove", path))
}

/// The new generation under way.
struct Output<'a> {
    path: &'a Path,
    file: Box<dyn File>,
    buffer: Vec<u8>,
    /// Where the buffer will be.
    at: usize,
    /// Pairs of the old offset and the new one.
    table: Vec<u8>,
}

impl<'a> Output<'a> {
    fn begin(disk: &Disk, path: &'a Path, header: &FileHeader) -> Result<Self, LogError> {
        let unfinished = unfinished(path);
        let create = || {
            if disk.exists(&unfinished)? {
                disk.remove(&unfinished)?;
            }
            disk.create_new(&unfinished)
        };
        Ok(Self {
            path,
            file: create().map_err(LogError::io("create", &unfinished))?,
            buffer: header.encode(),
            at: 0,
            table: Vec::new(),
        })
    }

    fn put_record(&mut self, old_offset: u32, bytes: &[u8]) -> Result<(), LogError> {
        let new_offset = self.end() as u32;
        self.table.extend_from_slice(&old_offset.to_le_bytes());
        self.table.extend_from_slice(&new_offset.to_le_bytes());
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), LogError> {
        let table_at = self.end() as u32;
        let count = (self.table.len() / 8) as u32;
        let table_crc = crc32fast::hash(&self.table);
        self.buffer.append(&mut self.table);
        let mut footer = FOOTER_MAGIC.to_vec();
        for number in [table_at, count, table_crc] {
            footer.extend_from_slice(&number.to_le_bytes());
        }
        let footer_crc = crc32fast::hash(&footer);
        footer.extend_from_slice(&footer_crc.to_le_bytes());
        self.buffer.append(&mut footer);
        self.flush()?;
        self.file
            .sync_data()
            .map_err(LogError::io("sync", self.path))
    }

    fn flush(&mut self) -> Result<(), LogError> {
        let written = self.file.write_all_at(&self.buffer, self.at as u64);
        written.map_err(LogError::io("write", self.path))?;
        self.at += self.buffer.len();
        self.buffer.clear();
        Ok(())
    }

    fn end(&self) -> usize {
        self.at + self.buffer.len()
    }
}
