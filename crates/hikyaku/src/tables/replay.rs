//! Tables brought back from a log, and copied as the beginning of another server's.

use std::{path::Path, process::ExitCode, sync::Arc};

use hikyaku_tables::{Logging, NamedTable, Tables, TablesOptions};
use hikyaku_vfs::{Disk, RealDisk};

use super::{failure, transfer::say};
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

fn open_set(
    folder: &Path,
    open: &[NamedTable],
    server: u32,
    logging: Logging,
) -> Result<Tables, Failure> {
    let disk: Disk = Arc::new(RealDisk);
    let options = TablesOptions {
        logging,
        ..TablesOptions::new(server)
    };
    Tables::open(&disk, folder, open, &options)
        .map_err(|error| failure("can't open the tables", &error))
}
