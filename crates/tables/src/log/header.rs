//! The head of a log file, and the files' names.

use std::path::{Path, PathBuf};

use super::{
    batch::ALIGNMENT,
    number::{put, put_varint, u32_at, u64_at, varint_at},
    options::LogPosition,
};
use crate::TableError;

/// FORMAT: the version of the files that this program writes, and the newest it reads.
const VERSION: u32 = 1;

/// FORMAT: in all versions a file begins with the magic and the version.
const MAGIC: [u8; 8] = *b"HIKYUUPD";

/// FORMAT: the length of the part before the tables' names.
const FIXED_LEN: usize = 48;

/// The longest header in bytes: it bounds what a damaged length can ask for.
pub(super) const HEADER_LEN_MAX: usize = 1 << 20;

/// What a log file says about itself and what is before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileHeader {
    /// Its number, from 1.
    pub(super) file: u32,
    /// Who wrote it.
    pub(super) server: u32,
    /// The length at which the file before it was sealed; 0 if there was none.
    pub(super) previous_len: u32,
    /// The position of its first entry.
    pub(super) first: LogPosition,
    /// The highest time of all stamps before it.
    pub(super) highest_before_us: u64,
    /// The tables' names, by the numbers that its entries use.
    pub(super) tables: Vec<String>,
}

impl FileHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; FIXED_LEN];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        put(&mut bytes, 16, &self.file.to_le_bytes());
        put(&mut bytes, 20, &self.server.to_le_bytes());
        put(&mut bytes, 24, &self.previous_len.to_le_bytes());
        put(&mut bytes, 28, &(self.tables.len() as u32).to_le_bytes());
        put(&mut bytes, 32, &self.first.0.to_le_bytes());
        put(&mut bytes, 40, &self.highest_before_us.to_le_bytes());
        for name in &self.tables {
            put_varint(&mut bytes, name.len() as u32);
            bytes.extend_from_slice(name.as_bytes());
        }
        bytes.resize((bytes.len() + 4).next_multiple_of(ALIGNMENT) - 4, 0);
        let len = (bytes.len() + 4) as u32;
        put(&mut bytes, 12, &len.to_le_bytes());
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the length that a header states of itself.
    pub(super) fn stated_len(bytes: &[u8]) -> usize {
        let stated = u32_at(bytes, 12).unwrap_or(0) as usize;
        stated.clamp(FIXED_LEN + 8, HEADER_LEN_MAX)
    }

    /// Reads the header of a file that should have this number, and its length.
    pub(super) fn decode(
        bytes: &[u8],
        path: &Path,
        file: u32,
    ) -> Result<(Self, usize), TableError> {
        if !bytes.starts_with(&MAGIC) {
            let found = bytes.get(..MAGIC.len()).unwrap_or(bytes).escape_ascii();
            return Err(TableError::corrupt(path, 0, MAGIC.escape_ascii(), found));
        }
        let len = Self::stated_len(bytes);
        let checked = bytes.get(..len - 4).unwrap_or_default();
        let Some((version, stated)) = u32_at(checked, 8).zip(u32_at(bytes, len - 4)) else {
            let expected = format_args!("a header of {len} bytes");
            let found = format_args!("{} bytes", bytes.len());
            return Err(TableError::corrupt(path, 0, expected, found));
        };
        let computed = crc32fast::hash(checked);
        if stated != computed {
            return Err(TableError::corrupt(
                path,
                0,
                format_args!("a header with checksum {computed:08x}"),
                format_args!("checksum {stated:08x}"),
            ));
        }
        if version > VERSION {
            return Err(TableError::Newer(format!(
                "{} has update log format version {version}, but this program reads no later than \
                 {VERSION}; use the program that wrote it, or a newer one",
                path.display()
            )));
        }
        match Self::fields(checked) {
            Some(header) if version > 0 && header.file == file => Ok((header, len)),
            header => Err(TableError::corrupt(
                path,
                0,
                format_args!("the header of file {file}"),
                header.map_or("another".to_owned(), |header| {
                    format!("that of file {}", header.file)
                }),
            )),
        }
    }

    fn fields(bytes: &[u8]) -> Option<Self> {
        let mut header = Self {
            file: u32_at(bytes, 16)?,
            server: u32_at(bytes, 20)?,
            previous_len: u32_at(bytes, 24)?,
            first: LogPosition(u64_at(bytes, 32)?),
            highest_before_us: u64_at(bytes, 40)?,
            tables: Vec::new(),
        };
        let mut at = FIXED_LEN;
        for _ in 0..u32_at(bytes, 28)? {
            let len = varint_at(bytes, &mut at)? as usize;
            let name = bytes.get(at..at.checked_add(len)?)?;
            at += len;
            header
                .tables
                .push(std::str::from_utf8(name).ok()?.to_owned());
        }
        Some(header)
    }
}

/// Returns a file's name: `00000007.updates`.
pub(super) fn file_path(dir: &Path, file: u32) -> PathBuf {
    dir.join(format!("{file:08}.updates"))
}

/// Returns the name that a file has until it is finished.
pub(super) fn unfinished(path: &Path) -> PathBuf {
    path.with_added_extension("tmp")
}

/// Returns the number of the log file that a name stands for.
pub(super) fn parse_name(name: &Path) -> Option<u32> {
    let text = name.to_str()?;
    let file = text.strip_suffix(".updates")?.parse().ok()?;
    (*file_path(Path::new(""), file) == *name).then_some(file)
}
