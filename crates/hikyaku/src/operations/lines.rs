//! An import's input, cut into chunks of whole lines.

use std::{
    io::{self, Read},
    mem,
};

/// How much is asked of the input at once: about as many events as make one commit.
const READ_BYTES: usize = 1 << 20;
/// A longer line is no event: the limits on the wire are far below, and memory stays bounded.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;

/// Some lines of the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// The number of its first line, from 1.
    pub(super) first_line: u64,
    /// What it holds.
    pub(super) text: ChunkText,
    /// Bytes of the input up to its end.
    pub(super) bytes_end: u64,
}

/// What a chunk holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChunkText {
    /// Whole lines.
    Lines(Vec<u8>),
    /// One line that is too long to be kept.
    TooLong,
}

/// Cuts an input. Lines are handed over as they come: a slow writer's do not wait for more.
pub(super) struct ChunkReader<R> {
    input: R,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
    /// Whether that line is too long already, and not kept.
    too_long: bool,
    line: u64,
    bytes: u64,
    ended: bool,
}

impl<R: Read> ChunkReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            rest: Vec::new(),
            too_long: false,
            line: 1,
            bytes: 0,
            ended: false,
        }
    }

    /// Waits for the next chunk; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Chunk>> {
        while !self.ended {
            let kept = self.rest.len();
            self.rest.resize(kept + READ_BYTES, 0);
            let read = self.read_behind(kept);
            self.rest.truncate(kept + *read.as_ref().unwrap_or(&0));
            if read? == 0 {
                self.ended = true;
                break;
            }
            let new = self.rest.get(kept..).unwrap_or_default();
            if self.too_long {
                if let Some(end) = new.iter().position(|byte| *byte == b'\n') {
                    self.rest.drain(..=kept + end);
                    self.bytes += end as u64 + 1;
                    self.too_long = false;
                    return Ok(Some(self.chunk(ChunkText::TooLong, 1)));
                }
                self.bytes += new.len() as u64;
                self.rest.clear();
            } else if let Some(end) = new.iter().rposition(|byte| *byte == b'\n') {
                let next = self.rest.split_off(kept + end + 1);
                let lines = mem::replace(&mut self.rest, next);
                self.bytes += lines.len() as u64;
                let ends = lines.split(|byte| *byte == b'\n').count() - 1;
                return Ok(Some(self.chunk(ChunkText::Lines(lines), ends as u64)));
            } else if self.rest.len() > LINE_BYTES_MAX {
                self.bytes += self.rest.len() as u64;
                self.rest = Vec::new();
                self.too_long = true;
            }
        }
        Ok(self.last())
    }

    /// Reads once, also where a signal comes in between.
    fn read_behind(&mut self, kept: usize) -> io::Result<usize> {
        let room = self.rest.get_mut(kept..).unwrap_or_default();
        loop {
            match self.input.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Returns the last line, if it has no end.
    fn last(&mut self) -> Option<Chunk> {
        if mem::take(&mut self.too_long) {
            return Some(self.chunk(ChunkText::TooLong, 1));
        }
        let rest = mem::take(&mut self.rest);
        self.bytes += rest.len() as u64;
        (!rest.is_empty()).then(|| self.chunk(ChunkText::Lines(rest), 1))
    }

    fn chunk(&mut self, text: ChunkText, lines: u64) -> Chunk {
        let first_line = self.line;
        self.line += lines;
        Chunk {
            first_line,
            text,
            bytes_end: self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives so many bytes at once.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            let (now, later) = self.0.split_at(count);
            buffer[..count].copy_from_slice(now);
            self.0 = later;
            Ok(count)
        }
    }

    fn lines(text: &[u8], at_once: usize) -> Vec<(u64, Vec<u8>)> {
        let mut reader = ChunkReader::new(Trickle(text, at_once));
        let mut all = Vec::new();
        let mut bytes = 0;
        while let Some(chunk) = reader.next().unwrap() {
            bytes = chunk.bytes_end;
            match chunk.text {
                ChunkText::Lines(text) => {
                    let text = text.strip_suffix(b"\n").unwrap_or(&text);
                    let lines = text.split(|byte| *byte == b'\n');
                    all.extend((chunk.first_line..).zip(lines.map(<[u8]>::to_vec)));
                }
                ChunkText::TooLong => all.push((chunk.first_line, b"too long".to_vec())),
            }
        }
        assert_eq!(bytes, text.len() as u64);
        all
    }

    #[test]
    fn lines_keep_their_numbers_however_they_come() {
        let text = b"one\n\nthree\nfour";
        for at_once in 1..=text.len() {
            let expected: Vec<(u64, Vec<u8>)> = (1..)
                .zip(text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec))
                .collect();
            assert_eq!(lines(text, at_once), expected, "{at_once} at once");
        }
        assert_eq!(lines(b"", 1), []);
    }

    #[test]
    fn a_line_that_is_too_long_is_left_out_and_counted() {
        let mut text = b"one\n".to_vec();
        text.resize(LINE_BYTES_MAX + READ_BYTES + 10, b'x');
        text.extend_from_slice(b"\nthree\n");
        let expected = [
            (1, b"one".to_vec()),
            (2, b"too long".to_vec()),
            (3, b"three".to_vec()),
        ];
        assert_eq!(lines(&text, 700_000), expected);
        assert_eq!(lines(&text[..text.len() - 7], 700_000), expected[..2]);
    }
}
