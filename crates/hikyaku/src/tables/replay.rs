//! Tables brought back from a log, and copied as the beginning of another server's.

use std::{
    os::unix::net::UnixStream,
    path::{self, Path},
    process::ExitCode,
};

use hikyaku_tables::{Logging, NamedTable};

use super::{
    asked, failure,
    transfer::{log_of, open_set, say},
};
use crate::{
    control,
    failure::Failure,
    operations::{Operation, Report},
    store::Store,
};

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

/// Copies tables to a new folder: has the server do so that has them open, if there is one.
pub(super) fn copy(
    folder: &Path,
    open: &[NamedTable],
    server: Option<u32>,
    to: &Path,
) -> Result<ExitCode, Failure> {
    let to = path::absolute(to)
        .map_err(|error| Failure::io(&format!("can't find {}", to.display()), &error))?;
    let socket = control::socket(folder);
    let report = if UnixStream::connect(&socket).is_ok() {
        Store::Served(socket).ask(&Operation::CopyTables { to: to.clone() })?
    } else {
        if open.is_empty() {
            return Err(Failure::Usage(format!(
                "no server has {} open: name its tables with --open",
                folder.display()
            )));
        }
        let server = server.map_or_else(|| log_of(folder), |server| Ok(Some(server)))?;
        let tables = open_set(folder, open, server.unwrap_or(1), Logging::Async)?;
        let copied = asked::copy(&tables, &to)?;
        tables
            .close()
            .map_err(|error| failure("can't close the tables", &error))?;
        copied
    };
    let Report::TablesCopied { position } = report else {
        let text = "the running server's answer is not understood";
        return Err(Failure::Failed(text.to_owned()));
    };
    say(&format!(
        "{} has the tables up to position {position} of the log",
        to.display()
    ))
}
