//! The simulated disk itself: its calls, its crashes, its limits.

use std::{
    collections::BTreeSet,
    fmt, io,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use bytes::Bytes;

use super::mapping::SimulatedMapping;
use super::{
    content::Content,
    fault::{Call, Fault, Faults},
    names::{Inode, Names, parent},
    random::Random,
};
use crate::{Disk, File, Lock, MappedFile, Vfs, locked, parts_of};

/// A disk in memory; clones are handles to the same one.
///
/// It keeps the promises of [`Vfs`] and no others: [`SimulatedDisk::crash`] loses any subset of
/// what was not synced. Everything it does follows from its seed and the order of the calls.
#[derive(Clone)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

struct State {
    random: Random,
    dead: bool,
    directories: BTreeSet<PathBuf>,
    names: Names,
    locks: BTreeSet<PathBuf>,
    faults: Faults,
    capacity: Option<u64>,
    stores: Stores,
}

/// The stores to mapped files, and the one that the process does not survive.
#[derive(Default)]
struct Stores {
    count: u64,
    killing: Option<u64>,
    killed: Option<SimulatedDisk>,
}

impl SimulatedDisk {
    /// Creates an empty disk.
    pub fn new(seed: u64) -> Self {
        Self::with(seed, BTreeSet::new(), Names::default(), None)
    }

    fn with(
        seed: u64,
        directories: BTreeSet<PathBuf>,
        names: Names,
        capacity: Option<u64>,
    ) -> Self {
        let state = State {
            random: Random::new(seed),
            dead: false,
            directories,
            names,
            locks: BTreeSet::new(),
            faults: Faults::default(),
            capacity,
            stores: Stores::default(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Returns a handle as the code under test takes it.
    pub fn disk(&self) -> Disk {
        Arc::new(self.clone())
    }

    /// Stops the machine: returns the disk as the next start finds it, with any subset of what was
    /// not synced (sectors, lengths, names). This disk and its open files refuse every call from now
    /// on; the new one has no locks and no armed faults.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let mut state = locked(&self.state);
        state.dead = true;
        let mut random = Random::new(seed);
        let names = state.names.after_crash(&mut random);
        let directories = state.directories.clone();
        Self::with(random.next(), directories, names, state.capacity)
    }

    /// Kills the process, not the machine: as [`SimulatedDisk::crash`], but nothing is lost. What
    /// was not synced still is not.
    #[must_use]
    pub fn kill(&self) -> Self {
        let successor = self.fork();
        locked(&self.state).dead = true;
        successor
    }

    /// Returns another disk with the same files, what is not synced included; this one lives on.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut state = locked(&self.state);
        let seed = state.random.next();
        let names = state.names.deep_copy();
        Self::with(seed, state.directories.clone(), names, state.capacity)
    }

    /// Arms a failure.
    pub fn inject(&self, fault: Fault) {
        locked(&self.state).faults.arm(fault);
    }

    /// Makes the `nth` call from now (from 1), of whatever kind, fail once.
    pub fn fail_nth_call(&self, nth: u64, error: io::ErrorKind) {
        self.inject(Fault {
            call: None,
            nth,
            error,
            lasting: false,
        });
    }

    /// Disarms all failures.
    pub fn clear_faults(&self) {
        locked(&self.state).faults.clear();
    }

    /// Returns how many calls there were, of one kind or (`None`) of all.
    pub fn calls(&self, call: Option<Call>) -> u64 {
        locked(&self.state).faults.count(call)
    }

    /// Limits the bytes of all files together; what would pass it fails with `StorageFull`.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        locked(&self.state).capacity = bytes;
    }

    /// Returns the bytes of all files together.
    pub fn used(&self) -> u64 {
        locked(&self.state).used()
    }

    /// Flips one bit of a file, where it is durable too. False if the file has no such bit.
    pub fn flip_bit(&self, path: &Path, bit: u64) -> bool {
        let state = locked(&self.state);
        let inode = state.names.get(path);
        inode.is_some_and(|inode| content(inode).flip_bit(bit))
    }

    /// Returns all files, with their lengths, sorted.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let state = locked(&self.state);
        let names = state.names.iter();
        names
            .map(|(path, inode)| (path.clone(), content(inode).seen().len() as u64))
            .collect()
    }

    /// Lets the process be killed in the middle of the `nth` store (from now, from 1) to a mapped
    /// file. It is not: [`SimulatedDisk::killed`] is the disk as it would have been left.
    pub fn kill_at_store(&self, nth: u64) {
        let mut state = locked(&self.state);
        state.stores = Stores {
            count: 0,
            killing: Some(nth),
            killed: None,
        };
    }

    /// Returns the disk as the store named to [`SimulatedDisk::kill_at_store`] has left it, if there
    /// was one.
    pub fn killed(&self) -> Option<Self> {
        locked(&self.state).stores.killed.take()
    }

    pub(super) fn storing(&self) {
        let mut state = locked(&self.state);
        state.stores.count += 1;
        if state.stores.killing == Some(state.stores.count) {
            drop(state);
            let killed = self.fork();
            locked(&self.state).stores.killed = Some(killed);
        }
    }

    fn enter(&self, call: Call) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.alive()?;
        state.faults.enter(call)?;
        Ok(state)
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = locked(&self.state);
        if state.dead {
            return Err(io::Error::other("this machine has crashed"));
        }
        Ok(state)
    }
}

impl State {
    fn used(&self) -> u64 {
        let names = self.names.iter();
        names
            .map(|(_, inode)| content(inode).seen().len() as u64)
            .sum()
    }

    /// Returns how many bytes a file may grow by.
    fn room(&self) -> u64 {
        self.capacity
            .map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used()))
    }

    fn inode(&self, path: &Path) -> io::Result<&Inode> {
        self.names.get(path).ok_or_else(|| missing(path))
    }

    fn check_directory(&self, dir: &Path) -> io::Result<()> {
        let there = dir == Path::new("/") || self.directories.contains(dir);
        if there { Ok(()) } else { Err(missing(dir)) }
    }
}

impl Vfs for SimulatedDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.enter(Call::CreateDir)?;
        for dir in dir.ancestors() {
            state.directories.insert(dir.to_path_buf());
        }
        Ok(())
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut state = self.enter(Call::Create)?;
        state.check_directory(&parent(path))?;
        if state.names.get(path).is_some() || state.directories.contains(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = Inode::default();
        state.names.add(path, Arc::clone(&inode));
        Ok(Box::new(SimulatedFile {
            disk: self.clone(),
            inode,
        }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let state = self.enter(Call::Open)?;
        let inode = Arc::clone(state.inode(path)?);
        Ok(Box::new(SimulatedFile {
            disk: self.clone(),
            inode,
        }))
    }

    fn map(&self, path: &Path) -> io::Result<Bytes> {
        let state = self.enter(Call::Map)?;
        let bytes = Bytes::copy_from_slice(content(state.inode(path)?).seen());
        Ok(bytes)
    }

    fn map_mut(&self, path: &Path, capacity: u64) -> io::Result<MappedFile> {
        let state = self.enter(Call::Map)?;
        SimulatedMapping::of(self, state.inode(path)?, capacity)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.enter(Call::Rename)?;
        if parent(from) != parent(to) {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        let inode = Arc::clone(state.inode(from)?);
        state.names.rename(from, to, inode);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.enter(Call::Remove)?;
        state.inode(path)?;
        state.names.remove(path);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.enter(Call::List)?;
        state.check_directory(dir)?;
        let here = state.names.iter().filter(|(path, _)| parent(path) == dir);
        let names = here.filter_map(|(path, _)| path.file_name().map(PathBuf::from));
        Ok(names.collect())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.enter(Call::Status)?.names.get(path).is_some())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.enter(Call::SyncDir)?;
        state.check_directory(dir)?;
        state.names.sync(dir);
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let mut state = self.enter(Call::Lock)?;
        state.check_directory(&parent(path))?;
        if !state.locks.insert(path.to_path_buf()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if state.names.get(path).is_none() {
            state.names.add(path, Inode::default());
        }
        Ok(Box::new(SimulatedLock {
            disk: self.clone(),
            path: path.to_path_buf(),
        }))
    }
}

struct SimulatedLock {
    disk: SimulatedDisk,
    path: PathBuf,
}

impl Lock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        locked(&self.disk.state).locks.remove(&self.path);
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    inode: Inode,
}

impl SimulatedFile {
    /// Writes as much as the capacity allows; an error if that is not all.
    fn write_within_capacity(&self, state: &State, bytes: &[u8], offset: u64) -> io::Result<()> {
        let room = state.room();
        let mut content = content(&self.inode);
        let end_max = (content.seen().len() as u64).saturating_add(room);
        let fitting = end_max.saturating_sub(offset).min(bytes.len() as u64) as usize;
        if let Some(part) = bytes.get(..fitting).filter(|part| !part.is_empty()) {
            content.write(part, offset as usize);
        }
        if fitting < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl File for SimulatedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let _state = self.disk.enter(Call::Read)?;
        let content = content(&self.inode);
        let from = content.seen().get(offset as usize..).unwrap_or_default();
        let bytes = from
            .get(..buffer.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.alive()?;
        if let Err(error) = state.faults.enter(Call::Write) {
            let part = state.random.up_to(bytes.len() as u64) as usize;
            let written = bytes.get(..part).unwrap_or_default();
            let _ = self.write_within_capacity(&state, written, offset);
            return Err(error);
        }
        self.write_within_capacity(&state, bytes, offset)
    }

    /// In the order in which a real disk gets them: the middle may be there without the beginning.
    fn write_through_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (head, blocks, tail) = parts_of(bytes, offset);
        let first_block = offset + head.len() as u64;
        let behind = first_block + blocks.len() as u64;
        for (part, at) in [(blocks, first_block), (head, offset), (tail, behind)] {
            if !part.is_empty() {
                self.write_all_at(part, at)?;
            }
        }
        Ok(())
    }

    fn sync_data(&mut self) -> io::Result<()> {
        let mut state = self.disk.alive()?;
        let mut content = content(&self.inode);
        match state.faults.enter(Call::Sync) {
            Ok(()) => content.sync(),
            Err(error) => {
                content.sync_failing(&mut state.random);
                return Err(error);
            }
        }
        Ok(())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let state = self.disk.enter(Call::SetLen)?;
        let growth = len.saturating_sub(content(&self.inode).seen().len() as u64);
        if growth > state.room() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        content(&self.inode).set_len(len as usize);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let _state = self.disk.enter(Call::Status)?;
        Ok(content(&self.inode).seen().len() as u64)
    }

    fn allocate(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let state = self.disk.enter(Call::Allocate)?;
        let len_before = content(&self.inode).seen().len();
        let zeros = vec![0; len as usize];
        self.write_within_capacity(&state, &zeros, offset)
            .inspect_err(|_| content(&self.inode).set_len(len_before))
    }
}

/// What a mapping asks of its disk.
impl SimulatedDisk {
    pub(super) fn allocate_mapped(&self, inode: &Inode, end: u64) -> io::Result<()> {
        let state = self.enter(Call::Allocate)?;
        let room = state.room();
        let mut content = content(inode);
        let len = content.seen().len() as u64;
        if end.saturating_sub(len) > room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if end > len {
            content.set_len(end as usize);
        }
        Ok(())
    }

    pub(super) fn clear_mapped(&self, inode: &Inode, range: Range<u64>) -> io::Result<()> {
        let _state = self.enter(Call::Write)?;
        let zeros = vec![0; (range.end - range.start) as usize];
        content(inode).write(&zeros, range.start as usize);
        Ok(())
    }

    pub(super) fn sync_mapped(&self, inode: &Inode) -> io::Result<()> {
        let mut state = self.alive()?;
        let mut content = content(inode);
        if let Err(error) = state.faults.enter(Call::Sync) {
            content.sync_failing(&mut state.random);
            return Err(error);
        }
        content.sync();
        Ok(())
    }
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedDisk")
            .field("files", &self.files())
            .finish()
    }
}

fn missing(path: &Path) -> io::Error {
    let message = format!("no such file or directory: {}", path.display());
    io::Error::new(io::ErrorKind::NotFound, message)
}

/// Locks a file's content, with what was stored to its mapping.
pub(super) fn content(inode: &Inode) -> MutexGuard<'_, Content> {
    let mut content = locked(inode);
    content.absorb();
    content
}
