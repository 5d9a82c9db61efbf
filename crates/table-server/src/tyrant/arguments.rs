//! The list behind a request, gathered string by string.

use super::wire::Request;

/// What a string costs in memory beside its bytes.
const OVERHEAD: usize = size_of::<u32>();

/// What the list is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum For {
    /// The values of these keys.
    GetMany,
    /// A function of this name.
    Misc(Vec<u8>),
}

/// A list under way.
#[derive(Debug, Clone)]
pub(super) struct Gathering {
    /// What it is for.
    pub(super) purpose: For,
    /// Strings to come.
    pub(super) left: u32,
    /// What has come; `None`: too much.
    pub(super) strings: Option<Strings>,
    /// Bytes to skip of a string that is not kept.
    pub(super) skip: u64,
}

impl Gathering {
    /// Begins one, if the request carries a list.
    pub(super) fn begin(request: &Request<'_>) -> Option<Self> {
        let (purpose, left) = match *request {
            Request::GetMany(count) => (For::GetMany, count),
            Request::Misc { name, arguments } => (For::Misc(name.to_vec()), arguments),
            _ => return None,
        };
        Some(Self {
            purpose,
            left,
            strings: Some(Strings::default()),
            skip: 0,
        })
    }

    /// Takes what the input holds of it and returns the bytes taken, or how many are needed, or
    /// `Err` if that is no length. It is whole when nothing is taken and nothing is needed.
    pub(super) fn take(&mut self, input: &[u8], bytes_max: usize) -> Result<Taken, Broken> {
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            if self.skip > 0 {
                let skipped = self.skip.min(rest.len() as u64);
                self.skip -= skipped;
                at += skipped as usize;
                if self.skip > 0 {
                    return Ok(Taken::more(at, 1));
                }
                continue;
            }
            if self.left == 0 {
                return Ok(Taken {
                    bytes: at,
                    needed: None,
                });
            }
            let Some((length, rest)) = rest.split_first_chunk::<4>() else {
                return Ok(Taken::more(at, 4));
            };
            let length = u32::from_be_bytes(*length);
            if length.cast_signed() < 0 {
                // What stands before it is taken first.
                return if at > 0 {
                    Ok(Taken::more(at, 4))
                } else {
                    Err(Broken)
                };
            }
            let length = length as usize;
            if !self.has_room(length, bytes_max) {
                self.strings = None;
                self.skip = length as u64;
                self.left -= 1;
                at += 4;
                continue;
            }
            let Some(string) = rest.get(..length) else {
                return Ok(Taken::more(at, 4 + length));
            };
            if let Some(strings) = &mut self.strings {
                strings.push(string);
            }
            self.left -= 1;
            at += 4 + length;
        }
    }

    fn has_room(&self, length: usize, bytes_max: usize) -> bool {
        self.strings
            .as_ref()
            .is_some_and(|strings| strings.bytes() + length + OVERHEAD <= bytes_max)
    }
}

/// What was taken from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) bytes: usize,
    /// Bytes needed behind those, if it is not whole.
    pub(super) needed: Option<usize>,
}

impl Taken {
    const fn more(bytes: usize, needed: usize) -> Self {
        Self {
            bytes,
            needed: Some(needed),
        }
    }
}

/// A length below zero: nothing behind it can be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

/// Byte strings, one behind the other.
#[derive(Debug, Clone, Default)]
pub(super) struct Strings {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Strings {
    fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len() as u32);
    }

    /// Returns what they take.
    fn bytes(&self) -> usize {
        self.bytes.len() + OVERHEAD * self.ends.len()
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns one.
    pub(super) fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)? as usize;
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)? as usize,
            None => 0,
        };
        self.bytes.get(start..end)
    }

    /// Returns them in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}
