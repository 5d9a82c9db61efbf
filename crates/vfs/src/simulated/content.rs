//! What a simulated file holds: what is seen, what is durable, and the changes between the two.

use super::random::Random;
use crate::mapping::Memory;

/// The unit that a disk writes whole or not at all, in bytes.
const SECTOR: u64 = 512;

#[derive(Default)]
pub(super) struct Content {
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// In order, since the last sync.
    changes: Vec<Change>,
    /// Where what is seen may have been changed by whoever has mapped it.
    mapped: Option<Memory>,
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl Content {
    pub(super) fn seen(&self) -> &[u8] {
        &self.seen
    }

    /// Lets what is seen be changed as memory, until [`Content::unmap`]. False if it is already.
    pub(super) fn map(&mut self, memory: &Memory) -> bool {
        let free = self.mapped.is_none();
        if free {
            memory.store(0, &self.seen);
            self.mapped = Some(memory.clone());
        }
        free
    }

    pub(super) fn unmap(&mut self) {
        self.absorb();
        self.mapped = None;
    }

    /// Takes what was stored to the mapped memory as writes of the sectors that differ.
    pub(super) fn absorb(&mut self) {
        let Some(memory) = &self.mapped else {
            return;
        };
        let mut now = vec![0; self.seen.len()];
        memory.load(0, &mut now);
        let sector = SECTOR as usize;
        let mut at = 0;
        for new in now.chunks(sector) {
            if self.seen.get(at..at + new.len()) != Some(new) {
                self.change(Change::Write {
                    offset: at,
                    bytes: new.to_vec(),
                });
            }
            at += new.len();
        }
    }

    /// Returns a copy that shares nothing with this one.
    pub(super) fn copy(&self) -> Self {
        Self {
            seen: self.seen.clone(),
            durable: self.durable.clone(),
            changes: self.changes.clone(),
            mapped: None,
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        if let Some(memory) = &self.mapped {
            memory.store(offset as u64, bytes);
        }
        self.change(Change::Write {
            offset,
            bytes: bytes.to_vec(),
        });
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.change(Change::SetLen(len));
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.seen);
        self.changes.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in self.changes.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// A sync that fails, as Linux has it: some changes reach the disk, the others are taken for
    /// written. They can still be read, but no later sync will write them.
    pub(super) fn sync_failing(&mut self, random: &mut Random) {
        let percent = random.survival_percent();
        for change in self.changes.drain(..) {
            if random.chance(percent) {
                change.apply(&mut self.durable);
            }
        }
    }

    /// Flips one bit where it is durable and where it is seen; false if there is no such bit.
    pub(super) fn flip_bit(&mut self, bit: u64) -> bool {
        let (byte, mask) = ((bit / 8) as usize, 1 << (bit % 8));
        let mut flipped = false;
        for bytes in [&mut self.seen, &mut self.durable] {
            if let Some(byte) = bytes.get_mut(byte) {
                *byte ^= mask;
                flipped = true;
            }
        }
        flipped
    }

    /// Returns what a crash leaves: what is durable, any sectors of unsynced writes, and the length
    /// as some unsynced changes, in their order, had made it.
    pub(super) fn after_crash(&self, random: &mut Random) -> Self {
        let percent = random.survival_percent();
        let lengths_kept = match random.up_to(2) {
            0 => 0,
            1 => self.changes.len(),
            _ => random.up_to(self.changes.len() as u64) as usize,
        };
        let mut bytes = self.durable.clone();
        let mut len = bytes.len();
        for (index, change) in self.changes.iter().enumerate() {
            let length_kept = index < lengths_kept;
            match change {
                Change::Write { offset, bytes: new } => {
                    for (at, sector) in sectors(*offset, new) {
                        if random.chance(percent) {
                            put(&mut bytes, at, sector);
                        }
                    }
                    if length_kept {
                        len = len.max(offset + new.len());
                    }
                }
                Change::SetLen(new) if length_kept => {
                    bytes.truncate(*new);
                    len = *new;
                }
                Change::SetLen(_) => {}
            }
        }
        bytes.resize(len, 0);
        Self {
            seen: bytes.clone(),
            durable: bytes,
            changes: Vec::new(),
            mapped: None,
        }
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => put(content, *offset, bytes),
            Self::SetLen(len) => content.resize(*len, 0),
        }
    }
}

fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    if let Some(place) = content.get_mut(offset..end) {
        place.copy_from_slice(bytes);
    }
}

/// Splits a write at the disk's sector boundaries.
fn sectors(offset: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let (mut at, mut rest) = (offset, bytes);
    std::iter::from_fn(move || {
        let room = (SECTOR - at as u64 % SECTOR) as usize;
        let (sector, after) = rest.split_at(room.min(rest.len()));
        let start = at;
        at += sector.len();
        rest = after;
        (!sector.is_empty()).then_some((start, sector))
    })
}
