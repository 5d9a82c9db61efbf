//! The buffer that a batch is made in: its bytes lie in memory as they will in the file, so that the
//! disk can take them from there.

use std::ops::{Deref, DerefMut};

use hikyaku_vfs::BLOCK_BYTES;

/// Bytes that were not cleared between two batches are what the one before left.
#[derive(Debug, Default)]
pub(super) struct BatchBuffer {
    room: Vec<u8>,
    start: usize,
    len: usize,
}

impl BatchBuffer {
    /// Makes it so many bytes long, whatever they are, to be written at an offset.
    pub(super) fn begin(&mut self, offset: u32, len: usize) {
        let most = len + 2 * BLOCK_BYTES;
        if self.room.len() < most {
            self.room.resize(most, 0);
        }
        let lies_at = self.room.as_ptr().addr();
        self.start = (offset as usize).wrapping_sub(lies_at) % BLOCK_BYTES;
        self.len = len;
    }

    /// Fills it with zeros up to a length.
    pub(super) fn pad(&mut self, len: usize) {
        let end = self.start + len;
        if self.room.len() < end {
            self.room.resize(end, 0);
        }
        let padding = self.room.get_mut(self.start + self.len..end);
        padding.unwrap_or_default().fill(0);
        self.len = len;
    }

    /// Gives back the memory that is more than this.
    pub(super) fn keep(&mut self, bytes: usize) {
        self.len = 0;
        self.room.truncate(bytes);
        self.room.shrink_to(bytes);
    }
}

impl From<Vec<u8>> for BatchBuffer {
    fn from(room: Vec<u8>) -> Self {
        Self {
            start: 0,
            len: room.len(),
            room,
        }
    }
}

impl Deref for BatchBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let bytes = self.room.get(self.start..self.start + self.len);
        bytes.unwrap_or_default()
    }
}

impl DerefMut for BatchBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let bytes = self.room.get_mut(self.start..self.start + self.len);
        bytes.unwrap_or_default()
    }
}
