//! The file that says whom the tables' server was told to follow, in that server's own words.

use super::{Tables, checkpoint::replace};
use crate::TableError;

/// FORMAT: the version that this program writes, and the newest it reads.
const VERSION: u32 = 1;

/// FORMAT: the file begins with the magic and the version, and ends with a checksum.
const MAGIC: [u8; 8] = *b"HIKYUFOL";

/// The file's name in the tables' folder.
const NAME: &str = "followed";

/// The longest file that is read.
const LEN_MAX: u64 = 1 << 16;

impl Tables {
    /// Returns what [`Tables::keep_followed`] was given last, if anything.
    pub fn followed(&self) -> Result<Option<Vec<u8>>, TableError> {
        let path = self.inner.folder.join(NAME);
        let read = || {
            if !self.inner.disk.exists(&path)? {
                return Ok(None);
            }
            let file = self.inner.disk.open(&path)?;
            let mut bytes = vec![0; file.len()?.min(LEN_MAX) as usize];
            file.read_exact_at(&mut bytes, 0)?;
            Ok(Some(bytes))
        };
        let Some(bytes) = read().map_err(TableError::io("read", &path))? else {
            return Ok(None);
        };
        let (checked, stated) = bytes.split_last_chunk().unwrap_or((&[], &[0; 4]));
        let is_whole = u32::from_le_bytes(*stated) == crc32fast::hash(checked);
        let fields = checked.strip_prefix(&MAGIC).filter(|_| is_whole);
        let Some((version, words)) = fields.and_then(<[u8]>::split_first_chunk) else {
            let found = format_args!("{} other bytes", bytes.len());
            return Err(TableError::corrupt(&path, 0, "whom to follow", found));
        };
        match u32::from_le_bytes(*version) {
            VERSION => Ok(Some(words.to_vec())),
            version => Err(TableError::Newer(format!(
                "{} has version {version}, but this program reads {VERSION}; remove it, or use the \
                 program that wrote it",
                path.display()
            ))),
        }
    }

    /// Keeps words for the next start, durably; `None` takes away those that are kept.
    pub fn keep_followed(&self, words: Option<&[u8]>) -> Result<(), TableError> {
        let (disk, folder) = (&self.inner.disk, &self.inner.folder);
        if let Some(words) = words {
            if words.len() as u64 > LEN_MAX / 2 {
                let path = folder.join(NAME);
                let long = std::io::Error::other(format!("more than {} bytes", LEN_MAX / 2));
                return Err(TableError::io("write", &path)(long));
            }
            let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes(), words].concat();
            let crc = crc32fast::hash(&bytes);
            bytes.extend_from_slice(&crc.to_le_bytes());
            return replace(disk, folder, NAME, &bytes);
        }
        let path = folder.join(NAME);
        let remove = || {
            if !disk.exists(&path)? {
                return Ok(());
            }
            disk.remove(&path)?;
            disk.sync_dir(folder)
        };
        remove().map_err(TableError::io("remove", &path))
    }
}
