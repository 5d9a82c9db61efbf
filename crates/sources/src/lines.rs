//! A source as the bytes that an import reads.

use std::io::{self, Read};

use crate::{Rows, Source};

/// Begins a line that is a note: no JSON begins with it (ASCII: negative acknowledgement).
const MARK: u8 = 0x15;
const LEFT_OUT: &[u8] = b"left out";

/// A line without an event: what the source says of a row instead. It travels between the events, so
/// that every row is counted once, in one place, whoever carries the import out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The source does not serve the row any more.
    LeftOut,
    /// The source's row can't be read, and why.
    Unreadable(String),
}

impl Note {
    /// Reads a line, if it is a note.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let text = line.strip_prefix(&[MARK])?;
        Some(if text == LEFT_OUT {
            Self::LeftOut
        } else {
            Self::Unreadable(String::from_utf8_lossy(text).into_owned())
        })
    }

    /// Writes the line, without its end.
    pub(crate) fn line(&self) -> Vec<u8> {
        let text = match self {
            Self::LeftOut => LEFT_OUT,
            Self::Unreadable(reason) => reason.as_bytes(),
        };
        [&[MARK], text].concat()
    }
}

/// A source as lines. A source that breaks off is an error of the reader, after all that came
/// before.
pub struct Lines {
    source: Box<dyn Source>,
    rows: Rows,
    /// How much of `rows` has been given.
    given: usize,
}

impl Lines {
    /// Begins to read a source.
    pub fn new(source: Box<dyn Source>) -> Self {
        Self {
            source,
            rows: Rows::default(),
            given: 0,
        }
    }
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.rows.bytes().len() {
            self.rows.clear();
            self.given = 0;
            self.source.read(&mut self.rows).map_err(io::Error::other)?;
        }
        let rest = self.rows.bytes().get(self.given..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceError;

    /// Gives two events and two notes, then breaks off.
    struct Two(u32);

    impl Source for Two {
        fn total(&self) -> Option<u64> {
            None
        }

        fn read(&mut self, rows: &mut Rows) -> Result<(), SourceError> {
            self.0 += 1;
            match self.0 {
                1 => rows.event(b"{\"one\":\n1}"),
                2 => {
                    rows.left_out();
                    rows.unreadable("torn\nin two".to_owned());
                }
                3 => rows.event(b"{\"two\":2}"),
                _ => return Err(SourceError::Lost("gone".to_owned())),
            }
            Ok(())
        }
    }

    #[test]
    fn each_row_is_one_line_and_the_break_comes_last() {
        let mut lines = Lines::new(Box::new(Two(0)));
        let mut bytes = Vec::new();
        let error = lines.read_to_end(&mut bytes).unwrap_err();
        assert_eq!(error.to_string(), "gone");
        let found: Vec<_> = bytes
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| (Note::parse(line.trim_ascii()), line.len()))
            .collect();
        assert_eq!(
            found,
            [
                (None, 11),
                (Some(Note::LeftOut), 10),
                (Some(Note::Unreadable("torn in two".to_owned())), 13),
                (None, 10),
            ]
        );
    }
}
