//! `tables serve`: opens the tables, binds, says that it is ready, and closes in order.

use std::{
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use hikyaku_observe::Observations;
use hikyaku_table_server::{Source, TableServer, TableServerConfig, TableServerError};
use hikyaku_tables::{Logging, Tables, TablesOptions};
use hikyaku_vfs::{Disk, RealDisk};

use super::{command::Log, command::ServeFlags, failure};
use crate::{
    configuration::Settings,
    control::{self, Carrier, ControlServer},
    failure::{Failure, chain},
    operations::{Audience, Input, Operation, Report, requests},
    serve::allow_connections,
    signals,
};

/// memcached's port.
const PORT: u16 = 11211;

/// What a table server's control socket is asked: what requests cost.
#[derive(Debug, Clone)]
struct Asked(Option<Observations>);

impl Carrier for Asked {
    fn carry_out(
        &self,
        operation: &Operation,
        _input: Input,
        _stop: &Arc<AtomicBool>,
        _audience: &mut dyn Audience,
    ) -> Result<Report, Failure> {
        match operation {
            Operation::Requests => requests(self.0.as_ref()),
            _ => Err(Failure::Failed(
                "a table server has this folder open: there are no events in it".to_owned(),
            )),
        }
    }
}

/// Serves until a signal comes.
pub(super) fn serve(flags: &ServeFlags, settings: &Settings) -> Result<ExitCode, Failure> {
    let stop = signals::first().map_err(|error| Failure::io("can't listen to signals", &error))?;
    allow_connections();
    let disk: Disk = Arc::new(RealDisk);
    let options = TablesOptions {
        logging: match flags.log {
            Log::None => Logging::None,
            Log::Async => Logging::Async,
            Log::Sync => Logging::Sync,
        },
        ..TablesOptions::new(flags.server_id)
    };
    let tables = Tables::open(&disk, &flags.folder, &flags.open, &options)
        .map_err(|error| failure("can't open the tables", &error))?;
    let tables = Arc::new(tables);
    let config = TableServerConfig {
        listen: match (flags.listen, &flags.unix) {
            (None, None) => Some(([127, 0, 0, 1], PORT).into()),
            (listen, _) => listen,
        },
        unix: flags.unix.clone(),
        token: flags.token.clone(),
        workers: flags.workers,
        copies: flags.copies.clone(),
        restores: flags.restores.clone(),
        follow: flags.follow.as_ref().map(|(host, port)| Source {
            host: host.clone(),
            port: *port,
            token: flags.follow_token.clone(),
            since_us: flags.follow_since,
        }),
        server_id: flags.server_id,
        connections_max: flags.connections_max,
        value_bytes_max: flags.value_bytes_max,
        idle_timeout: flags.idle_timeout.map(Duration::from_secs),
        measure_requests: settings.server.measure_requests,
        ..TableServerConfig::default()
    };
    let server = TableServer::bind_set(config, Arc::clone(&tables)).map_err(|error| why(&error))?;
    let asked = Asked(server.observations());
    // Tables that commands can't reach are served all the same.
    let control = ControlServer::start(control::socket(&flags.folder), asked)
        .inspect_err(|error| tracing::warn!(%error, "`hikyaku slow` can't reach this server"))
        .ok();
    say_ready(&server, flags);
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
fn say_ready(server: &TableServer, flags: &ServeFlags) {
    let tcp = server.address().map(|address| address.to_string());
    let unix = flags.unix.as_ref().map(|path| path.display().to_string());
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
        TableServerError::System(_) | TableServerError::Thread(_) => Failure::Failed(text),
    }
}
