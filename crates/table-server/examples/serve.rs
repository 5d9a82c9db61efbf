//! A table server without the rest of the program, to measure and profile:
//! `cargo run --release -p hikyaku-table-server --example serve -- 127.0.0.1:11311 NAME=TABLE...`.
//! Tables on disk are made in `hikyaku-tables` in the folder for temporary files. With `LOG=async` in
//! the environment they have an update log; with `MEASURE=true` requests are taken down.

use std::{env, error::Error, future::pending, num::NonZeroUsize, sync::Arc};

use hikyaku_table_server::{TableServer, TableServerConfig};
use hikyaku_tables::{Logging, NamedTable, Tables, TablesOptions};
use hikyaku_vfs::{Disk, RealDisk};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let listen = arguments.next().ok_or("an address is missing")?.parse()?;
    let named = arguments
        .map(|argument| argument.parse())
        .collect::<Result<Vec<NamedTable>, _>>()?;
    let disk: Disk = Arc::new(RealDisk);
    let folder = env::temp_dir().join("hikyaku-tables");
    let mut options = TablesOptions::new(1);
    if env::var("LOG").is_ok_and(|log| log == "async") {
        options.logging = Logging::Async;
    }
    let tables = Tables::open(&disk, &folder, &named, &options)?;
    let config = TableServerConfig {
        listen: Some(listen),
        workers: NonZeroUsize::new(1),
        measure_requests: env::var("MEASURE").is_ok_and(|measure| measure == "true"),
        ..TableServerConfig::default()
    };
    TableServer::bind_set(config, Arc::new(tables))?.run(pending())?;
    Ok(())
}
