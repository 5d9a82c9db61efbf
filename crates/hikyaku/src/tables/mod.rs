//! The commands about tables: `hikyaku tables ...`.

mod beside;
mod command;
mod replay;
mod serve;
mod transfer;

use std::process::ExitCode;

use hikyaku_tables::TableError;

use crate::{
    configuration::Settings,
    failure::{Failure, chain},
};

pub(crate) use beside::{ServedTables, TablesSettings, Token};
pub(crate) use command::TablesCommand;

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
