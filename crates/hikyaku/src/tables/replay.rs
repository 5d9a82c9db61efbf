//! Tables brought back from a log, and copied as the beginning of another server's.

use std::{path::Path, process::ExitCode};

use hikyaku_tables::{Logging, NamedTable};

use super::{
    failure,
    transfer::{open_set, say},
};
use crate::failure::Failure;

/// Carries out a log's updates again.
pub(super) fn restore(
    folder: &Path,
    open: &[NamedTable],
    from_us: u64,
    log: &Path,
) -> Result<ExitCode, Failure> {
    let tables = open_set(folder, open, 1, Logging::None)?;
    let restored = tables
        .restore(log, from_us)
        .and_then(|replayed| tables.close().map(|()| replayed))
        .map_err(|error| failure(&format!("can't restore from {}", log.display()), &error))?;
    say(&format!(
        "{} updates were carried out, {} refused; {} are of tables that are not open",
        restored.updates, restored.refused, restored.other_tables
    ))
}

/// Copies tables to a new folder.
pub(super) fn copy(
    folder: &Path,
    open: &[NamedTable],
    server: u32,
    to: &Path,
) -> Result<ExitCode, Failure> {
    let tables = open_set(folder, open, server, Logging::Async)?;
    let position = tables
        .copy(to)
        .and_then(|position| tables.close().map(|()| position))
        .map_err(|error| failure(&format!("can't copy to {}", to.display()), &error))?;
    say(&format!(
        "{} has the tables up to position {} of the log",
        to.display(),
        position.0
    ))
}
