//! Walking the frames of a file's bytes in order, and looking for frames behind damage.

use std::path::Path;

use bytes::Bytes;
use hikyaku_store::Sequence;

use super::{
    error::LogError,
    frame::{ALIGNMENT, Frame, FrameDamage},
    position::LogPosition,
    record::Record,
};

/// The frames of a file, from the front.
#[derive(Debug, Clone)]
pub(super) struct Scan {
    bytes: Bytes,
    file: u32,
    /// In a rewritten file frames stand elsewhere than they say.
    rewritten: bool,
    at: usize,
    last_sequence: Sequence,
    offset_min: u32,
}

impl Scan {
    /// Starts at an offset of a file's bytes; all sequences must be above the given one.
    pub(super) fn new(
        bytes: Bytes,
        file: u32,
        rewritten: bool,
        at: usize,
        below_first: Sequence,
    ) -> Self {
        Self {
            bytes,
            file,
            rewritten,
            at,
            last_sequence: below_first,
            offset_min: 0,
        }
    }

    /// Where the next frame should begin.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The sequence of the frame before, or what the scan was started with.
    pub(super) fn last_sequence(&self) -> Sequence {
        self.last_sequence
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Takes the next frame. Damage leaves the scan where it is.
    pub(super) fn next_frame(&mut self) -> Result<Frame, FrameDamage> {
        let frame = self.frame_at(self.at)?;
        self.at = frame.end;
        self.last_sequence = frame.sequence;
        self.offset_min = frame.offset + 1;
        Ok(frame)
    }

    /// Looks for intact frames behind damage, at whatever offset.
    pub(super) fn following(&self) -> impl Iterator<Item = Frame> {
        let candidates = (self.at + ALIGNMENT..self.bytes.len()).step_by(ALIGNMENT);
        // That it states its own offset is quickly seen, and leaves next to nothing to checksum.
        let plausible = candidates.filter(|at| self.rewritten || self.states_offset(*at));
        plausible.filter_map(|at| self.frame_at(at).ok())
    }

    /// Returns what stands where the next frame should begin, without zeros at its end.
    pub(super) fn tail(&self) -> Bytes {
        let tail = self.bytes.slice(self.at.min(self.bytes.len())..);
        let len = tail.iter().rposition(|byte| *byte != 0);
        tail.slice(..len.map_or(0, |last| last + 1))
    }

    /// Goes on elsewhere.
    pub(super) fn move_to(&mut self, at: usize) {
        self.at = at;
    }

    fn states_offset(&self, at: usize) -> bool {
        Frame::stated_offset(&self.bytes, at).is_some_and(|offset| offset as usize == at)
    }

    fn frame_at(&self, at: usize) -> Result<Frame, FrameDamage> {
        let frame = Frame::read(&self.bytes, at, self.file)?;
        let misplaced = if self.rewritten {
            frame.offset < self.offset_min
        } else {
            frame.offset as usize != at
        };
        if misplaced {
            let stated = frame.offset;
            return Err(FrameDamage::Misplaced { stated, at });
        }
        if frame.sequence <= self.last_sequence {
            return Err(FrameDamage::Order {
                above: self.last_sequence,
                found: frame.sequence,
            });
        }
        Ok(frame)
    }

    /// Decodes a frame of this file.
    pub(super) fn decode(
        &self,
        frame: &Frame,
        path: &Path,
    ) -> Result<(LogPosition, Sequence, Record), LogError> {
        let record = decode(&self.bytes, frame, path)?;
        let position = LogPosition {
            file: self.file,
            offset: frame.offset,
        };
        Ok((position, frame.sequence, record))
    }
}

/// Decodes a frame's record. Its checksum being right, one that can't be decoded was not written by
/// this version.
pub(super) fn decode(bytes: &Bytes, frame: &Frame, path: &Path) -> Result<Record, LogError> {
    frame.record(bytes).ok_or_else(|| {
        LogError::corrupt(
            path,
            frame.start,
            "a record of a known kind",
            format_args!("kind {} with flags {}", frame.kind, frame.flags),
        )
    })
}
