//! The commands about tables: `hikyaku tables ...`.

mod asked;
mod beside;
mod command;
mod replay;
mod serve;
mod settings;
mod transfer;

use std::process::ExitCode;

use hikyaku_tables::{TableError, Tables};

use crate::{
    configuration::Settings,
    failure::{Failure, chain},
};

pub(crate) use beside::ServedTables;
pub(crate) use command::TablesCommand;
pub(crate) use settings::{
    Followed, LOG_FILE_BYTES_MAX, LOG_FILE_BYTES_MIN, TablesSettings, Token,
};

/// Runs a command.
pub(crate) fn run(command: &TablesCommand, settings: &Settings) -> Result<ExitCode, Failure> {
    match command {
        TablesCommand::Serve(flags) => serve::serve(flags, settings),
        TablesCommand::Restore {
            folder,
            open,
            from,
            log,
        } => replay::restore(folder, open, *from, log),
        TablesCommand::Copy {
            folder,
            open,
            server_id,
            to,
        } => replay::copy(folder, open, *server_id, to),
        TablesCommand::Import { folder, file, into } => transfer::import(folder, file, into),
        TablesCommand::Export {
            folder,
            from,
            file,
            width,
            big_endian,
        } => transfer::export(folder, from, file, *width, *big_endian),
    }
}

/// Says which tables are not as wide as the options say: a file keeps the width it has.
fn tell_widths(tables: &Tables) {
    for (named, table) in tables.iter() {
        if let (Some(said), Some(has)) = (named.spec.options.width, table.width())
            && said != has
        {
            tracing::warn!(
                "the table {named} keeps the width that its file has, {has}: `optimize` of Tokyo \
                 Tyrant's protocol changes it while it is served"
            );
        }
    }
}

/// Says why a table refused.
fn failure(doing: &str, error: &TableError) -> Failure {
    match error {
        TableError::Syntax(_) | TableError::Unsupported { .. } => {
            Failure::Usage(format!("{doing}: {}", chain(error)))
        }
        TableError::NotOpened(_) => Failure::Usage(format!(
            "{doing}: {}\nname all tables that are served, or start the server once, which carries the \
             updates out",
            chain(error)
        )),
        _ => Failure::of_table(doing, error),
    }
}
