//! All sealed files, as one snapshot.

use std::{path::PathBuf, sync::Arc};

use hikyaku_store::Sequence;

use super::{error::LogError, position::LogPosition, record::Record, sealed::SealedLog};

/// The sealed files of a log at one moment. Immutable; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogFiles {
    /// Numbered from 1 without gaps.
    files: Arc<[SealedLog]>,
}

impl LogFiles {
    pub(super) fn new(files: Vec<SealedLog>) -> Self {
        Self {
            files: files.into(),
        }
    }

    /// Returns the set with a file added (the next number), or replaced by another generation.
    #[must_use]
    pub(crate) fn with(&self, sealed: SealedLog) -> Self {
        let mut files = self.files.to_vec();
        let index = sealed.file() as usize - 1;
        if let Some(place) = files.get_mut(index) {
            *place = sealed;
        } else {
            assert!(index == files.len(), "log files are sealed in order");
            files.push(sealed);
        }
        Self::new(files)
    }

    /// Returns the files in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &SealedLog> {
        self.files.iter()
    }

    /// Returns the file of a number.
    pub(crate) fn get(&self, file: u32) -> Option<&SealedLog> {
        self.files.get((file as usize).checked_sub(1)?)
    }

    /// Reads the record at a position, checksum verified. An event's JSON is a slice of the mapping.
    pub(crate) fn read(&self, position: LogPosition) -> Result<(Sequence, Record), LogError> {
        let sealed = self.get(position.file).ok_or_else(|| LogError::Corrupt {
            path: PathBuf::from(format!("{:08}.log", position.file)),
            offset: u64::from(position.offset),
            expected: "a sealed file".to_owned(),
            found: "none".to_owned(),
        })?;
        sealed.read(position.offset)
    }
}
