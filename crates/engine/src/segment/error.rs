//! What can be wrong with a segment, or with writing one.

use std::{fmt, io};

/// Why a segment can't be read or written. Small, as every accessor returns it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SegmentError {
    /// Bytes are not what they must be. The segment can be rebuilt from the log.
    #[error("{0}")]
    Corrupt(Box<Corruption>),
    /// A later version of the program wrote the file: it is to be opened with that one.
    #[error("{0}")]
    Newer(Box<NewerVersion>),
    /// There are more documents or postings than one segment can hold: merge fewer.
    #[error("more than a segment can hold")]
    TooLarge,
    /// The sink could not take what was written.
    #[error("writing a segment failed")]
    Sink(#[from] io::Error),
}

/// Where which bytes are wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Corruption {
    /// The name the segment was opened with.
    pub(crate) file: Box<str>,
    /// Where in the file, in bytes.
    pub(crate) offset: u64,
    /// What should be there.
    pub(crate) expected: String,
    /// What is there.
    pub(crate) found: String,
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is damaged at byte {}: expected {}, found {}",
            self.file, self.offset, self.expected, self.found
        )
    }
}

/// Which version wrote what we can't read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewerVersion {
    /// The name the segment was opened with.
    pub(crate) file: Box<str>,
    /// The version of its format.
    pub(crate) version: u32,
    /// The newest version that this program reads.
    pub(crate) supported: u32,
}

impl fmt::Display for NewerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} has format version {}, this program reads up to version {}",
            self.file, self.version, self.supported
        )
    }
}
