//! Which calls of a simulated disk fail, and how.

use std::{collections::BTreeMap, io};

/// A kind of call that a disk is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// [`crate::Vfs::create_dir_all`]
    CreateDir,
    /// [`crate::Vfs::create_new`]
    Create,
    /// [`crate::Vfs::open`]
    Open,
    /// [`crate::Vfs::map`] and [`crate::Vfs::map_mut`]
    Map,
    /// [`crate::Vfs::rename`]
    Rename,
    /// [`crate::Vfs::remove`]
    Remove,
    /// [`crate::Vfs::list`]
    List,
    /// [`crate::Vfs::exists`] and [`crate::File::len`]
    Status,
    /// [`crate::Vfs::sync_dir`]
    SyncDir,
    /// [`crate::Vfs::lock`]
    Lock,
    /// [`crate::File::read_exact_at`]
    Read,
    /// [`crate::File::write_all_at`]: a failing one has written any part of its bytes. And
    /// [`crate::MappedFile::clear`].
    Write,
    /// [`crate::File::sync_data`] and [`crate::MappedFile::sync`]: a failing one loses any part of what was unsynced.
    Sync,
    /// [`crate::File::set_len`]
    SetLen,
    /// [`crate::File::allocate`], and what [`crate::MappedFile::reserve`] needs of the disk
    Allocate,
}

/// A failure to come.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// Which calls count; `None` is all of them.
    pub call: Option<Call>,
    /// The how-manieth of those, from now on and from 1, fails.
    pub nth: u64,
    /// With what.
    pub error: io::ErrorKind,
    /// Whether all after it fail too.
    pub lasting: bool,
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    counts: BTreeMap<Call, u64>,
    armed: Vec<Fault>,
}

impl Faults {
    pub(super) fn arm(&mut self, fault: Fault) {
        self.armed.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.armed.clear();
    }

    pub(super) fn count(&self, call: Option<Call>) -> u64 {
        let counts = self.counts.iter();
        let counted = counts.filter(|(kind, _)| call.is_none_or(|call| call == **kind));
        counted.map(|(_, count)| count).sum()
    }

    /// Counts a call; an error if it is one that shall fail.
    pub(super) fn enter(&mut self, call: Call) -> io::Result<()> {
        *self.counts.entry(call).or_default() += 1;
        let mut failed = None;
        self.armed.retain_mut(|fault| {
            if fault.call.is_some_and(|kind| kind != call) {
                return true;
            }
            fault.nth = fault.nth.saturating_sub(1);
            if fault.nth == 0 {
                failed = failed.or(Some(fault.error));
            }
            fault.nth > 0 || fault.lasting
        });
        failed.map_or(Ok(()), |kind| {
            Err(io::Error::new(kind, format!("injected at a {call:?} call")))
        })
    }
}
