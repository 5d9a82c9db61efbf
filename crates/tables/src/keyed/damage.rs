//! What the B-tree says when its file fails it, as our errors.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use crate::TableError;

/// Runs what reads or writes the B-tree's file.
///
/// The library trusts a file that was closed in order and may panic where it was damaged since (its
/// documents say so); a damaged file must be an error of that table, not the end of a thread. It
/// keeps no state of ours, and what it locks it marks as poisoned.
pub(super) fn sheltered<T>(
    path: &Path,
    run: impl FnOnce() -> Result<T, redb::Error>,
) -> Result<T, TableError> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|error| translate(path, error)),
        Err(payload) => {
            let message = payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| payload.downcast_ref::<&str>().copied());
            Err(damaged(path, message.unwrap_or("its structure is broken")))
        }
    }
}

/// Returns the error of damaged bytes.
pub(super) fn damaged(path: &Path, what: &str) -> TableError {
    TableError::Corrupt(format!("{} is damaged: {what}", path.display()))
}

fn translate(path: &Path, error: redb::Error) -> TableError {
    match error {
        redb::Error::Io(error) => match error.kind() {
            io::ErrorKind::StorageFull => TableError::Full,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
                damaged(path, &error.to_string())
            }
            _ => TableError::Io(error),
        },
        redb::Error::PreviousIo | redb::Error::DatabaseClosed => {
            TableError::Io(io::Error::other("its file failed before"))
        }
        error => damaged(path, &error.to_string()),
    }
}
