//! Records that move between tables and Tokyo Cabinet's files.

use std::{
    io::{self, Write, stdout},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use hikyaku_tables::{
    Stamp, Table, TableSpec, open,
    tcf::{ByteOrder, TcfReader, export_tcf, import_tcf},
};
use hikyaku_vfs::{Disk, Lock, RealDisk, Vfs};

use super::failure;
use crate::failure::Failure;

/// Puts a file's records into a table.
pub(super) fn import(folder: &Path, file: &Path, into: &str) -> Result<ExitCode, Failure> {
    let doing = format!("can't import {}", file.display());
    let mut reader = TcfReader::open(&RealDisk, file).map_err(|error| failure(&doing, &error))?;
    let made = RealDisk.create_dir_all(folder);
    made.map_err(|error| Failure::io(&format!("can't make {}", folder.display()), &error))?;
    let _alone = lock(folder)?;
    let table = open_table(folder, into)?;
    let imported = import_tcf(&mut reader, &*table, stamp())
        .and_then(|imported| table.sync().map(|()| imported))
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
    let spec: TableSpec = from
        .parse()
        .map_err(|error| failure(&format!("{from} names no table"), &error))?;
    let path = folder.join(&spec.file);
    let is_there = RealDisk.exists(&path);
    if !is_there.map_err(|error| Failure::io(&format!("can't look for {from}"), &error))? {
        return Err(Failure::Usage(format!("there is no {}", path.display())));
    }
    let _alone = lock(folder)?;
    let table = open_table(folder, from)?;
    let byte_order = if big_endian {
        ByteOrder::Big
    } else {
        ByteOrder::Little
    };
    let now = stamp().seconds();
    let exported = export_tcf(&*table, now, &RealDisk, file, byte_order, width)
        .map_err(|error| failure(&format!("can't export {from}"), &error))?;
    say(&format!(
        "{exported} records of {from} are in {} now",
        file.display()
    ))
}

/// Makes sure that no server has the tables.
fn lock(folder: &Path) -> Result<Box<dyn Lock>, Failure> {
    RealDisk.lock(&folder.join("lock")).map_err(|error| {
        if error.kind() == io::ErrorKind::WouldBlock {
            let text = format!(
                "the tables in {} are open in another process",
                folder.display()
            );
            Failure::InUse(text)
        } else {
            Failure::io(&format!("can't lock {}", folder.display()), &error)
        }
    })
}

fn open_table(folder: &Path, text: &str) -> Result<Arc<dyn Table>, Failure> {
    let disk: Disk = Arc::new(RealDisk);
    open(&disk, folder, text, None)
        .map_err(|error| failure(&format!("can't open the table {text}"), &error))
}

fn stamp() -> Stamp {
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
