//! The fixed table.

mod crash;
mod model;
mod operations;
mod testdata;
mod threads;
mod whole;

use std::{path::Path, sync::Arc};

use hikyaku_tables::{
    Change, Condition, FixedOptions, FixedTable, Outcome, Stamp, Table, TableError,
};
use hikyaku_vfs::{Disk, RealDisk, SimulatedDisk};

pub(crate) const STAMP: Stamp = Stamp {
    at_us: 1,
    origin: 0,
};

pub(crate) fn options(width: usize, size_limit: u64) -> FixedOptions {
    FixedOptions { width, size_limit }
}

/// A disk with the folder `/t`.
pub(crate) fn simulated(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    disk.disk().create_dir_all(Path::new("/t")).unwrap();
    disk
}

pub(crate) fn open(disk: &Disk, options: FixedOptions) -> FixedTable {
    FixedTable::open(disk, Path::new("/t/a.fixed"), options, None).unwrap()
}

/// A table on a simulated disk that nobody else sees.
pub(crate) fn table(width: usize) -> FixedTable {
    open(&simulated(1).disk(), options(width, 1 << 20))
}

pub(crate) fn real() -> Disk {
    Arc::new(RealDisk)
}

pub(crate) fn value(table: &FixedTable, key: u64) -> Option<Vec<u8>> {
    let mut buffer = vec![0; table.width()];
    let len = table.get(key, &mut buffer).unwrap()?;
    buffer.truncate(len);
    Some(buffer)
}

pub(crate) fn put(table: &FixedTable, key: u64, value: &[u8]) {
    table.put(key, value, STAMP).unwrap();
}

pub(crate) fn change(
    table: &FixedTable,
    key: u64,
    change: Change<'_>,
) -> Result<Outcome, TableError> {
    table.change(key, Condition::Any, change, STAMP)
}

/// All records, as the listing has them.
pub(crate) fn records(table: &FixedTable) -> Vec<(u64, Vec<u8>)> {
    let keys = table.keys_after(None, usize::MAX).unwrap();
    let numbers = keys
        .iter()
        .map(|key| std::str::from_utf8(key).unwrap().parse().unwrap());
    numbers
        .map(|key| (key, value(table, key).unwrap()))
        .collect()
}
