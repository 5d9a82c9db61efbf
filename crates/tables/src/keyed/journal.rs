//! The journal before the B-tree: what was answered and is not yet in its file.
//!
//! The B-tree's own durable commit writes pages all over its file; the journal takes the same
//! updates in one write behind the last, and makes many of them durable with one sync. Frames are
//! numbered; the B-tree's every commit says which frame it includes, so that after a crash exactly
//! the frames behind that one are carried out again. When the journal has become long, the B-tree
//! is made durable and the journal begins anew.

use std::{io, path::Path};

use hikyaku_vfs::{Disk, File};

use super::damage::damaged;
use crate::TableError;

// FORMAT: see docs/format/keyed-table.md.
const FILE_MAGIC: [u8; 8] = *b"HKYJRNL1";
const FRAME_MAGIC: [u8; 4] = *b"HKJF";
const FRAME_HEADER_BYTES: usize = 32;
/// Frames begin at multiples of this.
const ALIGNMENT: u64 = 8;

/// Bytes that the file grows by: written as zeros before they are needed, so that a full disk is
/// known before an update, and a sync need not write the file's length as well.
const GROWTH_BYTES: u64 = 1 << 20;

/// Bytes that a search for frames behind a broken one reads at a time.
const WINDOW_BYTES: u64 = 1 << 20;

/// An open journal.
pub(super) struct Journal {
    file: Box<dyn File>,
    /// Where the next frame goes.
    end: u64,
    /// Where the last one went.
    last: u64,
    /// Bytes that the file has.
    len: u64,
    /// The last frame that is durable.
    synced: u64,
    /// The last frame written.
    written: u64,
    buffer: Vec<u8>,
}

/// The head of a frame.
#[derive(Debug, Clone, Copy)]
struct Head {
    body_len: u32,
    sequence: u64,
    /// The last frame that was durable when this one was written.
    synced: u64,
    checksum: u32,
}

impl Journal {
    /// Opens the journal, or makes an empty one, and calls `replay` with the body of each frame
    /// behind number `after`, in order. It is to be cleared then: what a crash left half written at
    /// its end must not follow a new frame.
    pub(super) fn open(
        disk: &Disk,
        path: &Path,
        after: u64,
        mut replay: impl FnMut(u64, &[u8]) -> Result<(), TableError>,
    ) -> Result<Self, TableError> {
        let file = disk.open(path)?;
        let len = file.len()?;
        let mut journal = Self {
            file,
            end: FILE_MAGIC.len() as u64,
            last: FILE_MAGIC.len() as u64,
            len,
            synced: after,
            written: after,
            buffer: Vec::new(),
        };
        if !journal.has_magic(path)? {
            return Ok(journal);
        }
        let mut last = None;
        while let Some(head) = journal.frame_at(journal.end)? {
            match last {
                // What is behind the last frame may be left from before the journal began anew.
                Some(last) if head.sequence != last + 1 => break,
                None if head.sequence > after + 1 => {
                    return Err(damaged(path, &format!("frame {} is missing", after + 1)));
                }
                _ => {}
            }
            if head.sequence > after {
                replay(head.sequence, body(&journal.buffer))?;
                journal.written = head.sequence;
            }
            last = Some(head.sequence);
            journal.end += frame_bytes(head.body_len as usize);
        }
        journal.check_nothing_lost(path)?;
        Ok(journal)
    }

    /// Empties the file.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(&FILE_MAGIC, 0)?;
        self.file.sync_data()?;
        self.len = FILE_MAGIC.len() as u64;
        self.restart();
        Ok(())
    }

    /// Tells whether this is a journal; a file that is too short was being made.
    fn has_magic(&self, path: &Path) -> Result<bool, TableError> {
        let mut magic = [0; FILE_MAGIC.len()];
        if self.len < magic.len() as u64 {
            return Ok(false);
        }
        self.file.read_exact_at(&mut magic, 0)?;
        if magic == FILE_MAGIC {
            return Ok(true);
        }
        // A power cut can leave the length without the bytes.
        if magic == [0; FILE_MAGIC.len()] {
            return Ok(false);
        }
        Err(damaged(path, "it does not begin as a journal does"))
    }

    /// Reads the frame at an offset into the buffer, if there is a whole one.
    fn frame_at(&mut self, offset: u64) -> io::Result<Option<Head>> {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        if self.len.saturating_sub(offset) < bytes.len() as u64 {
            return Ok(None);
        }
        self.file.read_exact_at(&mut bytes, offset)?;
        let Some(head) = Head::read(&bytes) else {
            return Ok(None);
        };
        let frame_len = FRAME_HEADER_BYTES + head.body_len as usize;
        if self.len - offset < frame_len as u64 {
            return Ok(None);
        }
        self.buffer.clear();
        self.buffer.resize(frame_len, 0);
        self.file.read_exact_at(&mut self.buffer, offset)?;
        Ok((checksum(&self.buffer) == head.checksum).then_some(head))
    }

    /// A broken frame is the torn end of the journal unless a later frame says that it was durable.
    fn check_nothing_lost(&mut self, path: &Path) -> Result<(), TableError> {
        let (end, written) = (self.end, self.written);
        let mut at = end;
        while at < self.len {
            let window = WINDOW_BYTES.min(self.len - at);
            let mut bytes = vec![0; window as usize];
            self.file.read_exact_at(&mut bytes, at)?;
            let places = bytes.chunks(ALIGNMENT as usize).enumerate();
            let magics = places.filter(|(_, place)| place.starts_with(&FRAME_MAGIC));
            for (index, _) in magics {
                let offset = at + index as u64 * ALIGNMENT;
                let found = self.frame_at(offset)?;
                if found.is_some_and(|head| head.synced > written) {
                    return Err(damaged(
                        path,
                        &format!("frame {} at byte {end} was durable", written + 1),
                    ));
                }
            }
            at += window;
        }
        Ok(())
    }

    /// Makes sure that a frame with a body of `bytes` can be written.
    pub(super) fn reserve(&mut self, bytes: usize) -> io::Result<()> {
        let needed = self.end + frame_bytes(bytes);
        if needed > self.len {
            let growth = (needed - self.len).max(GROWTH_BYTES);
            self.file.allocate(self.len, growth)?;
            self.len += growth;
        }
        Ok(())
    }

    /// Writes the next frame. After an error it is to be taken back, and the journal not to be used
    /// any more.
    pub(super) fn append(&mut self, body: &[u8]) -> io::Result<()> {
        self.last = self.end;
        let sequence = self.written + 1;
        let bytes = frame_bytes(body.len());
        self.buffer.clear();
        self.buffer.resize(FRAME_HEADER_BYTES, 0);
        self.buffer.extend_from_slice(body);
        let mut head = Head {
            body_len: body.len() as u32,
            sequence,
            synced: self.synced,
            checksum: 0,
        };
        head.write(&mut self.buffer);
        head.checksum = checksum(&self.buffer);
        head.write(&mut self.buffer);
        self.buffer.resize(bytes as usize, 0);
        self.file.write_all_at(&self.buffer, self.end)?;
        self.end += bytes;
        self.len = self.len.max(self.end);
        self.written = sequence;
        Ok(())
    }

    /// Undoes the last call of [`Journal::append`], whatever came of it: the frame is none any more.
    pub(super) fn take_back(&mut self) -> io::Result<()> {
        self.file
            .write_all_at(&[0; FRAME_HEADER_BYTES], self.last)?;
        self.file.sync_data()
    }

    /// Makes all frames durable. After an error the journal is not to be used any more.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.synced < self.written {
            self.file.sync_data()?;
            self.synced = self.written;
        }
        Ok(())
    }

    /// Begins anew, when all frames are durable elsewhere: old ones are overwritten. Their numbers
    /// are lower than those of any new one, so that nobody takes them for its followers.
    pub(super) fn restart(&mut self) {
        self.end = FILE_MAGIC.len() as u64;
        self.synced = self.written;
    }

    /// Returns the bytes of frames.
    pub(super) const fn used(&self) -> u64 {
        self.end
    }

    /// Returns the bytes of the file.
    pub(super) const fn bytes(&self) -> u64 {
        self.len
    }
}

impl Head {
    fn read(bytes: &[u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk()?;
        let (body_len, rest) = rest.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let (synced, rest) = rest.split_first_chunk()?;
        let (checksum, _) = rest.split_first_chunk()?;
        (*magic == FRAME_MAGIC).then_some(Self {
            body_len: u32::from_le_bytes(*body_len),
            sequence: u64::from_le_bytes(*sequence),
            synced: u64::from_le_bytes(*synced),
            checksum: u32::from_le_bytes(*checksum),
        })
    }

    /// Writes the head over the first bytes of a frame.
    fn write(self, frame: &mut [u8]) {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        let fields: [&[u8]; 5] = [
            &FRAME_MAGIC,
            &self.body_len.to_le_bytes(),
            &self.sequence.to_le_bytes(),
            &self.synced.to_le_bytes(),
            &self.checksum.to_le_bytes(),
        ];
        for (place, byte) in bytes.iter_mut().zip(fields.concat()) {
            *place = byte;
        }
        if let Some(place) = frame.first_chunk_mut() {
            *place = bytes;
        }
    }
}

fn body(frame: &[u8]) -> &[u8] {
    frame.get(FRAME_HEADER_BYTES..).unwrap_or_default()
}

/// The checksum of a frame: of all but itself, which counts as zero.
fn checksum(frame: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(frame.get(..24).unwrap_or_default());
    hasher.update(&[0; 4]);
    hasher.update(frame.get(28..).unwrap_or_default());
    hasher.finalize()
}

fn frame_bytes(body_len: usize) -> u64 {
    ((FRAME_HEADER_BYTES + body_len) as u64).next_multiple_of(ALIGNMENT)
}
