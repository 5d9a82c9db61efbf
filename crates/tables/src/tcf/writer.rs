//! Writes a `.tcf` file.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use hikyaku_vfs::{File, Vfs};

use super::header::{ByteOrder, HEADER_LEN, TcfHeader, length_len, record_len};
use crate::TableError;

/// How much is gathered before it is written.
const BLOCK: usize = 256 << 10;
/// Upstream keeps widths and lengths in signed 32 bits.
const WIDTH_MAX: u32 = i32::MAX as u32;
/// Upstream keeps offsets in signed 64 bits; beyond this a file can't be.
const FILE_BYTES_MAX: u64 = 1 << 56;

/// Writes a new `.tcf` file. Until [`TcfWriter::finish`] it has no header, so that a file that was
/// not finished is not taken for one.
pub struct TcfWriter {
    path: PathBuf,
    file: Box<dyn File>,
    byte_order: ByteOrder,
    width: u32,
    /// What is to be written at `block_at`.
    block: Vec<u8>,
    block_at: u64,
    count: u64,
    min: u64,
    max: u64,
}

impl fmt::Debug for TcfWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcfWriter")
            .field("path", &self.path)
            .field("width", &self.width)
            .finish_non_exhaustive()
    }
}

impl TcfWriter {
    /// Creates a file, which must not exist, for values of up to `width` bytes.
    pub fn create(
        disk: &dyn Vfs,
        path: &Path,
        byte_order: ByteOrder,
        width: u32,
    ) -> Result<Self, TableError> {
        if !(1..=WIDTH_MAX).contains(&width) {
            return Err(TableError::Syntax(format!(
                "the width of a .tcf file is from 1 to {WIDTH_MAX}"
            )));
        }
        Ok(Self {
            path: path.to_owned(),
            file: disk.create_new(path)?,
            byte_order,
            width,
            block: Vec::with_capacity(BLOCK),
            block_at: HEADER_LEN,
            count: 0,
            min: 0,
            max: 0,
        })
    }

    /// Writes a record. Each key comes once; in ascending order is quickest.
    pub fn push(&mut self, key: u64, value: &[u8]) -> Result<(), TableError> {
        let record = record_len(self.width);
        if key == 0 {
            return Err(TableError::KeyNotANumber);
        }
        let limit = (FILE_BYTES_MAX - HEADER_LEN) / record;
        if key > limit {
            return Err(TableError::KeyTooLarge { limit });
        }
        if value.len() > self.width as usize {
            return Err(TableError::ValueTooLong {
                limit: self.width as usize,
            });
        }
        let at = HEADER_LEN + (key - 1) * record;
        if at != self.block_at + self.block.len() as u64 || self.block.len() >= BLOCK {
            self.flush()?;
            self.block_at = at;
        }
        let end = self.block.len() + record as usize;
        let length = (value.len() as u64, length_len(self.width));
        self.block.extend(self.byte_order.bytes(length.0, length.1));
        self.block.extend_from_slice(value);
        if value.is_empty() {
            self.block.push(1);
        }
        self.block.resize(end, 0);
        self.count += 1;
        self.min = if self.min == 0 {
            key
        } else {
            self.min.min(key)
        };
        self.max = self.max.max(key);
        Ok(())
    }

    /// Writes the header and makes all durable.
    pub fn finish(mut self, disk: &dyn Vfs) -> Result<TcfHeader, TableError> {
        self.flush()?;
        let header = TcfHeader::of(self.byte_order, self.width, self.count, self.min, self.max);
        self.file.write_all_at(&header.to_bytes(), 0)?;
        self.file.sync_data()?;
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty());
        disk.sync_dir(dir.unwrap_or(Path::new(".")))?;
        Ok(header)
    }

    fn flush(&mut self) -> Result<(), TableError> {
        if !self.block.is_empty() {
            self.file.write_all_at(&self.block, self.block_at)?;
            self.block_at += self.block.len() as u64;
            self.block.clear();
        }
        Ok(())
    }
}
