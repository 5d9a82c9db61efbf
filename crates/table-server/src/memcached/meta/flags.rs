//! The flags of a meta command: what they ask, and what they bring back.

use std::{borrow::Cow, num::NonZeroUsize};

use data_encoding::BASE64;

use super::Facts;
use crate::memcached::{
    request::{BAD_FORMAT, KEY_BYTES_MAX},
    words::{Words, signed, unsigned, write_number},
};

/// Flags of one command.
const FLAGS_MAX: usize = 20;
/// Bytes of an opaque token, its `O` included.
const OPAQUE_BYTES_MAX: usize = 32;

/// Which command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::memcached) enum Command {
    Get,
    Set,
    Delete,
    Arithmetic,
}

impl Command {
    /// Returns the flags that are answered where there is a record.
    pub(super) const fn told(self) -> &'static [u8] {
        match self {
            Self::Get => b"kOctfshl",
            Self::Set => b"kOc",
            Self::Delete => b"kO",
            Self::Arithmetic => b"kOct",
        }
    }
}

/// A key and flags.
#[derive(Debug, Clone)]
pub(in crate::memcached) struct Meta<'a> {
    pub(in crate::memcached) key: Cow<'a, [u8]>,
    /// The key as the client has written it.
    key_word: Cow<'a, [u8]>,
    /// The flags as the client has written them.
    words: Cow<'a, [u8]>,
    pub(in crate::memcached) options: Options,
    /// Entries below this are dropped.
    pub(super) not_before: Cow<'a, [u8]>,
}

/// What the flags ask.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::memcached) struct Options {
    pub(in crate::memcached) is_quiet: bool,
    pub(super) is_binary: bool,
    pub(super) wants_value: bool,
    pub(in crate::memcached) wants_expiry: bool,
    /// `I`: mark as stale.
    pub(in crate::memcached) invalidates: bool,
    /// `M`
    pub(super) mode: Option<u8>,
    /// `T`
    pub(in crate::memcached) expiry: Option<i64>,
    /// `N`
    pub(in crate::memcached) vivify: Option<i64>,
    /// `R`
    pub(super) renew_below: Option<i64>,
    /// `C`
    pub(in crate::memcached) unique: Option<u64>,
    /// `F`
    pub(super) flags: u32,
    /// `D`
    pub(super) delta: Option<u64>,
    /// `J`
    pub(super) initial: u64,
    /// `W`: bytes a rotation leaves.
    pub(super) size: Option<usize>,
    /// `A`: leading bytes that say what an entry is about.
    pub(super) identity: usize,
    /// `V`: bytes of an entry, of which the value is a sequence that is told newest first.
    pub(super) entry: Option<NonZeroUsize>,
}

pub(in crate::memcached) const LONG_OPAQUE: &str = "CLIENT_ERROR opaque token too long";
const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";

impl<'a> Meta<'a> {
    /// Reads a key, and then flags. In the middle a data block's length may stand, which the caller
    /// has read.
    pub(in crate::memcached) fn parse(
        key_word: &'a [u8],
        flags: &'a [u8],
    ) -> Result<Self, &'static str> {
        if key_word.len() > KEY_BYTES_MAX {
            return Err(BAD_FORMAT);
        }
        let mut meta = Self {
            key: Cow::Borrowed(key_word),
            key_word: Cow::Borrowed(key_word),
            words: Cow::Borrowed(flags),
            options: Options::default(),
            not_before: Cow::Borrowed(b""),
        };
        let mut seen = 0_u128;
        for (index, word) in Words::new(flags).enumerate() {
            if index == FLAGS_MAX {
                return Err("CLIENT_ERROR options flags are too long");
            }
            let Some((&flag, token)) = word.split_first() else {
                continue;
            };
            let bit = 1_u128.checked_shl(flag.into()).unwrap_or(0);
            if bit == 0 || seen & bit != 0 {
                return Err("CLIENT_ERROR duplicate flag");
            }
            seen |= bit;
            meta.take_flag(flag, token)?;
        }
        Ok(meta)
    }

    fn take_flag(&mut self, flag: u8, token: &'a [u8]) -> Result<(), &'static str> {
        let options = &mut self.options;
        let number = || unsigned(token).ok_or(BAD_TOKEN);
        let seconds = || signed(token).map(Some).ok_or(BAD_TOKEN);
        match flag {
            b'b' => {
                let decoded = BASE64.decode(&self.key_word);
                let decoded = decoded.ok().filter(|key| !key.is_empty());
                self.key = Cow::Owned(decoded.ok_or("CLIENT_ERROR error decoding key")?);
                options.is_binary = true;
            }
            b'v' => options.wants_value = true,
            b't' => options.wants_expiry = true,
            b'q' => options.is_quiet = true,
            b'I' => options.invalidates = true,
            b'N' => options.vivify = seconds()?,
            b'T' => options.expiry = seconds()?,
            b'R' => options.renew_below = seconds()?,
            b'C' => options.unique = Some(number()?),
            b'F' => options.flags = number()?.try_into().map_err(|_| BAD_TOKEN)?,
            b'M' => {
                let &[mode] = token else {
                    return Err("CLIENT_ERROR incorrect length for M token");
                };
                options.mode = Some(mode);
            }
            b'J' => {
                let wrong = "CLIENT_ERROR invalid numeric initial value";
                options.initial = unsigned(token).ok_or(wrong)?;
            }
            b'D' => {
                let wrong = "CLIENT_ERROR invalid numeric delta value";
                options.delta = Some(unsigned(token).ok_or(wrong)?);
            }
            b'O' if token.len() >= OPAQUE_BYTES_MAX => return Err(LONG_OPAQUE),
            b'W' => options.size = Some(number()?.try_into().map_err(|_| BAD_TOKEN)?),
            b'A' => options.identity = number()?.try_into().map_err(|_| BAD_TOKEN)?,
            b'V' => {
                let bytes = number()?.try_into().ok().and_then(NonZeroUsize::new);
                options.entry = Some(bytes.ok_or(BAD_TOKEN)?);
            }
            b'B' => self.not_before = Cow::Owned(BASE64.decode(token).map_err(|_| BAD_TOKEN)?),
            b'O' | b'P' | b'L' | b'k' | b's' | b'c' | b'f' | b'h' | b'l' | b'u' => {}
            _ => return Err("CLIENT_ERROR invalid flag"),
        }
        Ok(())
    }

    /// Copies what is borrowed.
    pub(in crate::memcached) fn into_owned(self) -> Meta<'static> {
        Meta {
            key: Cow::Owned(self.key.into_owned()),
            key_word: Cow::Owned(self.key_word.into_owned()),
            words: Cow::Owned(self.words.into_owned()),
            options: self.options,
            not_before: Cow::Owned(self.not_before.into_owned()),
        }
    }

    /// Writes what the flags in `told` bring back, in the order in which the client has them.
    pub(super) fn write_flags(&self, told: &[u8], facts: &Facts, output: &mut Vec<u8>) {
        for word in Words::new(&self.words) {
            let Some(&flag) = word.first() else {
                continue;
            };
            if !told.contains(&flag) {
                continue;
            }
            output.push(b' ');
            match flag {
                b'O' => {
                    output.extend_from_slice(word);
                    continue;
                }
                b'k' => {
                    output.push(b'k');
                    output.extend_from_slice(&self.key_word);
                    if self.options.is_binary {
                        output.extend_from_slice(b" b");
                    }
                    continue;
                }
                _ => output.push(flag),
            }
            match flag {
                b'c' => write_number(facts.unique, output),
                b'f' => write_number(facts.flags, output),
                b's' => write_number(facts.size, output),
                b't' if facts.expires_at == 0 => output.extend_from_slice(b"-1"),
                b't' => write_number(facts.expires_at.saturating_sub(facts.now), output),
                // A table does not keep who has read what: `h` and `l`.
                _ => output.push(b'0'),
            }
        }
    }
}
