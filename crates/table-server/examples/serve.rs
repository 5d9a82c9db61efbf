//! A table server without the rest of the program, to measure and profile:
//! `cargo run --release -p hikyaku-table-server --example serve -- 127.0.0.1:11311 NAME=TABLE...`.
//! Tables on disk are made in `hikyaku-tables` in the folder for temporary files.

use std::{env, error::Error, future::pending, sync::Arc};

use hikyaku_table_server::{TableServer, TableServerConfig};
use hikyaku_tables::{NamedTable, Tables, TablesOptions};
use hikyaku_vfs::{Disk, RealDisk};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let listen = arguments.next().ok_or("an address is missing")?.parse()?;
    let named = arguments
        .map(|argument| argument.parse())
        .collect::<Result<Vec<NamedTable>, _>>()?;
    let disk: Disk = Arc::new(RealDisk);
    let folder = env::temp_dir().join("hikyaku-tables");
    let tables = Tables::open(&disk, &folder, &named, &TablesOptions::new(1))?;
    let config = TableServerConfig {
        listen: Some(listen),
        ..TableServerConfig::default()
    };
    TableServer::bind_set(config, Arc::new(tables))?.run(pending())?;
    Ok(())
}
