//! Opening a table by its text.

use std::{path::Path, sync::Arc};

use hikyaku_vfs::Disk;

use crate::{
    FixedOptions, FixedTable, KeyedOptions, KeyedTable, Kind, MemoryOptions, MemoryTable, Table,
    TableError, TableSpec, UpdateSink,
};

/// Opens the table that a text names ([`TableSpec`]) in a folder; it is made if it is not there. The
/// name can't lead out of the folder. The sink is told of each update.
pub fn open(
    disk: &Disk,
    folder: &Path,
    text: &str,
    sink: Option<Arc<dyn UpdateSink>>,
) -> Result<Arc<dyn Table>, TableError> {
    open_spec(disk, folder, &text.parse()?, sink)
}

/// Opens a table as [`open`] does.
pub fn open_spec(
    disk: &Disk,
    folder: &Path,
    spec: &TableSpec,
    sink: Option<Arc<dyn UpdateSink>>,
) -> Result<Arc<dyn Table>, TableError> {
    match spec.kind {
        Kind::Memory => Ok(Arc::new(MemoryTable::new(MemoryOptions::of(spec), sink))),
        Kind::Fixed => {
            let path = folder.join(&spec.file);
            let options = FixedOptions::of(spec);
            Ok(Arc::new(FixedTable::open(disk, &path, options, sink)?))
        }
        Kind::Hash | Kind::Ordered => {
            let path = folder.join(&spec.file);
            let options = KeyedOptions::of(spec);
            Ok(Arc::new(KeyedTable::open(
                disk, &path, spec.kind, options, sink,
            )?))
        }
    }
}
