//! `tables serve`: opens the tables, binds, says that it is ready, and closes in order.

use std::{process::ExitCode, sync::Arc};

use hikyaku_table_server::{TableServer, TableServerError};

use super::{asked::Asked, command::ServeFlags, failure, settings::TablesSettings};
use crate::{
    configuration::Settings,
    failure::{Failure, chain},
    serve::allow_connections,
    signals,
};

/// Serves until a signal comes.
pub(super) fn serve(flags: &ServeFlags, settings: &Settings) -> Result<ExitCode, Failure> {
    let stop = signals::first().map_err(|error| Failure::io("can't listen to signals", &error))?;
    allow_connections();
    let wanted = flags.settings();
    let tables = wanted.open(&flags.folder)?;
    let config = wanted.config(settings.server.measure_requests);
    let server = TableServer::bind_set(config, Arc::clone(&tables)).map_err(|error| why(&error))?;
    let asked = Asked {
        tables: Arc::clone(&tables),
        observations: server.observations(),
    };
    let control = asked.listen(&flags.folder);
    say_ready(&server, &wanted);
    let served = server.run(stop).map_err(|error| why(&error));
    if let Some(control) = control {
        control.stop();
    }
    let closed = match Arc::into_inner(tables) {
        Some(tables) => tables
            .close()
            .map_err(|error| failure("can't close the tables", &error)),
        // Nothing is lost: the next start does what is left to do.
        None => Ok(()),
    };
    served.and(closed).map(|()| ExitCode::SUCCESS)
}

/// Says that clients can connect, whatever the log leaves out.
fn say_ready(server: &TableServer, wanted: &TablesSettings) {
    let tcp = server.address().map(|address| address.to_string());
    let unix = wanted.unix.as_ref().map(|path| path.display().to_string());
    let places: Vec<_> = tcp.into_iter().chain(unix).collect();
    eprintln!("tables are ready at {}", places.join(" and "));
}

fn why(error: &TableServerError) -> Failure {
    let text = chain(error);
    match error {
        TableServerError::TokenMissing(_) => Failure::Usage(format!(
            "{text}: give one with --token or HIKYAKU_TABLES_TOKEN, or use --unix"
        )),
        TableServerError::NowhereToListen | TableServerError::NoTables => Failure::Usage(text),
        TableServerError::Listen { .. } => Failure::Failed(format!(
            "{text}\nchoose another address with --listen, or stop the program that has it"
        )),
        TableServerError::Followed(_)
        | TableServerError::System(_)
        | TableServerError::Thread(_) => Failure::Failed(text),
    }
}
