//! The checkpoint's file: up to where the log is in the tables.

use std::{collections::BTreeMap, path::Path};

use hikyaku_vfs::Disk;

use crate::{
    LogPosition, TableError,
    log::{Applied, Known},
};

/// FORMAT: the version that this program writes, and the newest it reads.
const VERSION: u32 = 1;

/// FORMAT: in all versions the file begins with the magic and the version, and ends with a checksum.
const MAGIC: [u8; 8] = *b"HIKYUCHK";

/// FORMAT: the flag that there were updates which the log was not told of.
const FLAG_UNLOGGED: u32 = 1;

/// The file's name in the tables' folder.
const NAME: &str = "checkpoint";

/// The longest file that is read: some 40,000 sources.
const LEN_MAX: u64 = 1 << 20;

/// What a set of tables knew of its log when all tables were last synced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// What a recovery starts from.
    pub(crate) known: Known,
    /// How far the updates of other servers are in the tables, by the server.
    pub(crate) applied: BTreeMap<u32, Applied>,
}

impl Checkpoint {
    /// Reads the checkpoint of a folder; `None` if there is none.
    pub(crate) fn read(disk: &Disk, folder: &Path) -> Result<Option<Self>, TableError> {
        let path = folder.join(NAME);
        let read = || {
            if !disk.exists(&path)? {
                return Ok(None);
            }
            let file = disk.open(&path)?;
            let mut bytes = vec![0; file.len()?.min(LEN_MAX) as usize];
            file.read_exact_at(&mut bytes, 0)?;
            Ok(Some(bytes))
        };
        let bytes = read().map_err(TableError::io("read", &path))?;
        bytes.map(|bytes| Self::decode(&bytes, &path)).transpose()
    }

    /// Writes the checkpoint durably, in the place of the one before.
    pub(crate) fn write(&self, disk: &Disk, folder: &Path) -> Result<(), TableError> {
        replace(disk, folder, NAME, &self.encode())
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let flags = if self.known.unlogged {
            FLAG_UNLOGGED
        } else {
            0
        };
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.extend_from_slice(&self.known.position.0.to_le_bytes());
        bytes.extend_from_slice(&self.known.file.to_le_bytes());
        bytes.extend_from_slice(&(self.applied.len() as u32).to_le_bytes());
        for applied in self.applied.values() {
            bytes.extend_from_slice(&applied.source.to_le_bytes());
            bytes.extend_from_slice(&applied.position.to_le_bytes());
            bytes.extend_from_slice(&applied.at_us.to_le_bytes());
        }
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Self, TableError> {
        if !bytes.starts_with(&MAGIC) {
            let found = bytes.get(..MAGIC.len()).unwrap_or(bytes).escape_ascii();
            return Err(TableError::corrupt(path, 0, MAGIC.escape_ascii(), found));
        }
        let (checked, stated) = bytes.split_last_chunk().unwrap_or((&[], &[0; 4]));
        let (stated, computed) = (u32::from_le_bytes(*stated), crc32fast::hash(checked));
        if stated != computed {
            return Err(TableError::corrupt(
                path,
                0,
                format_args!("a checkpoint with checksum {computed:08x}"),
                format_args!("checksum {stated:08x}"),
            ));
        }
        let mut rest = checked.get(MAGIC.len()..).unwrap_or_default();
        let version = take_u32(&mut rest).unwrap_or(0);
        if version > VERSION {
            return Err(TableError::Newer(format!(
                "{} has checkpoint format version {version}, but this program reads no later than \
                 {VERSION}; use the program that wrote it, or a newer one",
                path.display()
            )));
        }
        Self::fields(rest).filter(|_| version > 0).ok_or_else(|| {
            let found = format_args!("{} bytes", bytes.len());
            TableError::corrupt(path, 0, "a checkpoint of version 1", found)
        })
    }

    fn fields(mut rest: &[u8]) -> Option<Self> {
        let flags = take_u32(&mut rest)?;
        let known = Known {
            position: LogPosition(take_u64(&mut rest)?),
            file: take_u32(&mut rest)?,
            unlogged: flags & FLAG_UNLOGGED > 0,
        };
        let mut applied = BTreeMap::new();
        for _ in 0..take_u32(&mut rest)? {
            let one = Applied {
                source: take_u32(&mut rest)?,
                position: take_u64(&mut rest)?,
                at_us: take_u64(&mut rest)?,
            };
            applied.insert(one.source, one);
        }
        rest.is_empty().then_some(Self { known, applied })
    }
}

/// Writes a file durably, in the place of the one of its name, if there is one.
pub(super) fn replace(
    disk: &Disk,
    folder: &Path,
    name: &str,
    bytes: &[u8],
) -> Result<(), TableError> {
    let path = folder.join(name);
    let unfinished = path.with_added_extension("tmp");
    let write = || {
        if disk.exists(&unfinished)? {
            disk.remove(&unfinished)?;
        }
        let mut file = disk.create_new(&unfinished)?;
        file.write_all_at(bytes, 0)?;
        file.sync_data()?;
        disk.rename(&unfinished, &path)?;
        disk.sync_dir(folder)
    };
    write().map_err(TableError::io("write", &path))
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_le_bytes(*number))
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u64::from_le_bytes(*number))
}
