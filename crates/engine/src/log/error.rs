//! Why the log could not do what it was asked, split by what the caller can do.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Why the log could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum LogError {
    /// No room on the disk. Nothing was changed; it works again when there is room.
    #[error("no room on the disk for {}", path.display())]
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// A write or a sync failed, now or before: what is on the disk is uncertain until the log is
    /// opened anew.
    #[error("the log has stopped until it is reopened: {0}")]
    Stopped(String),
    /// The bytes of a file are not what was written.
    #[error("{} is damaged at offset {offset}: expected {expected}, found {found}", path.display())]
    Corrupt {
        /// Which file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A newer program wrote the file.
    #[error(
        "{} has log format version {version}, but this program reads no later than {}; \
         use the program that wrote it, or a newer one",
        path.display(), super::header::VERSION
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// A record is larger than any file may be. Nothing was changed.
    #[error("a record of {len} bytes does not fit into the log")]
    TooLarge {
        /// Its payload's length in bytes.
        len: usize,
    },
    /// The disk failed while the log was opened, read or rewritten. Nothing was lost.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// How it failed.
        source: Arc<io::Error>,
    },
}

impl LogError {
    pub(super) fn corrupt(
        path: &Path,
        offset: usize,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self::Corrupt {
            path: path.to_path_buf(),
            offset: offset as u64,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// Wraps what the disk said outside of the writer, where nothing is at stake but this call.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| {
            let path = path.to_path_buf();
            if is_no_space(&error) {
                return Self::NoSpace { path };
            }
            Self::Io {
                action,
                path,
                source: Arc::new(error),
            }
        }
    }
}

/// Tells whether the disk (or the quota of its user) is full.
pub(super) fn is_no_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
