//! A copy of a table as it stood at one moment, while it is in use.
//!
//! The moment is when the copy begins: all stripes are locked then, for as long as it takes to set a
//! flag. From then on whoever is about to change a block (some records) that was not copied yet first
//! writes it to the copy.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex},
};

use hikyaku_vfs::File;

use super::{
    blocks::{BLOCK, Blocks},
    follower::Follower,
    open::{folder, header},
    records::{Records, disk_error},
    table::{FixedTable, locked},
};
use crate::TableError;

/// Bytes that are written to the copy at a time.
const WRITE_LEN: usize = 1 << 20;

struct Copying {
    file: Mutex<Box<dyn File>>,
    /// Blocks that are in the copy, or were empty when it began.
    done: Blocks,
    failed: Mutex<Option<io::Error>>,
}

impl Copying {
    fn write(&self, bytes: &[u8], offset: u64) {
        if let Err(error) = locked(&self.file).write_all_at(bytes, offset) {
            locked(&self.failed).get_or_insert(error);
        }
    }

    fn check(&self) -> io::Result<()> {
        locked(&self.failed).take().map_or(Ok(()), Err)
    }
}

impl Follower for Copying {
    fn before(&self, records: &Records, block: u64) {
        if self.done.set(block) && records.blocks.has(block) {
            let mut bytes = Vec::new();
            records.block_bytes(block, &mut bytes);
            self.write(&bytes, records.layout().slot(block * BLOCK));
        }
    }

    fn after(&self, _index: u64, _new: Option<&[u8]>) {}
}

impl FixedTable {
    /// Writes the table, as it stands when all updates before this call are done and none after it,
    /// to a new file.
    pub(super) fn copy_to(&self, to: &Path) -> Result<(), TableError> {
        let _alone = locked(&self.maintenance);
        let file = self.disk.create_new(to)?;
        let result = self.copy_into(file);
        let result = result.and_then(|()| self.disk.sync_dir(folder(to)));
        result.map_err(|error| {
            // The first error is the one to report.
            let _ = self.disk.remove(to);
            disk_error(error)
        })
    }

    fn copy_into(&self, file: Box<dyn File>) -> io::Result<()> {
        // No other file takes this one's place while maintenance is locked.
        let records = self.records();
        let copying = Arc::new(Copying {
            file: Mutex::new(file),
            done: Blocks::new(records.limit()),
            failed: Mutex::new(None),
        });
        let all = self.lock_all();
        let count = self.counted();
        self.set_follower(&all, Some(Arc::clone(&copying) as Arc<dyn Follower>));
        drop(all);
        let result = self.copy_blocks(records, &copying);
        self.set_follower(&self.lock_all(), None);
        result?;
        copying.check()?;
        // The header comes last: without it the file is no table.
        locked(&copying.file).sync_data()?;
        copying.write(&header(records.layout(), count), 0);
        copying.check()?;
        locked(&copying.file).sync_data()
    }

    fn copy_blocks(&self, records: &Records, copying: &Copying) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut offset = 0;
        let mut from = 0;
        while let Some(block) = records.blocks.next(from) {
            from = block + 1;
            let start = records.layout().slot(block * BLOCK);
            if start != offset + bytes.len() as u64 || bytes.len() >= WRITE_LEN {
                copying.write(&bytes, offset);
                copying.check()?;
                bytes.clear();
                offset = start;
            }
            let _locked = self.stripe(block * BLOCK).lock();
            if copying.done.set(block) {
                records.block_bytes(block, &mut bytes);
            }
        }
        copying.write(&bytes, offset);
        copying.check()
    }
}
