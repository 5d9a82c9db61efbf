//! nostr-rs-relay's SQLite file, read while the relay runs (it keeps a write-ahead log, so readers
//! and its writer do not wait for each other).
//!
//! FORMAT: `PRAGMA user_version` is the schema's version. Since 2 a table `event` has `id` (rising in
//! the order of arrival), `hidden` (true for what a kind 5 has deleted, and in old versions for what
//! was replaced) and `content`, the event's whole JSON. `expires_at` (since 17) repeats a tag that
//! the JSON has.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, ErrorCode, OpenFlags, params};

use crate::{Rows, Source, SourceError};

/// The schema versions whose `event` table is as described.
const VERSIONS: std::ops::RangeInclusive<i64> = 2..=18;
/// How long a read waits where the relay is just moving its log into the file.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);

/// An open file.
#[derive(Debug)]
pub struct NostrRsRelay {
    file: Connection,
    total: Option<u64>,
    /// The `id` of the last row read.
    last: i64,
}

impl NostrRsRelay {
    /// Opens the file, for reading only.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let shown = path.display();
        if path.is_dir() {
            return Err(SourceError::Unreachable(format!(
                "{shown} is a folder; name the SQLite file in it, usually nostr.db"
            )));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let file = Connection::open_with_flags(path, flags)
            .and_then(|file| {
                file.busy_timeout(BUSY_PATIENCE)?;
                Ok(file)
            })
            .map_err(|error| refused(path, &error))?;
        let version: i64 = file
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(|error| refused(path, &error))?;
        let columns: i64 = file
            .query_row(
                "SELECT count(*) FROM pragma_table_info('event') \
                 WHERE name IN ('id', 'hidden', 'content')",
                [],
                |row| row.get(0),
            )
            .map_err(|error| refused(path, &error))?;
        if columns != 3 {
            return Err(SourceError::Foreign(format!(
                "{shown} is an SQLite file, but not nostr-rs-relay's: it has no table `event` with \
                 `hidden` and `content`"
            )));
        }
        if !VERSIONS.contains(&version) {
            return Err(SourceError::Foreign(format!(
                "{shown} has schema version {version}; this program knows {} to {}. If it is still \
                 nostr-rs-relay's, this does the same: sqlite3 {shown} 'SELECT content FROM event \
                 WHERE hidden IS NOT TRUE' | hikyaku import -",
                VERSIONS.start(),
                VERSIONS.end()
            )));
        }
        // Without it, reading goes on for as long as it can.
        let total = file.query_row("SELECT count(*) FROM event", [], |row| row.get::<_, i64>(0));
        Ok(Self {
            file,
            total: total.ok().and_then(|total| total.try_into().ok()),
            last: i64::MIN,
        })
    }

    fn read_rows(&mut self, into: &mut Rows) -> rusqlite::Result<()> {
        let mut statement = self
            .file
            .prepare("SELECT id, hidden IS TRUE, content FROM event WHERE id > ?1 ORDER BY id")?;
        // The statement, and with it the snapshot, ends with this batch: the relay's log does not
        // have to be kept for longer.
        let mut rows = statement.query(params![self.last])?;
        while !into.is_full() {
            let Some(row) = rows.next()? else { break };
            let hidden: bool = row.get(1)?;
            if hidden {
                into.left_out();
            } else {
                match row.get_ref(2)?.as_bytes() {
                    Ok(json) => into.event(json),
                    Err(error) => into.unreadable(format!("its `content`: {error}")),
                }
            }
            self.last = row.get(0)?;
        }
        Ok(())
    }
}

impl Source for NostrRsRelay {
    fn total(&self) -> Option<u64> {
        self.total
    }

    fn read(&mut self, rows: &mut Rows) -> Result<(), SourceError> {
        self.read_rows(rows).map_err(|error| {
            SourceError::Lost(format!("nostr-rs-relay's file can't be read on: {error}"))
        })
    }
}

/// Says why a file is not opened, and what to do.
fn refused(path: &Path, error: &rusqlite::Error) -> SourceError {
    let shown = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => SourceError::Foreign(format!("{shown} is no SQLite file")),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly)
            if path.exists() =>
        {
            SourceError::Unreachable(format!(
                "can't open {shown}: {error}. Beside the file SQLite keeps two others, -wal and -shm, \
                 which a reader has to open too: run this as the relay's user, or read a copy made \
                 with: sqlite3 {shown} '.backup copy.db'"
            ))
        }
        Some(ErrorCode::CannotOpen) => {
            SourceError::Unreachable(format!("there is no file {shown}"))
        }
        _ => SourceError::Unreachable(format!("can't open {shown}: {error}")),
    }
}
