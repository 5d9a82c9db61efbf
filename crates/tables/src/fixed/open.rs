//! Opening a fixed table, and making its file.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use hikyaku_vfs::Disk;

use super::{
    layout::{
        CLEAN_LEN, CLEAN_OFFSET, HEADER_LEN, Layout, VANISHING_OFFSET, clean_count, clean_mark,
    },
    options::FixedOptions,
    records::{Records, disk_error},
    table::FixedTable,
};
use crate::{TableError, UpdateSink};

/// Returns the name of a file beside the table's.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Returns the folder of a file.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Returns the header of a file that was left in order.
pub(super) fn header(layout: &Layout, count: u64) -> Vec<u8> {
    let mut header = layout.encode();
    header.resize(CLEAN_OFFSET as usize, 0);
    header.extend(clean_mark(count));
    header.resize(HEADER_LEN, 0);
    header
}

/// Makes an empty file, durably but for its name.
pub(super) fn create(disk: &Disk, path: &Path, layout: &Layout) -> Result<(), TableError> {
    if disk.exists(path)? {
        // A making or a change of width that was not finished.
        disk.remove(path)?;
    }
    let mut file = disk.create_new(path)?;
    let written = file.write_all_at(&header(layout, 0), 0);
    let synced = written.and_then(|()| file.sync_data());
    synced.map_err(|error| {
        // The first error is the one to report.
        let _ = disk.remove(path);
        disk_error(error)
    })
}

/// Maps a file, which must be there. `name`: what errors call it.
pub(super) fn map(
    disk: &Disk,
    path: &Path,
    name: &Path,
    size_limit: u64,
) -> Result<Records, TableError> {
    let file = disk.open(path)?;
    let len = file.len()?;
    let damaged = |what: &str| TableError::Corrupt(format!("{}: {what}", name.display()));
    let mut header = [0; HEADER_LEN];
    if len < HEADER_LEN as u64 {
        return Err(damaged(&format!(
            "it has {len} bytes, a fixed table has at least {HEADER_LEN}"
        )));
    }
    file.read_exact_at(&mut header, 0)?;
    drop(file);
    let layout = Layout::decode(&header).map_err(|what| damaged(&what))?;
    let capacity = size_limit.max(len);
    if layout.records_in(capacity) == 0 {
        return Err(TableError::Syntax(format!(
            "a limit of {size_limit} bytes leaves no room for a record of {} bytes behind the \
             first {} of the file",
            layout.slot_len(),
            layout.records_offset
        )));
    }
    let map = disk.map_mut(path, capacity)?;
    // The header and all notes: what no update asks for.
    map.reserve(0, layout.records_offset as usize)
        .map_err(disk_error)?;
    Ok(Records::new(map, layout, name))
}

impl FixedTable {
    /// Opens the table in a file, which is made if it is not there. Beside it stand two more, with
    /// `.lock` and (while the width is changed) `.new` behind its name. One process at a time has it
    /// open ([`io::ErrorKind::WouldBlock`]). The sink is told of each update.
    ///
    /// After an end that was not in order the records are counted, which costs what the file has
    /// (without its holes).
    pub fn open(
        disk: &Disk,
        path: &Path,
        options: FixedOptions,
        sink: Option<Arc<dyn UpdateSink>>,
    ) -> Result<Self, TableError> {
        let lock = disk.lock(&beside(path, ".lock")).map_err(|error| {
            let text = format!("{} is in use by another process", path.display());
            match error.kind() {
                io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::WouldBlock, text),
                _ => error,
            }
        })?;
        if !disk.exists(path)? {
            let new = beside(path, ".new");
            let layout = Layout::new(options.width)?;
            create(disk, &new, &layout)?;
            disk.rename(&new, path)?;
            disk.sync_dir(folder(path))?;
        }
        let records = map(disk, path, path, options.size_limit)?;
        let count = recover(&records)?;
        let place = (disk.clone(), path.to_path_buf(), options);
        Ok(Self::with(records, count, place, sink, lock))
    }
}

/// Brings a file in order, and takes the mark of that away. Returns how many records there are.
fn recover(records: &Records) -> Result<u64, TableError> {
    let map = records.map();
    let mut mark = [0; CLEAN_LEN];
    map.load(CLEAN_OFFSET, &mut mark);
    let clean = clean_count(&mark);
    if map.load_u64(VANISHING_OFFSET) != 0 {
        map.clear(records.layout().records_offset..map.len())?;
        map.store_u64(VANISHING_OFFSET, 0);
    } else if clean.is_none() {
        records.recover_intents()?;
    }
    records.find_blocks()?;
    let count = clean.unwrap_or_else(|| records.scan());
    map.store(CLEAN_OFFSET, &[0; CLEAN_LEN]);
    map.sync().map_err(disk_error)?;
    Ok(count)
}
