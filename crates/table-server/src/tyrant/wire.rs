//! Requests on the wire: a magic byte, a command byte, numbers (big-endian), then byte strings whose
//! lengths are among the numbers.

use super::double;

/// The first byte of every request.
pub(super) const MAGIC: u8 = 0xc8;
/// The answer to what was done.
pub(super) const DONE: u8 = 0;
/// The answer to what was not.
pub(super) const FAILED: u8 = 1;
/// The option of `restore` that has it checked.
const CHECKED: u32 = 1;
/// Bytes of a key, a name or a path.
const NAME_BYTES_MAX: u64 = 64 * 1024;

/// How a value is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// Over what is there.
    Over,
    /// Only if nothing is there.
    Keep,
    /// Behind what is there.
    Append,
    /// Behind what is there, of which so much remains that all has this width.
    Rotate(usize),
    /// Over what is there, without an answer.
    Silent,
}

/// A request, or, of those that carry a list, its beginning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Request<'a> {
    Put {
        how: Put,
        key: &'a [u8],
        value: &'a [u8],
    },
    Out(&'a [u8]),
    Get(&'a [u8]),
    /// So many keys follow.
    GetMany(u32),
    ValueSize(&'a [u8]),
    IteratorInit,
    IteratorNext,
    Keys {
        prefix: &'a [u8],
        /// Below 0: all.
        max: i32,
    },
    AddInteger {
        key: &'a [u8],
        by: i32,
    },
    AddDouble {
        key: &'a [u8],
        by: f64,
    },
    /// A function of a script: there are none.
    Extension,
    Sync,
    Optimise(&'a [u8]),
    Vanish,
    Copy(&'a [u8]),
    Restore {
        path: &'a [u8],
        /// Microseconds since 1970.
        from_us: u64,
        /// It is an error if not all of it can be carried out.
        is_checked: bool,
    },
    SetMaster {
        host: &'a [u8],
        port: i32,
        /// Microseconds since 1970.
        from_us: u64,
    },
    RecordCount,
    Size,
    Stat,
    /// So many arguments follow.
    Misc {
        name: &'a [u8],
        arguments: u32,
    },
    /// Asks for the updates after a time (microseconds since 1970), for a server of the original's.
    Replicate {
        from_us: u64,
        server_id: u32,
    },
    /// Asks for the updates, for a server of ours.
    Follow {
        version: u32,
        server_id: u32,
    },
}

/// How a request that is not carried out is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Not at all.
    Silent,
    /// With a byte.
    Code,
    /// With a byte and a count of 0.
    CodeAndCount,
}

impl Refusal {
    pub(super) fn write(self, output: &mut Vec<u8>) {
        match self {
            Self::Silent => {}
            Self::Code => output.push(FAILED),
            Self::CodeAndCount => output.extend_from_slice(&[FAILED, 0, 0, 0, 0]),
        }
    }
}

/// What the input begins with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Parsed<'a> {
    /// A request of this many bytes.
    Whole(Request<'a>, usize),
    /// A request of which this many bytes are needed.
    Part(usize),
    /// A request of this many bytes, more than is allowed.
    TooLong(u64, Refusal),
    /// No request: nothing behind it can be understood.
    Broken,
}

/// Reads a request whose value has at most `value_bytes_max` bytes.
pub(super) fn parse(input: &[u8], value_bytes_max: usize) -> Parsed<'_> {
    let mut numbers = Numbers { input, at: 2 };
    let parsed = match input {
        [] | [MAGIC] => return Parsed::Part(2),
        [MAGIC, command, ..] => numbers.request(*command, value_bytes_max as u64),
        _ => return Parsed::Broken,
    };
    parsed.unwrap_or_else(|missing| missing)
}

/// What is read from the beginning of a request.
struct Numbers<'a> {
    input: &'a [u8],
    at: usize,
}

/// A length, and what there may be at most.
type Length = (u32, u64);

impl<'a> Numbers<'a> {
    fn request(&mut self, command: u8, value_max: u64) -> Result<Parsed<'a>, Parsed<'a>> {
        const NAME: u64 = NAME_BYTES_MAX;
        match command {
            0x10..=0x12 | 0x18 => {
                let [key, value] = self.u32s()?;
                let how = match command {
                    0x10 => Put::Over,
                    0x11 => Put::Keep,
                    0x12 => Put::Append,
                    _ => Put::Silent,
                };
                self.put(how, (key, NAME), (value, value_max))
            }
            0x13 => {
                let [key, value, width] = self.u32s()?;
                let width = usize::try_from(width).unwrap_or(usize::MAX);
                self.put(Put::Rotate(width), (key, NAME), (value, value_max))
            }
            0x20 => self.one(NAME, Request::Out),
            0x30 => self.one(NAME, Request::Get),
            0x31 => {
                let [count] = self.u32s()?;
                Ok(Parsed::Whole(Request::GetMany(count), self.at))
            }
            0x38 => self.one(NAME, Request::ValueSize),
            0x50 => Ok(self.bare(Request::IteratorInit)),
            0x51 => Ok(self.bare(Request::IteratorNext)),
            0x58 => {
                let [prefix, max] = self.u32s()?;
                let max = max.cast_signed();
                self.strings(Refusal::Code, [(prefix, NAME)], |[prefix]| Request::Keys {
                    prefix,
                    max,
                })
            }
            0x60 => {
                let [key, by] = self.u32s()?;
                let by = by.cast_signed();
                self.strings(Refusal::Code, [(key, NAME)], |[key]| Request::AddInteger {
                    key,
                    by,
                })
            }
            0x61 => {
                let [key] = self.u32s()?;
                let (integral, fraction) = (self.u64()?, self.u64()?);
                let by = double::unpack(integral.cast_signed(), fraction.cast_signed());
                self.strings(Refusal::Code, [(key, NAME)], |[key]| Request::AddDouble {
                    key,
                    by,
                })
            }
            0x68 => {
                let [name, _options, key, value] = self.u32s()?;
                let lengths = [(name, NAME), (key, NAME), (value, value_max)];
                self.strings(Refusal::Code, lengths, |_| Request::Extension)
            }
            0x70 => Ok(self.bare(Request::Sync)),
            0x71 => self.one(NAME, Request::Optimise),
            0x72 => Ok(self.bare(Request::Vanish)),
            0x73 => self.one(NAME, Request::Copy),
            0x74 => {
                let [path] = self.u32s()?;
                let from_us = self.u64()?;
                let [options] = self.u32s()?;
                self.strings(Refusal::Code, [(path, NAME)], |[path]| Request::Restore {
                    path,
                    from_us,
                    is_checked: options & CHECKED != 0,
                })
            }
            0x78 => {
                let [host, port] = self.u32s()?;
                let from_us = self.u64()?;
                let [_options] = self.u32s()?;
                let port = port.cast_signed();
                self.strings(Refusal::Code, [(host, NAME)], |[host]| Request::SetMaster {
                    host,
                    port,
                    from_us,
                })
            }
            0x80 => Ok(self.bare(Request::RecordCount)),
            0x81 => Ok(self.bare(Request::Size)),
            0x88 => Ok(self.bare(Request::Stat)),
            0x90 => {
                let [name, _options, arguments] = self.u32s()?;
                if u64::from(name) > NAME {
                    // The arguments behind it can't be skipped by their number.
                    return Ok(Parsed::Broken);
                }
                self.strings(Refusal::Code, [(name, NAME)], |[name]| Request::Misc {
                    name,
                    arguments,
                })
            }
            0xa0 => {
                let from_us = self.u64()?;
                let [server_id] = self.u32s()?;
                Ok(self.bare(Request::Replicate { from_us, server_id }))
            }
            0xa1 => {
                let [version, server_id] = self.u32s()?;
                Ok(self.bare(Request::Follow { version, server_id }))
            }
            _ => Ok(Parsed::Broken),
        }
    }

    fn bare(&self, request: Request<'a>) -> Parsed<'a> {
        Parsed::Whole(request, self.at)
    }

    fn one(
        &mut self,
        max: u64,
        request: fn(&'a [u8]) -> Request<'a>,
    ) -> Result<Parsed<'a>, Parsed<'a>> {
        let [length] = self.u32s()?;
        self.strings(Refusal::Code, [(length, max)], |[string]| request(string))
    }

    fn put(&mut self, how: Put, key: Length, value: Length) -> Result<Parsed<'a>, Parsed<'a>> {
        let refusal = match how {
            Put::Silent => Refusal::Silent,
            _ => Refusal::Code,
        };
        self.strings(refusal, [key, value], |[key, value]| Request::Put {
            how,
            key,
            value,
        })
    }

    /// Reads the strings behind the numbers.
    fn strings<const N: usize>(
        &mut self,
        refusal: Refusal,
        lengths: [Length; N],
        request: impl FnOnce([&'a [u8]; N]) -> Request<'a>,
    ) -> Result<Parsed<'a>, Parsed<'a>> {
        let total: u64 = lengths.iter().map(|(length, _)| u64::from(*length)).sum();
        let end = self.at as u64 + total;
        // Lengths are signed on the original's side: what is below zero is no length.
        if lengths.iter().any(|(length, _)| length.cast_signed() < 0) {
            return Ok(Parsed::Broken);
        }
        if lengths
            .iter()
            .any(|(length, max)| u64::from(*length) > *max)
        {
            return Ok(Parsed::TooLong(end, refusal));
        }
        let end = end as usize;
        if self.input.len() < end {
            return Err(Parsed::Part(end));
        }
        let strings = lengths.map(|(length, _)| {
            let from = self.at;
            self.at += length as usize;
            self.input.get(from..self.at).unwrap_or_default()
        });
        Ok(Parsed::Whole(request(strings), end))
    }

    fn u32s<const N: usize>(&mut self) -> Result<[u32; N], Parsed<'a>> {
        let end = self.at + 4 * N;
        let bytes = self.input.get(self.at..end).ok_or(Parsed::Part(end))?;
        self.at = end;
        let (numbers, _) = bytes.as_chunks::<4>();
        let mut read = [0; N];
        for (number, bytes) in read.iter_mut().zip(numbers) {
            *number = u32::from_be_bytes(*bytes);
        }
        Ok(read)
    }

    fn u64(&mut self) -> Result<u64, Parsed<'a>> {
        let [high, low] = self.u32s()?;
        Ok(u64::from(high) << 32 | u64::from(low))
    }
}

/// Writes a byte string with its length before it.
pub(super) fn write_string(output: &mut Vec<u8>, string: &[u8]) {
    output.extend_from_slice(&(string.len() as u32).to_be_bytes());
    output.extend_from_slice(string);
}
