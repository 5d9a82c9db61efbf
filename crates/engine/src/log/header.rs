//! The head of a log file, and the files' names.

use std::path::{Path, PathBuf};

use hikyaku_store::Sequence;

use super::{
    error::LogError,
    number::{u32_at, u64_at},
};

/// FORMAT: the version of the files that this program writes, and the newest it reads.
pub(super) const VERSION: u32 = 1;

/// FORMAT: in all versions a file begins with the magic and the version.
const MAGIC: [u8; 8] = *b"HIKYULOG";

/// FORMAT: the header's length in bytes, its checksum included.
pub(super) const HEADER_LEN: usize = 48;

/// FORMAT: where the checksum of all before it stands.
const CRC_AT: usize = HEADER_LEN - 4;

/// What a log file says about itself and the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileHeader {
    /// Its number, from 1.
    pub(super) file: u32,
    /// 1 as first written; each rewriting adds 1.
    pub(super) generation: u32,
    /// The length at which the file before it was sealed, in its first generation; 0 in file 1.
    pub(super) previous_len: u32,
    /// The length at which this file was sealed, if it was rewritten since; else 0.
    pub(super) sealed_len: u32,
    /// The lowest sequence that a record of this file can have.
    pub(super) first_sequence: Sequence,
}

impl FileHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_LEN);
        bytes.extend_from_slice(&MAGIC);
        for number in [
            VERSION,
            self.file,
            self.generation,
            self.previous_len,
            self.sealed_len,
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.first_sequence.0.to_le_bytes());
        bytes.resize(CRC_AT, 0);
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header of a file that should have this number and generation.
    pub(super) fn decode(
        bytes: &[u8],
        path: &Path,
        file: u32,
        generation: u32,
    ) -> Result<Self, LogError> {
        if !bytes.starts_with(&MAGIC) {
            let found = bytes.get(..MAGIC.len()).unwrap_or(bytes).escape_ascii();
            return Err(LogError::corrupt(path, 0, MAGIC.escape_ascii(), found));
        }
        let checked = bytes.get(..CRC_AT).unwrap_or_default();
        let header = Self::fields(checked).zip(u32_at(bytes, CRC_AT));
        let Some(((version, header), stated)) = header else {
            let found = format_args!("{} bytes", bytes.len());
            return Err(LogError::corrupt(path, 0, "a header of 48 bytes", found));
        };
        let computed = crc32fast::hash(checked);
        if stated != computed {
            return Err(LogError::corrupt(
                path,
                0,
                format_args!("a header with checksum {computed:08x}"),
                format_args!("checksum {stated:08x}"),
            ));
        }
        if version > VERSION {
            let path = path.to_path_buf();
            return Err(LogError::Newer { path, version });
        }
        let names = (header.file, header.generation);
        if version == 0 || names != (file, generation) {
            return Err(LogError::corrupt(
                path,
                0,
                format_args!("file {file}, generation {generation}"),
                format_args!("file {}, generation {}", names.0, names.1),
            ));
        }
        Ok(header)
    }

    fn fields(bytes: &[u8]) -> Option<(u32, Self)> {
        let version = u32_at(bytes, 8)?;
        let header = Self {
            file: u32_at(bytes, 12)?,
            generation: u32_at(bytes, 16)?,
            previous_len: u32_at(bytes, 20)?,
            sealed_len: u32_at(bytes, 24)?,
            first_sequence: Sequence(u64_at(bytes, 32)?),
        };
        Some((version, header))
    }
}

/// Returns a file's name: `00000007.log`, or `00000007.2.log` for a later generation.
pub(super) fn file_path(dir: &Path, file: u32, generation: u32) -> PathBuf {
    dir.join(if generation == 1 {
        format!("{file:08}.log")
    } else {
        format!("{file:08}.{generation}.log")
    })
}

/// Returns the name that a file has until it is finished.
pub(super) fn unfinished(path: &Path) -> PathBuf {
    path.with_added_extension("tmp")
}

/// What a name in the log's folder means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileName {
    /// A log file.
    Log { file: u32, generation: u32 },
    /// A file that was never finished.
    Unfinished,
    /// Cut bytes that were kept aside, or something that is not ours.
    Other,
}

/// Returns the file number and generation that a name in the log's folder stands for.
pub(crate) fn parse_name(name: &Path) -> Option<(u32, u32)> {
    match FileName::parse(name) {
        FileName::Log { file, generation } => Some((file, generation)),
        FileName::Unfinished | FileName::Other => None,
    }
}

impl FileName {
    pub(super) fn parse(name: &Path) -> Self {
        let name = name.to_string_lossy();
        if name.ends_with(".tmp") {
            return Self::Unfinished;
        }
        let numbers = name.strip_suffix(".log").and_then(|stem| {
            let (file, generation) = stem.split_once('.').unwrap_or((stem, "1"));
            Some((file.parse().ok()?, generation.parse().ok()?))
        });
        match numbers {
            Some((file, generation)) if *file_path(Path::new(""), file, generation) == *name => {
                Self::Log { file, generation }
            }
            _ => Self::Other,
        }
    }
}
