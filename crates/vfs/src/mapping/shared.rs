//! A file that many threads read and write as memory.
#![expect(
    unsafe_code,
    reason = "mapped memory is reached by raw pointers, as any thread may change it"
)]

use std::{
    fmt, io,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use memmap2::MmapRaw;

use super::racing;

/// The unit in which space is allocated: small for the sake of sparse files, large enough that the
/// calls do not count.
const CHUNK: u64 = 64 << 10;

/// What stands behind a mapping: a file of the operating system, or a simulated one.
pub(crate) trait Backing: Send + Sync {
    /// Gives blocks to a range, keeping what is there, and grows the file to its end. Two calls at
    /// once never overlap.
    fn allocate(&self, range: Range<u64>) -> io::Result<()>;
    /// Makes everything durable that was stored before the call.
    fn sync(&self) -> io::Result<()>;
    /// Makes a range zeros and gives its blocks back.
    fn clear(&self, range: Range<u64>) -> io::Result<()>;
    /// Finds the first range at or behind `from` that may hold bytes other than zero. It is not
    /// empty, and may end behind the file.
    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>>;
    /// Returns the bytes that the file takes on the disk.
    fn disk_bytes(&self) -> io::Result<u64>;
    /// Called in the middle of every store, if [`Backing::watches`].
    fn storing(&self) {}
    /// Tells whether stores are watched.
    fn watches(&self) -> bool {
        false
    }
}

/// The memory of a mapping, shared by its users.
#[derive(Clone)]
pub(crate) struct Memory {
    /// Where `mapping` begins.
    base: *mut u8,
    mapping: Arc<MmapRaw>,
}

// SAFETY: the pointer is used only within the mapping, which lives as long as this and is itself for
// all threads; all accesses go through `racing`, which is made for several at once.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn new(mapping: MmapRaw) -> Self {
        Self {
            base: mapping.as_mut_ptr(),
            mapping: Arc::new(mapping),
        }
    }

    /// Copies bytes out; panics beyond the end.
    #[inline]
    pub(crate) fn load(&self, offset: u64, to: &mut [u8]) {
        // SAFETY: within the mapping, as `at` has checked. Whoever else accesses it does so through
        // `racing` as well.
        unsafe { racing::load(self.at(offset, to.len()), to) }
    }

    /// Copies bytes in; panics beyond the end.
    #[inline]
    pub(crate) fn store(&self, offset: u64, from: &[u8]) {
        // SAFETY: as for `load`.
        unsafe { racing::store(from, self.at(offset, from.len())) }
    }

    /// Writes what was stored back to the file.
    pub(crate) fn flush(&self) -> io::Result<()> {
        self.mapping.flush()
    }

    #[inline]
    fn at(&self, offset: u64, len: usize) -> *mut u8 {
        let room = (self.mapping.len() as u64).checked_sub(len as u64);
        assert!(
            room.is_some_and(|room| offset <= room),
            "an access is within the mapping"
        );
        // SAFETY: `offset` is within the mapping.
        unsafe { self.base.add(offset as usize) }
    }
}

/// A file that many threads read and write as memory, up to a capacity that is set when it is mapped.
///
/// Reads and writes are copies of bytes that may race with each other: a read that overlaps a write
/// sees any part of it. They never run into a missing page: a write goes only where space was
/// [reserved](MappedFile::reserve), so a full disk is an error and not a signal, and what lies
/// beyond the file's end reads as zeros. (A disk that can't read a block any more still ends the
/// process with a signal, as with every mapping.)
///
/// After the death of the process the file holds all that was written, in the order in which each
/// thread wrote. After a power cut it holds what was written before the last [`MappedFile::sync`],
/// and any part of what came later.
pub struct MappedFile {
    memory: Memory,
    /// Bytes of the file: what may be touched. Only grows, up to the capacity.
    len: AtomicU64,
    capacity: u64,
    watched: bool,
    /// A bit for each chunk that has its blocks.
    reserved: Box<[AtomicU64]>,
    growth: Mutex<()>,
    backing: Box<dyn Backing>,
}

impl MappedFile {
    /// The memory must have `capacity` bytes, of which the file behind it has `len`.
    pub(crate) fn new(memory: Memory, len: u64, capacity: u64, backing: Box<dyn Backing>) -> Self {
        assert!(
            memory.mapping.len() as u64 >= capacity && len <= capacity,
            "the memory is as large as the file can be"
        );
        let words = capacity.div_ceil(CHUNK).div_ceil(64);
        Self {
            memory,
            len: AtomicU64::new(len),
            capacity,
            watched: backing.watches(),
            reserved: (0..words).map(|_| AtomicU64::new(0)).collect(),
            growth: Mutex::new(()),
            backing,
        }
    }

    /// Returns the bytes that the file can have.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the bytes that the file has.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Tells whether the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes out of the file.
    #[inline]
    pub fn load(&self, offset: u64, to: &mut [u8]) {
        match self.place(offset, to.len()) {
            // SAFETY: within the mapping, as `place` has checked.
            Some(from) => unsafe { racing::load(from, to) },
            None => self.load_at_end(offset, to),
        }
    }

    /// Reads a little-endian number of 64 bits.
    #[inline]
    pub fn load_u64(&self, offset: u64) -> u64 {
        if let Some(from) = self.place(offset, 8) {
            // SAFETY: within the mapping, as `place` has checked.
            return unsafe { racing::load_u64(from) };
        }
        let mut bytes = [0; 8];
        self.load_at_end(offset, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Tells the processor that a byte is going to be read and written.
    #[inline]
    pub fn prefetch(&self, offset: u64) {
        if let Some(place) = self.place(offset, 1) {
            racing::prefetch(place);
        }
    }

    /// Returns where some bytes of the file are in memory.
    #[inline]
    fn place(&self, offset: u64, len: usize) -> Option<*mut u8> {
        let room = self.len().checked_sub(len as u64)?;
        // SAFETY: the file's length is at most the capacity, which is at most the mapping's.
        (offset <= room).then(|| unsafe { self.memory.base.add(offset as usize) })
    }

    #[cold]
    fn load_at_end(&self, offset: u64, to: &mut [u8]) {
        let held = self.len().saturating_sub(offset).min(to.len() as u64) as usize;
        let (held, beyond) = to.split_at_mut(held);
        if !held.is_empty() {
            self.memory.load(offset, held);
        }
        beyond.fill(0);
    }

    /// Makes sure that there is room on the disk for a write there: `StorageFull` if not, or if it is
    /// beyond the capacity. The file grows as needed.
    #[inline]
    pub fn reserve(&self, offset: u64, len: usize) -> io::Result<()> {
        let last = offset.saturating_add((len as u64).saturating_sub(1));
        if offset / CHUNK == last / CHUNK && self.is_reserved(offset / CHUNK) {
            return Ok(());
        }
        self.reserve_more(offset, last)
    }

    #[inline]
    fn is_reserved(&self, chunk: u64) -> bool {
        let word = self.reserved.get((chunk / 64) as usize);
        word.is_some_and(|word| word.load(Ordering::Acquire) & (1 << (chunk % 64)) != 0)
    }

    #[cold]
    fn reserve_more(&self, offset: u64, last: u64) -> io::Result<()> {
        if last >= self.capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        for chunk in offset / CHUNK..=last / CHUNK {
            if self.is_reserved(chunk) {
                continue;
            }
            let _growth = crate::locked(&self.growth);
            if self.is_reserved(chunk) {
                continue;
            }
            let end = ((chunk + 1) * CHUNK).min(self.capacity);
            self.backing.allocate(chunk * CHUNK..end)?;
            self.len.fetch_max(end, Ordering::Release);
            if let Some(word) = self.reserved.get((chunk / 64) as usize) {
                word.fetch_or(1 << (chunk % 64), Ordering::Release);
            }
        }
        Ok(())
    }

    /// Returns a part of the file, if the file reaches that far.
    #[inline]
    pub fn part(&self, offset: u64, len: usize) -> Option<Window<'_>> {
        let place = self.place(offset, len)?;
        Some(Window {
            file: self,
            place,
            len,
        })
    }

    /// Returns a part of the file to write to, where space was reserved before.
    #[inline]
    pub fn window(&self, offset: u64, len: usize) -> Window<'_> {
        #[expect(clippy::expect_used, reason = "whoever writes has to reserve")]
        self.part(offset, len)
            .expect("space is reserved before it is written to")
    }

    /// Tells whether a store of so many bytes is one instruction of the processor, so that the end of
    /// the process finds it done or not done. (Other threads may still see any part of it.)
    #[inline]
    pub const fn stores_at_once(len: usize) -> bool {
        racing::is_one_move(len)
    }

    /// Copies bytes into the file, where space was reserved before.
    #[inline]
    pub fn store(&self, offset: u64, from: &[u8]) {
        self.window(offset, from.len()).store(0, from);
    }

    /// Writes a little-endian number of 64 bits, where space was reserved before: see
    /// [`Window::store_u64`].
    #[inline]
    pub fn store_u64(&self, offset: u64, value: u64) {
        self.window(offset, 8).store_u64(0, value);
    }

    /// Makes a range zeros and gives its space back; it must be reserved again before it is written
    /// to. Nobody else may write there meanwhile; a reader may see any part of it.
    pub fn clear(&self, range: Range<u64>) -> io::Result<()> {
        let range = range.start.min(self.len())..range.end.min(self.len());
        if range.is_empty() {
            return Ok(());
        }
        let _growth = crate::locked(&self.growth);
        for chunk in range.start / CHUNK..=(range.end - 1) / CHUNK {
            if let Some(word) = self.reserved.get((chunk / 64) as usize) {
                word.fetch_and(!(1 << (chunk % 64)), Ordering::Release);
            }
        }
        self.backing.clear(range)
    }

    /// Finds the first range at or behind `from` that may hold bytes other than zero: holes of a
    /// sparse file are skipped without being read. The range is not empty, and may end behind the
    /// file.
    pub fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        self.backing.next_data(from)
    }

    /// Returns the bytes that the file takes on the disk: holes take none.
    pub fn disk_bytes(&self) -> io::Result<u64> {
        self.backing.disk_bytes()
    }

    /// Makes everything durable that was written before the call. What is written meanwhile may be,
    /// in any part.
    pub fn sync(&self) -> io::Result<()> {
        self.backing.sync()
    }
}

/// A part of a mapped file; written to only where space was reserved before.
pub struct Window<'a> {
    file: &'a MappedFile,
    place: *mut u8,
    len: usize,
}

impl Window<'_> {
    /// Copies bytes out, if the part reaches that far; else tells that it does not, and does nothing.
    #[inline]
    #[must_use]
    pub fn load(&self, at: usize, to: &mut [u8]) -> bool {
        let is_within = self
            .len
            .checked_sub(at)
            .is_some_and(|room| to.len() <= room);
        if is_within {
            // SAFETY: within the window, as was just seen, which is within the mapping.
            unsafe { racing::load(self.place.add(at), to) }
        }
        is_within
    }

    /// Reads a byte; panics beyond the part's end.
    #[inline]
    pub fn load_u8(&self, at: usize) -> u8 {
        // SAFETY: within the mapping, as `at` has checked.
        unsafe { racing::load_u8(self.at(at, 1)) }
    }

    /// Copies bytes in; panics beyond the part's end.
    #[inline]
    pub fn store(&self, at: usize, from: &[u8]) {
        let to = self.at(at, from.len());
        if self.file.watched {
            self.store_watched(from, to);
        } else {
            // SAFETY: within the mapping, as `at` has checked.
            unsafe { racing::store(from, to) }
        }
    }

    /// Lets the backing in, in the middle of a store that has one.
    #[cold]
    fn store_watched(&self, from: &[u8], to: *mut u8) {
        let middle = if MappedFile::stores_at_once(from.len()) {
            0
        } else {
            from.len().div_ceil(2)
        };
        let (first, second) = from.split_at(middle);
        // SAFETY: both halves are within the mapping, as `store` has checked for the whole.
        unsafe { racing::store(first, to) };
        self.file.backing.storing();
        // SAFETY: as above.
        unsafe { racing::store(second, to.add(first.len())) };
    }

    /// Writes a little-endian number of 64 bits. Where that is a multiple of 8 in the file the end of
    /// the process finds it whole or not at all.
    #[inline]
    pub fn store_u64(&self, at: usize, value: u64) {
        let to = self.at(at, 8);
        if self.file.watched {
            self.file.backing.storing();
        }
        // SAFETY: within the mapping, as `at` has checked.
        unsafe { racing::store_u64(to, value) }
    }

    #[inline]
    fn at(&self, at: usize, len: usize) -> *mut u8 {
        let room = self.len.checked_sub(len);
        assert!(
            room.is_some_and(|room| at <= room),
            "a write is within its window"
        );
        // SAFETY: the window is within the mapping, which lives as long as the file.
        unsafe { self.place.add(at) }
    }
}

impl fmt::Debug for Window<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedFile")
            .field("len", &self.len())
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}
