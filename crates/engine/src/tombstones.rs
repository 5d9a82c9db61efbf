//! Tombstone files: which documents of a segment are removed, and which are hidden by whom.
//!
//! Described in `docs/format/tombstones.md`. Written anew as a whole when they changed, under a new
//! number, and named by the manifest.

use std::path::Path;

use hikyaku_store::Hider;
use hikyaku_vfs::Vfs;

use crate::{
    bitmap::Bitmap,
    error::EngineError,
    manifest::{Layout, failed, write_whole},
    segment::DocId,
};

const MAGIC: &[u8; 8] = b"HKYTOMB\0";
const VERSION: u32 = 1;
/// Magic, version, number of removed, number of hidings, checksum of what follows.
const HEADER_BYTES: usize = 8 + 4 + 4 + 4 + 4;

/// The tombstones of one segment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tombstones {
    pub(crate) removed: Bitmap,
    /// Each (document, hider), in order.
    pub(crate) hidings: Vec<(DocId, Hider)>,
}

impl Tombstones {
    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.hidings.is_empty()
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(4 * self.removed.count() as usize);
        for doc in self.removed.iter() {
            body.extend_from_slice(&doc.0.to_le_bytes());
        }
        for (doc, by) in &self.hidings {
            body.extend_from_slice(&doc.0.to_le_bytes());
            body.extend_from_slice(&by.0.to_le_bytes());
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.removed.count().to_le_bytes());
        bytes.extend_from_slice(&(self.hidings.len() as u32).to_le_bytes());
        // The checksum covers the header before it as well.
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&bytes);
        checksum.update(&body);
        bytes.extend_from_slice(&checksum.finalize().to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let (header, body) = bytes.split_at_checked(HEADER_BYTES).ok_or(Damage::Short)?;
        let (head, checksum) = header.split_at(HEADER_BYTES - 4);
        let word = |at: usize| -> u32 {
            let four = head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            u32::from_le_bytes(four.unwrap_or_default())
        };
        if head.get(..8) != Some(MAGIC.as_slice()) {
            return Err(Damage::Magic);
        }
        let mut hash = crc32fast::Hasher::new();
        hash.update(head);
        hash.update(body);
        if hash.finalize().to_le_bytes() != checksum {
            return Err(Damage::Checksum);
        }
        if word(8) != VERSION {
            return Err(Damage::Version(word(8)));
        }
        let (removed, hidings) = (word(12) as usize, word(16) as usize);
        if Some(body.len())
            != removed
                .checked_mul(4)
                .and_then(|bytes| bytes.checked_add(hidings * 8))
        {
            return Err(Damage::Short);
        }
        let numbers: Vec<u32> = body
            .chunks_exact(4)
            .map(|four| u32::from_le_bytes(four.try_into().unwrap_or_default()))
            .collect();
        let (removed, hidings) = numbers.split_at(removed);
        Ok(Self {
            removed: removed.iter().map(|doc| DocId(*doc)).collect(),
            hidings: hidings
                .chunks_exact(2)
                .filter_map(|pair| match pair {
                    [doc, by] => Some((DocId(*doc), Hider(*by))),
                    _ => None,
                })
                .collect(),
        })
    }

    /// Writes them as file number `file`; durable when it returns.
    pub(crate) fn write(&self, disk: &dyn Vfs, dir: &Path, file: u64) -> Result<(), EngineError> {
        let name = Layout::tombstones_name(file);
        write_whole(disk, dir, &format!("{name}.tmp"), &name, &self.encode())
    }

    /// Reads file number `file`, for a segment of `documents` documents.
    pub(crate) fn read(
        disk: &dyn Vfs,
        dir: &Path,
        file: u64,
        documents: u32,
    ) -> Result<Self, EngineError> {
        let path = dir.join(Layout::tombstones_name(file));
        let bytes = disk
            .map(&path)
            .map_err(|error| failed("read", &path, &error))?;
        let read = Self::decode(&bytes).map_err(|damage| match damage {
            Damage::Version(version) if version > VERSION => EngineError::Refused(format!(
                "{}: written by a newer version of this program (tombstone format {version}, this \
                 one reads {VERSION}); use that version",
                path.display()
            )),
            damage => EngineError::Corrupt(format!(
                "{} at offset 0: {damage}; `hikyaku repair` rebuilds it from the log",
                path.display()
            )),
        })?;
        let last = read
            .removed
            .iter()
            .chain(read.hidings.iter().map(|(doc, _)| *doc))
            .max();
        if last.is_some_and(|doc| doc.0 >= documents) {
            return Err(EngineError::Corrupt(format!(
                "{} at offset {HEADER_BYTES}: expected documents below {documents}, found a later one; \
                 `hikyaku repair` rebuilds it from the log",
                path.display()
            )));
        }
        Ok(read)
    }
}

#[derive(Debug, thiserror::Error)]
enum Damage {
    #[error("expected as many entries as the header says, found another length")]
    Short,
    #[error("expected a tombstone file, found another magic number")]
    Magic,
    #[error("expected format version {VERSION}, found {0}")]
    Version(u32),
    #[error("expected another checksum than the bytes have")]
    Checksum,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn tombstones_read_back_and_every_flipped_bit_is_noticed(
            removed in prop::collection::btree_set(0u32..100_000, 0..50),
            hidings in prop::collection::btree_set((0u32..100_000, any::<u32>()), 0..20),
            flip in any::<prop::sample::Index>(),
        ) {
            let tombstones = Tombstones {
                removed: removed.iter().map(|doc| DocId(*doc)).collect(),
                hidings: hidings.iter().map(|(doc, by)| (DocId(*doc), Hider(*by))).collect(),
            };
            let bytes = tombstones.encode();
            let read = Tombstones::decode(&bytes).unwrap();
            prop_assert!(read.removed.iter().eq(tombstones.removed.iter()));
            prop_assert_eq!(read.hidings, tombstones.hidings);
            let mut flipped = bytes.clone();
            let bit = flip.index(bytes.len() * 8);
            flipped[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Tombstones::decode(&flipped).is_err());
        }

        #[test]
        fn arbitrary_bytes_are_an_error_not_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Tombstones::decode(&bytes).is_err());
        }
    }
}
