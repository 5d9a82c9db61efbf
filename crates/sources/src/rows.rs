//! What a source gives: lines, some of which only tell why there is no event.

use crate::{SourceError, lines::Note};

/// About how many bytes of lines one call of [`Source::read`] gives: memory stays bounded, and a
/// transaction short.
pub(crate) const BATCH_BYTES: usize = 1 << 20;

/// A relay's database, read from its beginning to its end.
pub trait Source: Send {
    /// Returns about how many rows there are, if that is cheap to know.
    fn total(&self) -> Option<u64>;

    /// Appends the next rows, about a megabyte. Nothing is appended at the end only.
    fn read(&mut self, rows: &mut Rows) -> Result<(), SourceError>;
}

/// Lines for the import, one for each row of the source.
#[derive(Debug, Default)]
pub struct Rows {
    bytes: Vec<u8>,
}

impl Rows {
    /// Appends an event's JSON as it is in the source. It stays one line, whatever it holds: JSON
    /// has line ends between its tokens only, where a space is as good.
    pub fn event(&mut self, json: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(json);
        for byte in self.bytes.iter_mut().skip(start) {
            if *byte == b'\n' {
                *byte = b' ';
            }
        }
        self.bytes.push(b'\n');
    }

    /// Tells that the source does not serve this row any more (deleted, hidden).
    pub fn left_out(&mut self) {
        self.note(&Note::LeftOut);
    }

    /// Tells that the source has a row that can't be read, and why.
    pub fn unreadable(&mut self, reason: String) {
        self.note(&Note::Unreadable(reason));
    }

    /// Returns the lines so far, without their ends.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| line.strip_suffix(b"\n").unwrap_or(line))
    }

    fn note(&mut self, note: &Note) {
        self.event(&note.line());
    }

    /// Tells whether a batch is complete.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }
}
