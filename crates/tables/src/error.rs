//! Why a table refuses, split by what the caller can do.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// Why an operation was not carried out: nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A fixed table's key is not a natural number in decimal digits.
    #[error("the key of a fixed table is a number from 1")]
    KeyNotANumber,
    /// A fixed table's key is beyond its last record.
    #[error("the key is beyond the table's limit of {limit} records")]
    KeyTooLarge {
        /// The largest key there can be.
        limit: u64,
    },
    /// The key has more bytes than the table allows.
    #[error("the key is longer than {limit} bytes")]
    KeyTooLong {
        /// Bytes allowed.
        limit: usize,
    },
    /// The value, or what an append or a rotation would make of it, has more bytes than allowed.
    #[error("the value is longer than {limit} bytes")]
    ValueTooLong {
        /// Bytes allowed.
        limit: usize,
    },
    /// The table has no room for flags or an expiry.
    #[error("a fixed table keeps neither flags nor an expiry")]
    NoAttributes,
    /// The stored value is not the number that an addition needs.
    #[error("the value is not a number that can be added to")]
    NotANumber,
    /// The sum does not fit.
    #[error("the sum is out of range")]
    OutOfRange,
    /// An entry to rotate in is empty, longer than the size, or not of whole entries.
    #[error("the entry does not fit the size it is rotated into")]
    Entry,
    /// The table's kind can't do this (an order, a width).
    #[error("a {kind} table can't {what}")]
    Unsupported {
        /// The kind.
        kind: &'static str,
        /// What was asked, as a verb.
        what: &'static str,
    },
    /// The text that should name a table, its options or an interval does not.
    #[error("{0}")]
    Syntax(String),
    /// There is no room: neither on the disk nor within the configured size.
    #[error("the table is full")]
    Full,
    /// The disk refuses; it may work later.
    #[error("the table's file is unavailable")]
    Io(#[from] io::Error),
    /// Stored bytes are damaged; names file, offset, expected and found.
    #[error("{0}")]
    Corrupt(String),
    /// A newer program wrote a file; names it and both versions.
    #[error("{0}")]
    Newer(String),
    /// The update log could not write, now or before, or was closed: updates are refused until the
    /// tables are opened anew.
    #[error("the update log has stopped until the tables are reopened: {0}")]
    Stopped(String),
    /// The log does not have what comes next from this position on (any more): who follows needs a
    /// full copy.
    #[error(
        "the update log has no position {wanted}, only {first} to {end}: a full copy is needed"
    )]
    NotInLog {
        /// What was asked for.
        wanted: u64,
        /// The first there is.
        first: u64,
        /// The end: the position that comes next.
        end: u64,
    },
    /// The update log has updates that a table's file may lack, and the table is not among those to
    /// open ([`crate::TablesOptions::needs_all`]).
    #[error("the update log has updates of the table {0}, which its file may lack")]
    NotOpened(String),
    /// Another process has the tables of this folder open.
    #[error("the tables in {} are open in another process", .0.display())]
    InUse(PathBuf),
}

impl TableError {
    /// Names damage: where it is, what should be there and what is.
    pub(crate) fn corrupt(
        path: &Path,
        offset: usize,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self::Corrupt(format!(
            "{} is damaged at offset {offset}: expected {expected}, found {found}",
            path.display()
        ))
    }

    /// Says on which file the disk failed.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| {
            if is_no_space(&error) {
                return Self::Full;
            }
            let message = format!("could not {action} {}: {error}", path.display());
            Self::Io(io::Error::new(error.kind(), message))
        }
    }
}

/// Tells whether the disk (or the quota of its user) is full.
pub(crate) fn is_no_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
