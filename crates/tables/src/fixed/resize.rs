//! Changing the width of a table while it is in use.
//!
//! A new file is filled beside the old one, block by block. What changes meanwhile in a block that was
//! copied already is written to both. When all is copied and durable, the new file takes the old one's
//! name, and then its place.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use super::{
    blocks::{BLOCK, Blocks},
    follower::Follower,
    layout::{CLEAN_LEN, CLEAN_OFFSET, Layout},
    open::{beside, create, folder, map},
    records::{Records, Slot, disk_error},
    table::{FixedTable, locked},
};
use crate::TableError;

struct Resizing {
    new: Arc<Records>,
    /// Blocks that are in the new file.
    done: Blocks,
    failed: Mutex<Option<TableError>>,
}

impl Resizing {
    fn check(&self) -> Result<(), TableError> {
        locked(&self.failed).take().map_or(Ok(()), Err)
    }

    /// Writes a record of the new file, which nobody reads yet.
    fn put(&self, index: u64, value: Option<&[u8]>) -> Result<(), TableError> {
        self.new.index(index + 1)?;
        let width = self.new.layout().width;
        if value.is_some_and(|value| value.len() > width) {
            return Err(TableError::ValueTooLong { limit: width });
        }
        self.new.prepare(index)?;
        let old = self.new.slot(index);
        self.new.write(index, old, value);
        if value.is_some() {
            self.new.blocks.set(index / BLOCK);
        }
        Ok(())
    }

    /// Copies a block that was not yet; its stripe must be locked.
    fn copy(&self, records: &Records, block: u64, value: &mut Vec<u8>) -> Result<(), TableError> {
        if !self.done.set(block) {
            return Ok(());
        }
        let first = block * BLOCK;
        for index in first..(first + BLOCK).min(records.limit()) {
            match records.slot(index) {
                Slot::Absent => {}
                Slot::Value(len) => {
                    value.resize(len, 0);
                    records.value(index, value);
                    self.put(index, Some(value))?;
                }
                Slot::Damaged(len) => return Err(records.damaged(index, len)),
            }
        }
        Ok(())
    }
}

impl Follower for Resizing {
    fn before(&self, _records: &Records, _block: u64) {}

    fn after(&self, index: u64, new: Option<&[u8]>) {
        if self.done.has(index / BLOCK)
            && let Err(error) = self.put(index, new)
        {
            locked(&self.failed).get_or_insert(error);
        }
    }
}

/// Reads `width=N`.
fn width(options: &str, current: usize) -> Result<usize, TableError> {
    let options = options.trim();
    if options.is_empty() {
        return Ok(current);
    }
    let width = options
        .strip_prefix("width=")
        .and_then(|width| width.parse().ok());
    width.ok_or_else(|| {
        TableError::Syntax(format!(
            "a fixed table is optimised with width=BYTES, not with {options:?}"
        ))
    })
}

impl FixedTable {
    /// Changes the width (`width=N`; nothing: rewrites the file as it is, without the space of records
    /// that are gone).
    pub(super) fn resize(&self, options: &str) -> Result<(), TableError> {
        let _alone = locked(&self.maintenance);
        if !self.can_replace() {
            return Err(TableError::Unsupported {
                kind: "fixed",
                what: "be optimised so often without being opened again",
            });
        }
        let layout = Layout::new(width(options, self.width())?)?;
        let path = beside(&self.path, ".new");
        create(&self.disk, &path, &layout)?;
        let result = self.resize_into(&path);
        if result.is_err() && self.disk.exists(&path).unwrap_or(false) {
            // The first error is the one to report.
            let _ = self.disk.remove(&path);
        }
        result
    }

    fn resize_into(&self, path: &Path) -> Result<(), TableError> {
        let new = map(&self.disk, path, &self.path, self.options.size_limit)?;
        new.map().store(CLEAN_OFFSET, &[0; CLEAN_LEN]);
        let old = self.records();
        let resizing = Arc::new(Resizing {
            new: Arc::new(new),
            done: Blocks::new(old.limit()),
            failed: Mutex::new(None),
        });
        let follower = Arc::clone(&resizing) as Arc<dyn Follower>;
        self.set_follower(&self.lock_all(), Some(follower));
        let moved = self.move_to(path, old, &resizing);
        self.set_follower(&self.lock_all(), None);
        moved?;
        self.disk.sync_dir(folder(&self.path))?;
        // Nothing leads to the old file any more but this mapping, which stays for readers that have
        // just looked there: its disk space goes. If that fails it goes when the table is closed.
        let _ = old.map().clear(0..old.map().len());
        Ok(())
    }

    /// Copies all records to the new file, and puts it in the old one's place.
    fn move_to(&self, path: &Path, old: &Records, resizing: &Resizing) -> Result<(), TableError> {
        self.copy_new_blocks(old, resizing)?;
        // What was synced before this line must be durable in the new file too: the blocks that have
        // had their first record meanwhile are copied before it is synced. Later ones nobody syncs.
        let _syncing = locked(&self.syncing);
        self.copy_new_blocks(old, resizing)?;
        resizing.new.map().sync().map_err(disk_error)?;
        let all = self.lock_all();
        let (mut value, mut from) = (Vec::new(), 0);
        while let Some(block) = old.blocks.next(from) {
            resizing.copy(old, block, &mut value)?;
            from = block + 1;
        }
        resizing.check()?;
        self.disk.rename(path, &self.path)?;
        all.write(|| self.replace(&all, Arc::clone(&resizing.new)));
        Ok(())
    }

    /// Copies the blocks that were not yet, in order.
    fn copy_new_blocks(&self, old: &Records, resizing: &Resizing) -> Result<(), TableError> {
        let (mut value, mut from) = (Vec::new(), 0);
        while let Some(block) = old.blocks.next(from) {
            let locked = self.stripe(block * BLOCK).lock();
            resizing.copy(old, block, &mut value)?;
            drop(locked);
            resizing.check()?;
            from = block + 1;
        }
        Ok(())
    }
}
