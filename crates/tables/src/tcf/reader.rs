//! Reads the records of a `.tcf` file in order, whatever is in it.

use std::{
    io,
    path::{Path, PathBuf},
};

use hikyaku_vfs::{File, Vfs};

use super::header::{HEADER_LEN, TcfHeader, length_len, record_len};
use crate::TableError;

/// How much is read at a time. A record that is larger is read by itself.
const BLOCK: u64 = 256 << 10;

/// Reads a `.tcf` file. What a file that was not closed says of its records is not believed: they
/// are found by looking at all.
pub struct TcfReader {
    path: PathBuf,
    file: Box<dyn File>,
    header: TcfHeader,
    /// Whole records that the file has room for.
    places: u64,
    /// The next key to look at.
    next: u64,
    /// The block of records from `block_first` on.
    block: Vec<u8>,
    block_first: u64,
    found: u64,
}

impl std::fmt::Debug for TcfReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcfReader")
            .field("path", &self.path)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

impl TcfReader {
    /// Opens a file.
    pub fn open(disk: &dyn Vfs, path: &Path) -> Result<Self, TableError> {
        let file = disk.open(path)?;
        let len = file.len()?;
        let mut bytes = [0; 256];
        file.read_exact_at(&mut bytes, 0).map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                TableError::Corrupt(format!(
                    "{} has {len} bytes, fewer than a header's 256",
                    path.display()
                ))
            } else {
                TableError::Io(error)
            }
        })?;
        let header = TcfHeader::parse(&bytes, path)?;
        if len < header.file_bytes {
            return Err(TableError::Corrupt(format!(
                "{} is cut: it has {len} bytes, and its header says {}",
                path.display(),
                header.file_bytes
            )));
        }
        let mut transaction = path.as_os_str().to_owned();
        transaction.push(".wal");
        if !header.closed && disk.exists(Path::new(&transaction))? {
            return Err(TableError::Corrupt(format!(
                "{} has an unfinished transaction beside it ({}): let `tcfmgr inform` roll it back \
                 first",
                path.display(),
                Path::new(&transaction).display()
            )));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            header,
            places: len.saturating_sub(HEADER_LEN) / record_len(header.width),
            next: 1,
            block: Vec::new(),
            block_first: 1,
            found: 0,
        })
    }

    /// Returns what the file says of itself.
    pub const fn header(&self) -> &TcfHeader {
        &self.header
    }

    /// Reads the next record: returns its key and replaces what is in `value`. `None`: no more. At
    /// the end of a closed file the records found must be as many as the header says.
    pub fn next(&mut self, value: &mut Vec<u8>) -> Result<Option<u64>, TableError> {
        while self.next <= self.places {
            let key = self.next;
            self.next += 1;
            if self.read(key, value)? {
                self.found += 1;
                return Ok(Some(key));
            }
        }
        if self.header.closed && self.found != self.header.count {
            return Err(TableError::Corrupt(format!(
                "{} has {} records, and its header at byte 48 says {}",
                self.path.display(),
                self.found,
                self.header.count
            )));
        }
        Ok(None)
    }

    /// Tells whether there is a record, and reads it.
    fn read(&mut self, key: u64, value: &mut Vec<u8>) -> Result<bool, TableError> {
        let width = self.header.width;
        let record = record_len(width);
        if record > BLOCK {
            return self.read_large(key, value);
        }
        let index = key - self.block_first;
        let mut at = (index * record) as usize;
        if at >= self.block.len() {
            let records = (BLOCK / record).min(self.places - key + 1);
            self.block.resize((records * record) as usize, 0);
            let offset = HEADER_LEN + (key - 1) * record;
            self.file.read_exact_at(&mut self.block, offset)?;
            self.block_first = key;
            at = 0;
        }
        let bytes = self.block.get(at..).unwrap_or_default();
        let (length, rest) = bytes
            .split_at_checked(length_len(width))
            .unwrap_or_default();
        let len = self.header.byte_order.number(length);
        if len == 0 && rest.first() == Some(&0) {
            return Ok(false);
        }
        self.check_length(key, len)?;
        value.clear();
        value.extend_from_slice(rest.get(..len as usize).unwrap_or_default());
        Ok(true)
    }

    fn read_large(&self, key: u64, value: &mut Vec<u8>) -> Result<bool, TableError> {
        let width = self.header.width;
        let offset = HEADER_LEN + (key - 1) * record_len(width);
        let mut start = [0; 5];
        self.file.read_exact_at(&mut start, offset)?;
        let (length, first) = start.split_at(length_len(width));
        let len = self.header.byte_order.number(length);
        if len == 0 && first.first() == Some(&0) {
            return Ok(false);
        }
        self.check_length(key, len)?;
        // The file is as long as this: a header that lies makes nobody allocate more than that.
        value.clear();
        value.resize(len as usize, 0);
        self.file
            .read_exact_at(value, offset + length.len() as u64)?;
        Ok(true)
    }

    fn check_length(&self, key: u64, len: u64) -> Result<(), TableError> {
        if len <= u64::from(self.header.width) {
            return Ok(());
        }
        Err(TableError::Corrupt(format!(
            "{}: record {key} at byte {} has a length of {len}, and the width is {}",
            self.path.display(),
            HEADER_LEN + (key - 1) * record_len(self.header.width),
            self.header.width
        )))
    }
}
