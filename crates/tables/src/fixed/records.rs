//! The records of one file: reading, writing, and what the death of the process must not tear.
//!
//! Nothing here takes a lock. A writer holds its record's stripe, a reader checks its sequence.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{Ordering, compiler_fence},
    },
};

use hikyaku_vfs::{MappedFile, Window};

use super::{
    blocks::{BLOCK, Blocks},
    layout::{INTENT_HEAD_LEN, Layout},
    stripe::Locked,
    threads,
};
use crate::TableError;

/// FORMAT: the length of an intent that removes a record.
const REMOVAL: u32 = u32::MAX;

/// FORMAT: the first byte of an empty value, by which it is told from a record that is not there.
const EMPTY: u8 = 1;

/// FORMAT: bytes of a value up to which the checksum of its note is made word by word.
const SHORT: usize = 64;

/// What is in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// No record.
    Absent,
    /// A value of so many bytes.
    Value(usize),
    /// A length that is above the width.
    Damaged(u64),
}

/// Where a thread notes what it is about to write.
#[derive(Debug, Clone, Copy)]
struct Intent {
    number: u64,
    /// Whether others may be using it too.
    is_spare: bool,
}

/// The records of one file.
#[derive(Debug)]
pub(super) struct Records {
    map: MappedFile,
    layout: Layout,
    /// The largest key.
    limit: u64,
    /// Blocks that may have records: all that have.
    pub(super) blocks: Blocks,
    spare_intent: Mutex<()>,
    path: PathBuf,
}

/// Turns what a disk says into what a table says.
pub(super) fn disk_error(error: io::Error) -> TableError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            TableError::Full
        }
        _ => TableError::Io(error),
    }
}

impl Records {
    pub(super) fn new(map: MappedFile, layout: Layout, path: &Path) -> Self {
        let limit = layout.records_in(map.capacity());
        Self {
            map,
            layout,
            limit,
            blocks: Blocks::new(limit),
            spare_intent: Mutex::new(()),
            path: path.to_path_buf(),
        }
    }

    #[inline]
    pub(super) const fn layout(&self) -> &Layout {
        &self.layout
    }

    #[inline]
    pub(super) const fn map(&self) -> &MappedFile {
        &self.map
    }

    /// Returns the largest key.
    #[inline]
    pub(super) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns a key's place in the array.
    #[inline]
    pub(super) fn index(&self, key: u64) -> Result<u64, TableError> {
        match key.wrapping_sub(1) {
            index if index < self.limit => Ok(index),
            u64::MAX => Err(TableError::KeyNotANumber),
            _ => Err(TableError::KeyTooLarge { limit: self.limit }),
        }
    }

    /// Says where the file is damaged.
    pub(super) fn damaged(&self, index: u64, len: u64) -> TableError {
        TableError::Corrupt(format!(
            "{}: the length at offset {} is {len}, expected at most {}",
            self.path.display(),
            self.layout.slot(index),
            self.layout.width
        ))
    }

    /// Returns what is in a slot.
    #[inline]
    pub(super) fn slot(&self, index: u64) -> Slot {
        let offset = self.layout.slot(index);
        let len = if self.layout.length_len == 1 {
            let mut len = [0];
            self.map.load(offset, &mut len);
            u64::from(u8::from_le_bytes(len))
        } else {
            self.long_len(offset)
        };
        if len == 0 {
            return self.slot_without_length(offset);
        }
        if len > self.layout.width as u64 {
            return Slot::Damaged(len);
        }
        Slot::Value(len as usize)
    }

    /// Reads a length of more than one byte.
    fn long_len(&self, offset: u64) -> u64 {
        let mut bytes = [0; 4];
        if let Some(len) = bytes.get_mut(..self.layout.length_len) {
            self.map.load(offset, len);
        }
        u32::from_le_bytes(bytes).into()
    }

    fn slot_without_length(&self, offset: u64) -> Slot {
        let mut first = [0];
        self.map
            .load(offset + self.layout.length_len as u64, &mut first);
        match first {
            [0] => Slot::Absent,
            _ => Slot::Value(0),
        }
    }

    /// Reads a value into a buffer and returns its length, if that is what there is most of: a value
    /// that is not empty, and not longer than the buffer.
    ///
    /// How many reads wait for memory at the same time is how many the processor sees at once, so
    /// every instruction counts: see `examples/fixed_cost.rs`.
    #[inline]
    pub(super) fn read(&self, index: u64, buffer: &mut [u8]) -> Option<usize> {
        let layout = &self.layout;
        if index >= self.limit {
            return None;
        }
        let slot_len = layout.slot_len();
        let slot = self.map.part(layout.slot(index), slot_len as usize)?;
        let len = self.length(&slot);
        // 0 becomes more than any buffer has.
        if len.wrapping_sub(1) >= buffer.len() {
            return None;
        }
        let is_whole = slot.load(layout.length_len, buffer.get_mut(..len)?);
        is_whole.then_some(len)
    }

    /// Reads the length in a slot.
    #[inline]
    fn length(&self, slot: &Window<'_>) -> usize {
        match self.layout.length_len {
            1 => usize::from(slot.load_u8(0)),
            len => {
                let mut bytes = [0; 4];
                // The slot begins with it.
                let _ = bytes.get_mut(..len).map(|bytes| slot.load(0, bytes));
                u32::from_le_bytes(bytes) as usize
            }
        }
    }

    /// Writes a value over another one of the same length, if that is a single instruction: the end of
    /// the process can't tear it, so it needs no note. False if it is not so; nothing is done then.
    /// Its space must have been reserved.
    #[inline]
    pub(super) fn overwrite(&self, locked: &Locked<'_>, index: u64, value: &[u8]) -> bool {
        let layout = &self.layout;
        if !MappedFile::stores_at_once(value.len()) {
            return false;
        }
        let slot = self
            .map
            .window(layout.slot(index), layout.slot_len() as usize);
        if self.length(&slot) != value.len() {
            return false;
        }
        locked.write(|| slot.store(layout.length_len, value));
        true
    }

    /// Tells the processor that a record is going to be changed.
    #[inline]
    pub(super) fn prefetch(&self, index: u64) {
        self.map.prefetch(self.layout.slot(index));
    }

    /// Copies a value's first bytes.
    #[inline]
    pub(super) fn value(&self, index: u64, to: &mut [u8]) {
        let offset = self.layout.slot(index) + self.layout.length_len as u64;
        self.map.load(offset, to);
    }

    /// Returns which records of a block there are, the first in the lowest bit.
    pub(super) fn present(&self, block: u64) -> u16 {
        let first = block * BLOCK;
        let here = first..(first + BLOCK).min(self.limit);
        let present = here.filter(|index| self.slot(*index) != Slot::Absent);
        present.fold(0, |bits, index| bits | 1 << (index - first))
    }

    /// Copies a block's bytes.
    pub(super) fn block_bytes(&self, block: u64, to: &mut Vec<u8>) {
        let records = BLOCK.min(self.limit.saturating_sub(block * BLOCK));
        let start = to.len();
        to.resize(start + (records * self.layout.slot_len()) as usize, 0);
        if let Some(place) = to.get_mut(start..) {
            self.map.load(self.layout.slot(block * BLOCK), place);
        }
    }

    /// Returns where this thread notes what it is about to write.
    #[inline]
    fn intent(&self) -> Intent {
        let spare = self.layout.intents - 1;
        let number = threads::number().map_or(spare, |number| number.min(spare));
        Intent {
            number,
            is_spare: number == spare,
        }
    }

    /// Makes sure that a record can be written.
    #[inline]
    pub(super) fn prepare(&self, index: u64) -> Result<(), TableError> {
        let slot_len = self.layout.slot_len() as usize;
        let reserved = self.map.reserve(self.layout.slot(index), slot_len);
        reserved.map_err(disk_error)
    }

    /// Notes what is going to be written, calls `write`, and forgets the note: if the process ends in
    /// between, the next one that opens the table carries it out.
    #[inline]
    pub(super) fn intend(&self, index: u64, new: Option<&[u8]>, write: impl FnOnce()) {
        let intent = self.intent();
        let _alone = intent.is_spare.then(|| {
            self.spare_intent
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        });
        let note = self.map.window(
            self.layout.intent(intent.number),
            self.layout.intent_len as usize,
        );
        let key = index + 1;
        let value = new.unwrap_or_default();
        let len = new.map_or(REMOVAL, |new| new.len() as u32);
        let rest = u64::from(len) | u64::from(checksum(key, len, value)) << 32;
        note.store(INTENT_HEAD_LEN, value);
        note.store_u64(8, rest);
        // The end of the process comes between two of its instructions: their order is all that
        // counts.
        compiler_fence(Ordering::SeqCst);
        note.store_u64(0, key);
        compiler_fence(Ordering::SeqCst);
        write();
        compiler_fence(Ordering::SeqCst);
        note.store_u64(0, 0);
    }

    /// Writes a record (`None`: removes it). `old`: what was in the slot.
    #[inline]
    pub(super) fn write(&self, index: u64, old: Slot, new: Option<&[u8]>) {
        let offset = self.layout.slot(index);
        let length_len = self.layout.length_len;
        let slot = self.map.window(offset, self.layout.slot_len() as usize);
        let value = match new {
            Some([]) => &[EMPTY],
            Some(value) => value,
            None => &[0],
        };
        let len = new.map_or(0, <[u8]>::len);
        match length_len {
            1 => slot.store(0, &(len as u8).to_le_bytes()),
            2 => slot.store(0, &(len as u16).to_le_bytes()),
            _ => slot.store(0, &(len as u32).to_le_bytes()),
        }
        slot.store(length_len, value);
        let old_len = match old {
            Slot::Absent => 0,
            Slot::Value(len) => len,
            Slot::Damaged(_) => self.layout.width,
        };
        if old_len > value.len() {
            self.zero(
                offset + (length_len + value.len()) as u64,
                old_len - value.len(),
            );
        }
    }

    /// What lies behind a value is zeros: nothing of an older one is left.
    #[cold]
    fn zero(&self, mut offset: u64, mut len: usize) {
        const ZEROS: [u8; 512] = [0; 512];
        while let Some(zeros) = ZEROS.get(..len.min(ZEROS.len())).filter(|_| len > 0) {
            self.map.store(offset, zeros);
            offset += zeros.len() as u64;
            len -= zeros.len();
        }
    }

    /// Carries out what was noted and not done when the process ended; tells whether there was
    /// something. A note that was itself not whole is for a record that was not touched yet.
    pub(super) fn recover_intents(&self) -> Result<bool, TableError> {
        let mut found = false;
        for number in 0..self.layout.intents {
            let offset = self.layout.intent(number);
            let key = self.map.load_u64(offset);
            if key == 0 {
                continue;
            }
            found = true;
            if let Ok(index) = self.index(key) {
                let rest = self.map.load_u64(offset + 8);
                let (len, stated) = (rest as u32, (rest >> 32) as u32);
                let value_len = if len == REMOVAL { 0 } else { len as usize };
                if value_len <= self.layout.width {
                    let mut value = vec![0; value_len];
                    self.map.load(offset + INTENT_HEAD_LEN as u64, &mut value);
                    if stated == checksum(key, len, &value) {
                        self.prepare(index)?;
                        let new = (len != REMOVAL).then_some(&value[..]);
                        // Whatever is in the slot is in pieces.
                        let old = Slot::Damaged(0);
                        self.write(index, old, new);
                    }
                }
            }
            compiler_fence(Ordering::SeqCst);
            self.map.store_u64(offset, 0);
        }
        Ok(found)
    }

    /// Notes which blocks may have records, going by the file's holes.
    pub(super) fn find_blocks(&self) -> Result<(), TableError> {
        let start = self.layout.records_offset;
        let mut at = start;
        while let Some(data) = self.map.next_data(at)? {
            let first = data.start.max(start) - start;
            let end = (data.end.max(start) - start).div_ceil(self.layout.slot_len());
            let blocks =
                first / self.layout.slot_len() / BLOCK..end.min(self.limit).div_ceil(BLOCK);
            for block in blocks {
                self.blocks.set(block);
            }
            at = data.end;
        }
        Ok(())
    }

    /// Counts the records, and forgets blocks that have none. Nobody may be writing.
    pub(super) fn scan(&self) -> u64 {
        let mut count = 0;
        let mut from = 0;
        while let Some(block) = self.blocks.next(from) {
            let present = self.present(block);
            count += u64::from(present.count_ones());
            if present == 0 {
                self.blocks.clear(block);
            }
            from = block + 1;
        }
        count
    }
}

/// FORMAT: the checksum of a note. It has to be quick for short values, and need only tell a note that
/// a power cut has torn.
#[inline]
fn checksum(key: u64, len: u32, value: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let mut sum = mix(mix(0, key), u64::from(len));
    if value.len() > SHORT {
        sum = mix(sum, u64::from(crc32fast::hash(value)));
    } else {
        let (words, rest) = value.as_chunks::<8>();
        for word in words {
            sum = mix(sum, u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        sum = mix(sum, u64::from_le_bytes(last));
    }
    (sum ^ (sum >> 32)) as u32
}
