//! A simulated file that is mapped: memory of our own, from which the disk takes what was stored
//! whenever it needs to know.

use std::{io, ops::Range, sync::Arc};

use memmap2::MmapMut;

use super::{
    disk::{SimulatedDisk, content},
    names::Inode,
};
use crate::{
    MappedFile,
    mapping::{Backing, Memory},
};

/// The unit in which holes are found.
const PAGE: usize = 4096;

pub(super) struct SimulatedMapping {
    disk: SimulatedDisk,
    inode: Inode,
}

impl SimulatedMapping {
    pub(super) fn of(disk: &SimulatedDisk, inode: &Inode, capacity: u64) -> io::Result<MappedFile> {
        let memory = Memory::new(MmapMut::map_anon(capacity as usize)?.into());
        let mut content = content(inode);
        let len = content.seen().len() as u64;
        if len > capacity {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if !content.map(&memory) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let backing = Self {
            disk: disk.clone(),
            inode: Arc::clone(inode),
        };
        Ok(MappedFile::new(memory, len, capacity, Box::new(backing)))
    }
}

impl Backing for SimulatedMapping {
    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        self.disk.allocate_mapped(&self.inode, range.end)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync_mapped(&self.inode)
    }

    fn clear(&self, range: Range<u64>) -> io::Result<()> {
        self.disk.clear_mapped(&self.inode, range)
    }

    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        let content = content(&self.inode);
        let first = from as usize / PAGE;
        let pages = content.seen().chunks(PAGE).enumerate().skip(first);
        let mut data = pages.filter(|(_, page)| page.iter().any(|byte| *byte != 0));
        Ok(data.next().map(|(index, _)| {
            let start = (index * PAGE) as u64;
            start.max(from)..start + PAGE as u64
        }))
    }

    fn disk_bytes(&self) -> io::Result<u64> {
        Ok(content(&self.inode).seen().len() as u64)
    }

    fn storing(&self) {
        self.disk.storing();
    }

    fn watches(&self) -> bool {
        true
    }
}

impl Drop for SimulatedMapping {
    fn drop(&mut self) {
        content(&self.inode).unmap();
    }
}
