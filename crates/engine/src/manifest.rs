//! The manifest: the one file that says which other files are the store. Replaced atomically.
//!
//! One line of magic, version and checksum, then JSON: an operator can read it at three in the
//! morning. Described in `docs/format/manifest.md`.

use std::path::{Path, PathBuf};

use hikyaku_vfs::Vfs;
use serde::{Deserialize, Serialize};

use crate::error::EngineError;

const FILE_NAME: &str = "MANIFEST";
const TEMPORARY_NAME: &str = "MANIFEST.tmp";
const MAGIC: &str = "hikyaku-manifest";
/// FORMAT: the version of the whole store. A newer one is refused.
pub(crate) const VERSION: u32 = 1;
/// A manifest names files, not events; beyond this it is no manifest.
const BYTES_MAX: u64 = 64 << 20;

/// What the store is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// The secret key of the term hashes, in hex.
    pub(crate) term_key: String,
    /// The segments, in no order that matters.
    pub(crate) segments: Vec<SegmentEntry>,
    /// The sealed log files that the segments cover.
    pub(crate) logs: Vec<LogEntry>,
    /// The first log file that is to be replayed: everything before it is in the segments and their
    /// tombstones. 0 until the first log file is there.
    pub(crate) replay_from: u32,
    /// Above every number that a segment or tombstone file has had.
    pub(crate) next_file: u64,
    /// Above every sequence in the log files before `replay_from`.
    pub(crate) next_sequence: u64,
    /// A position of the log before which everything was durable: damage there is corruption.
    pub(crate) log_durable: u64,
}

/// A segment file and its tombstones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SegmentEntry {
    /// The number in its file name.
    pub(crate) file: u64,
    /// The number of its tombstone file, if it has tombstones.
    pub(crate) tombstones: Option<u64>,
}

/// A sealed log file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogEntry {
    /// Its number.
    pub(crate) file: u32,
    /// How often it has been rewritten, from 1: the current generation.
    pub(crate) generation: u32,
    /// How many events it holds, dead ones included.
    pub(crate) events: u64,
    /// Since when (Unix seconds) it holds events that must be rewritten out of it within the stated
    /// time: vanished or purged ones.
    pub(crate) purge_since: Option<u64>,
}

impl Manifest {
    /// Reads the manifest of a store folder; `None` if there is none.
    pub(crate) fn read(disk: &dyn Vfs, dir: &Path) -> Result<Option<Self>, EngineError> {
        let path = dir.join(FILE_NAME);
        if !disk
            .exists(&path)
            .map_err(|error| failed("look for", &path, &error))?
        {
            return Ok(None);
        }
        let file = disk
            .open(&path)
            .map_err(|error| failed("open", &path, &error))?;
        let len = file.len().map_err(|error| failed("read", &path, &error))?;
        if len > BYTES_MAX {
            return Err(damaged(&path, 0, "a manifest", &format!("{len} bytes")));
        }
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, 0)
            .map_err(|error| failed("read", &path, &error))?;
        Self::parse(&path, &bytes).map(Some)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, EngineError> {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            return Err(damaged(path, 0, "a first line", "none"));
        };
        let (line, body) = bytes.split_at(end);
        let body = body.get(1..).unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let mut words = line.split(' ');
        if words.next() != Some(MAGIC) {
            return Err(damaged(path, 0, MAGIC, &line));
        }
        let Some(version) = words.next().and_then(|word| word.parse().ok()) else {
            return Err(damaged(path, MAGIC.len(), "a format version", &line));
        };
        // The checksum first: a damaged version is not a newer one.
        let expected = first_line(version, body);
        if line != expected.trim_end() {
            return Err(damaged(
                path,
                0,
                &format!("the line `{}`", expected.trim_end()),
                &line,
            ));
        }
        if version > VERSION {
            return Err(EngineError::Refused(format!(
                "{}: written by a newer version of this program (store format {version}, this one \
                 reads {VERSION}); use that version",
                path.display()
            )));
        }
        if version != VERSION {
            return Err(damaged(path, MAGIC.len(), "a format version from 1", &line));
        }
        serde_json::from_slice(body)
            .map_err(|error| damaged(path, end + 1, "the manifest's fields", &error.to_string()))
    }

    /// Writes the manifest in place of the one before; durable when it returns.
    pub(crate) fn write(&self, disk: &dyn Vfs, dir: &Path) -> Result<(), EngineError> {
        let body = serde_json::to_vec_pretty(self)
            .map_err(|error| EngineError::Unavailable(format!("manifest: {error}")))?;
        let mut bytes = first_line(VERSION, &body).into_bytes();
        bytes.extend_from_slice(&body);
        write_whole(disk, dir, TEMPORARY_NAME, FILE_NAME, &bytes)
    }
}

/// FORMAT: the first line, in all versions: magic, version, and the checksum of these two and the
/// body.
fn first_line(version: u32, body: &[u8]) -> String {
    let stated = format!("{MAGIC} {version}");
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(stated.as_bytes());
    checksum.update(b"\n");
    checksum.update(body);
    format!("{stated} {:08x}\n", checksum.finalize())
}

/// Removes the manifest, if there is one: the store does not open until it has a new one.
pub(crate) fn remove(disk: &dyn Vfs, dir: &Path) -> Result<(), EngineError> {
    let path = dir.join(FILE_NAME);
    let remove = || -> std::io::Result<()> {
        if disk.exists(&path)? {
            disk.remove(&path)?;
        }
        disk.sync_dir(dir)
    };
    remove().map_err(|error| failed("remove", &path, &error))
}

/// Writes a file so that it is there wholly or not at all: beside, synced, renamed, synced.
pub(crate) fn write_whole(
    disk: &dyn Vfs,
    dir: &Path,
    temporary: &str,
    name: &str,
    bytes: &[u8],
) -> Result<(), EngineError> {
    let beside = dir.join(temporary);
    let path = dir.join(name);
    let write = || -> std::io::Result<()> {
        if disk.exists(&beside)? {
            disk.remove(&beside)?;
        }
        let mut file = disk.create_new(&beside)?;
        file.write_all_at(bytes, 0)?;
        file.sync_data()?;
        disk.rename(&beside, &path)?;
        disk.sync_dir(dir)
    };
    write().map_err(|error| failed("write", &path, &error))
}

/// Describes an I/O error that may pass.
pub(crate) fn failed(action: &str, path: &Path, error: &std::io::Error) -> EngineError {
    EngineError::Unavailable(format!("can't {action} {}: {error}", path.display()))
}

fn damaged(path: &Path, offset: usize, expected: &str, found: &str) -> EngineError {
    EngineError::Corrupt(format!(
        "{} at offset {offset}: expected {expected}, found {found}; `hikyaku repair` rebuilds it \
         from the log",
        path.display()
    ))
}

/// The folders and names of a store's files.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) root: PathBuf,
}

impl Layout {
    pub(crate) fn log_dir(&self) -> PathBuf {
        self.root.join("log")
    }

    pub(crate) fn segment_dir(&self) -> PathBuf {
        self.root.join("segments")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("LOCK")
    }

    pub(crate) fn segment_name(file: u64) -> String {
        format!("{file:08}.segment")
    }

    pub(crate) fn tombstones_name(file: u64) -> String {
        format!("{file:08}.tombstones")
    }
}

#[cfg(test)]
mod tests {
    use hikyaku_vfs::RealDisk;

    use super::*;

    fn sample() -> Manifest {
        Manifest {
            term_key: "00112233445566778899aabbccddeeff".into(),
            segments: vec![SegmentEntry {
                file: 3,
                tombstones: Some(4),
            }],
            logs: vec![LogEntry {
                file: 1,
                generation: 2,
                events: 10,
                purge_since: Some(5),
            }],
            replay_from: 2,
            next_file: 5,
            next_sequence: 11,
            log_durable: 1 << 33,
        }
    }

    #[test]
    fn a_manifest_reads_back_and_every_flipped_bit_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let disk = RealDisk;
        assert_eq!(Manifest::read(&disk, folder.path()).unwrap(), None);
        sample().write(&disk, folder.path()).unwrap();
        sample().write(&disk, folder.path()).unwrap();
        assert_eq!(
            Manifest::read(&disk, folder.path()).unwrap(),
            Some(sample())
        );
        let path = folder.path().join(FILE_NAME);
        let bytes = std::fs::read(&path).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &flipped).unwrap();
            let read = Manifest::read(&disk, folder.path());
            assert!(
                matches!(read, Err(EngineError::Corrupt(_))),
                "bit {bit}: {read:?}"
            );
        }
    }

    #[test]
    fn a_newer_version_is_refused_with_advice() {
        let text = first_line(VERSION + 1, b"{}") + "{}";
        let error = Manifest::parse(Path::new("MANIFEST"), text.as_bytes()).unwrap_err();
        assert!(
            matches!(error, EngineError::Refused(ref text) if text.contains("newer")),
            "{error}"
        );
    }
}
