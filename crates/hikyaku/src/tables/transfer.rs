//! Records that move between tables and Tokyo Cabinet's files.

use std::{
    io::{Write, stdout},
    path::Path,
    process::ExitCode,
    slice,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use hikyaku_tables::{
    Kind, Logging, NamedTable, Stamp, Table, TableError, TableSpec, Tables, TablesOptions,
    tcf::{ByteOrder, TcfReader, check_tcf, export_tcf, import_tcf},
};
use hikyaku_vfs::{Disk, RealDisk, Vfs};

use super::failure;
use crate::failure::Failure;

/// Puts a file's records into a table.
pub(super) fn import(folder: &Path, file: &Path, into: &str) -> Result<ExitCode, Failure> {
    let doing = format!("can't import {}", file.display());
    let read = || TcfReader::open(&RealDisk, file).map_err(|error| failure(&doing, &error));
    let mut reader = read()?;
    let named = named(folder, into, "--into")?;
    if named.spec.kind == Kind::Memory {
        let text = "a table in memory would be gone with this command: name one on disk";
        return Err(Failure::Usage(text.to_owned()));
    }
    let path = folder.join(&named.spec.file);
    let was_there = is_there(&path)?;
    let (tables, server) = open_table(folder, &named)?;
    let put = |table: &dyn Table| {
        check_tcf(&mut reader, table)?;
        let stamp = Stamp {
            origin: server,
            ..now()
        };
        import_tcf(&mut TcfReader::open(&RealDisk, file)?, table, stamp)
    };
    let imported = only(&tables).and_then(put);
    let is_refused = imported.is_err() && only(&tables).is_ok_and(|table| table.count() == 0);
    let closed = tables.close();
    if is_refused && !was_there && named.spec.kind == Kind::Fixed {
        // Its width is not for the next try to find. The first error is the one to report.
        let _ = RealDisk.remove(&path);
    }
    let imported = imported
        .and_then(|imported| closed.map(|()| imported))
        .map_err(|error| failure(&doing, &error))?;
    say(&format!("{imported} records are in {into} now"))
}

/// Writes a table's records to a file.
pub(super) fn export(
    folder: &Path,
    from: &str,
    file: &Path,
    width: Option<u32>,
    big_endian: bool,
) -> Result<ExitCode, Failure> {
    let named = named(folder, from, "--from")?;
    let path = folder.join(&named.spec.file);
    if !is_there(&path)? {
        return Err(Failure::Usage(format!("there is no {}", path.display())));
    }
    let (tables, _) = open_table(folder, &named)?;
    let byte_order = if big_endian {
        ByteOrder::Big
    } else {
        ByteOrder::Little
    };
    let now = now().seconds();
    let write = |table: &dyn Table| export_tcf(table, now, &RealDisk, file, byte_order, width);
    let exported = only(&tables)
        .and_then(write)
        .and_then(|exported| tables.close().map(|()| exported))
        .map_err(|error| failure(&format!("can't export {from}"), &error))?;
    say(&format!(
        "{exported} records of {from} are in {} now",
        file.display()
    ))
}

/// Reads which table is meant, and the name that the update log has for it. Without a log any name
/// does.
fn named(folder: &Path, text: &str, flag: &str) -> Result<NamedTable, Failure> {
    let wrong = |error| failure(&format!("{text} names no table"), &error);
    let has_name = text
        .split_once('=')
        .is_some_and(|(name, _)| !name.contains('?'));
    if has_name {
        return text.parse().map_err(wrong);
    }
    let spec: TableSpec = text.parse().map_err(wrong)?;
    if log_of(folder)?.is_some() {
        return Err(Failure::Usage(format!(
            "the update log in {} knows tables by the names that they are served under: say \
             {flag} NAME={text}",
            folder.display()
        )));
    }
    let name = spec.file.split('.').next().unwrap_or_default().to_owned();
    Ok(NamedTable { name, spec })
}

fn is_there(path: &Path) -> Result<bool, Failure> {
    let is_there = RealDisk.exists(path);
    is_there.map_err(|error| Failure::io(&format!("can't look for {}", path.display()), &error))
}

/// Returns the number of the server that has written the update log of a folder, if there is one.
pub(super) fn log_of(folder: &Path) -> Result<Option<u32>, Failure> {
    let disk: Disk = Arc::new(RealDisk);
    Tables::logged_by(&disk, folder)
        .map_err(|error| failure("can't read the tables' update log", &error))
}

/// Opens one table as the server would: what its log has and its file lacks is put into it first, and
/// what changes now is logged if there is a log, and noted as unlogged if there is none. Returns it
/// with the server's number.
fn open_table(folder: &Path, named: &NamedTable) -> Result<(Tables, u32), Failure> {
    let logged_by = log_of(folder)?;
    let logging = logged_by.map_or(Logging::None, |_| Logging::Async);
    let server = logged_by.unwrap_or(1);
    open_set(folder, slice::from_ref(named), server, logging).map(|tables| (tables, server))
}

/// Returns the table of a set of one.
fn only(tables: &Tables) -> Result<&dyn Table, TableError> {
    let table = tables.iter().next().map(|(_, table)| &**table);
    table.ok_or_else(|| TableError::Syntax("there is no table".to_owned()))
}

/// Opens tables of which the log may have more than their files; those of the others it may not.
pub(super) fn open_set(
    folder: &Path,
    open: &[NamedTable],
    server: u32,
    logging: Logging,
) -> Result<Tables, Failure> {
    let disk: Disk = Arc::new(RealDisk);
    let options = TablesOptions {
        logging,
        needs_all: true,
        ..TablesOptions::new(server)
    };
    Tables::open(&disk, folder, open, &options)
        .map_err(|error| failure("can't open the tables", &error))
}

fn now() -> Stamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Stamp {
        at_us: since.map_or(0, |since| since.as_micros() as u64),
        origin: 0,
    }
}

/// Tells the operator.
pub(super) fn say(text: &str) -> Result<ExitCode, Failure> {
    writeln!(stdout(), "{text}").map_err(|error| Failure::output(&error))?;
    Ok(ExitCode::SUCCESS)
}
