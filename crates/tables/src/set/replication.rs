//! Updates that come from elsewhere: from another server's log, or from an old one.
//!
//! Updates are carried out in the order in which they arrive; each is a record's whole new state and
//! travels with the number of the server that first made it, so chains and rings stop where they
//! began. A pair of servers is equal once each has all of the other's updates, as long as a record is
//! written on one side at a time. If both sides write the same record before they have heard of each
//! other, each ends with the other's value until it is written again: there is no room in a record of
//! a fixed table for the time that would decide, and what has none must not promise it.

use std::path::Path;

use super::tables::{Inner, Tables};
use crate::{
    Effect, LogPosition, Logged, Table, TableError,
    log::{Applied, EntryReader},
};

/// What carrying out a log's updates came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Updates that were carried out.
    pub updates: u64,
    /// Updates that the table does not take as it is now: a value above its present width, a key
    /// beyond its present limit.
    pub refused: u64,
    /// Updates of tables that are not open.
    pub other_tables: u64,
}

impl Tables {
    /// Carries out what another server has done, and takes it down as that server's. What was first
    /// made here is left out: false. Apply a server's updates in the order of its log. A fixed table
    /// that is too narrow for one is made wider.
    pub fn apply(&self, logged: &Logged<'_>) -> Result<bool, TableError> {
        if logged.stamp.origin == self.server() {
            return Ok(false);
        }
        let table = self.get(logged.table).ok_or_else(|| {
            TableError::Syntax(format!("no table is named {}", logged.table.escape_debug()))
        })?;
        match (table.apply(logged.effect, logged.stamp), logged.effect) {
            (Err(TableError::ValueTooLong { limit }), Effect::Put { value, .. })
                if table.width() == Some(limit) =>
            {
                widen(&**table, value.len())?;
                table.apply(logged.effect, logged.stamp)?;
            }
            (applied, _) => applied?,
        }
        Ok(true)
    }

    /// Notes that all of another server's updates before a position of its log, the last of them made
    /// at a time, were applied. The note is durable when they are, and not before.
    pub fn note_applied(
        &self,
        source: u32,
        position: LogPosition,
        at_us: u64,
    ) -> Result<(), TableError> {
        let applied = Applied {
            source,
            position: position.0,
            at_us,
        };
        let mut all = self.inner.applied();
        if let Some(log) = self.log() {
            log.note_applied(&applied)?;
        }
        all.insert(source, applied);
        Ok(())
    }

    /// Returns how far another server's updates were applied here: the position to go on from in its
    /// log, and the time of the last one.
    pub fn applied(&self, source: u32) -> Option<(LogPosition, u64)> {
        let all = self.inner.applied();
        let applied = all.get(&source)?;
        Some((LogPosition(applied.position), applied.at_us))
    }

    /// Carries out the updates of a time (microseconds since 1970) and later that are in the log files
    /// of a folder: those of a copied log, or of another server's. They are taken down here as they
    /// are there.
    pub fn restore(&self, log_folder: &Path, from_us: u64) -> Result<Replayed, TableError> {
        let mut replayed = Replayed::default();
        let entries = EntryReader::of_folder(&self.inner.disk, log_folder, from_us)?;
        let Some(mut entries) = entries else {
            let message = format!("{} has no update log", log_folder.display());
            return Err(TableError::Syntax(message));
        };
        while let Some(logged) = entries.next_update(|stamp| stamp.at_us >= from_us)? {
            replayed.carry_out(&self.inner, &logged)?;
        }
        Ok(replayed)
    }
}

/// Makes a fixed table wider, as its source was made: the width is not in the log, but what needs it is.
/// At least twice as wide, so that values that grow do not make a file each.
fn widen(table: &dyn Table, needed: usize) -> Result<(), TableError> {
    let twice = table.width().unwrap_or_default().saturating_mul(2);
    let widened = table.optimise(&format!("width={}", needed.max(twice)));
    widened.or_else(|_| table.optimise(&format!("width={needed}")))
}

impl Replayed {
    /// Carries out an update again, unless the table has become too small for it: then a later one
    /// has made the record small enough before, or it would be so still.
    pub(super) fn carry_out(
        &mut self,
        tables: &Inner,
        logged: &Logged<'_>,
    ) -> Result<(), TableError> {
        let Some(table) = tables.get(logged.table) else {
            self.other_tables += 1;
            return Ok(());
        };
        match table.apply(logged.effect, logged.stamp) {
            Ok(()) => self.updates += 1,
            Err(
                TableError::ValueTooLong { .. }
                | TableError::KeyTooLong { .. }
                | TableError::KeyTooLarge { .. }
                | TableError::KeyNotANumber
                | TableError::NoAttributes,
            ) => self.refused += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
