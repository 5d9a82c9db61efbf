//! What a command line asks.

use super::words::{Words, signed, unsigned};

/// Bytes of a key.
pub(super) const KEY_BYTES_MAX: usize = 250;
/// Bytes of a data block that a line may announce; memcached's own limit (of a signed 32-bit number,
/// with room for the line end). Blocks up to here are skipped if they are refused.
const BLOCK_BYTES_MAX: u64 = i32::MAX as u64 - 2;

/// The answer to an unknown command, and to one with too few or too many words.
pub(super) const ERROR: &str = "ERROR";
/// The answer to words that are not what they should be.
pub(super) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request<'a> {
    Get {
        /// The line's rest.
        keys: &'a [u8],
        with_unique: bool,
        expiry: Option<i64>,
    },
    Store(Store<'a>),
    Delete {
        key: &'a [u8],
        is_quiet: bool,
    },
    Count {
        key: &'a [u8],
        is_up: bool,
        by: u64,
        is_quiet: bool,
    },
    Touch {
        key: &'a [u8],
        expiry: i64,
        is_quiet: bool,
    },
    FlushAll {
        /// In seconds, or a point in time; 0 or less is now.
        delay: i64,
        is_quiet: bool,
    },
    Verbosity {
        is_quiet: bool,
    },
    Stats {
        about: Option<&'a [u8]>,
    },
    Version,
    Quit,
    MetaNoOp,
    MetaGet(&'a [u8]),
    MetaSet(&'a [u8]),
    MetaDelete(&'a [u8]),
    MetaArithmetic(&'a [u8]),
    MetaDebug(&'a [u8]),
}

/// A command with a data block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Store<'a> {
    pub(super) mode: Mode,
    pub(super) key: &'a [u8],
    pub(super) flags: u32,
    pub(super) expiry: i64,
    pub(super) length: usize,
    pub(super) is_quiet: bool,
}

/// How a data block is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Cas(u64),
}

/// Why a line was not understood. Whatever data block was meant is not known, so the next line is
/// taken for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) text: &'static str,
    /// The client wants no answer.
    pub(super) is_quiet: bool,
}

const fn refusal(text: &'static str) -> Refusal {
    Refusal {
        text,
        is_quiet: false,
    }
}

impl<'a> Request<'a> {
    /// Reads a line without its end.
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, Refusal> {
        let mut words = Words::new(line);
        let Some(command) = words.next() else {
            return Err(refusal(ERROR));
        };
        let store = |mode| Store::parse(mode, words.clone()).map(Self::Store);
        match command {
            b"get" => get(words, false, false),
            b"set" => store(Mode::Set),
            b"gets" => get(words, true, false),
            b"gat" => get(words, false, true),
            b"gats" => get(words, true, true),
            b"add" => store(Mode::Add),
            b"replace" => store(Mode::Replace),
            b"append" => store(Mode::Append),
            b"prepend" => store(Mode::Prepend),
            b"cas" => store(Mode::Cas(0)),
            b"delete" => delete(words),
            b"incr" => count(words, true),
            b"decr" => count(words, false),
            b"touch" => touch(words),
            b"mg" => Ok(Self::MetaGet(words.rest())),
            b"ms" => Ok(Self::MetaSet(words.rest())),
            b"md" => Ok(Self::MetaDelete(words.rest())),
            b"ma" => Ok(Self::MetaArithmetic(words.rest())),
            b"me" => Ok(Self::MetaDebug(words.rest())),
            b"mn" => Ok(Self::MetaNoOp),
            b"flush_all" => flush_all(words),
            b"stats" => Ok(Self::Stats {
                about: words.next(),
            }),
            b"version" => Ok(Self::Version),
            b"verbosity" => verbosity(words),
            b"quit" => Ok(Self::Quit),
            _ => Err(refusal(ERROR)),
        }
    }
}

type Word<'a> = &'a [u8];

/// Reads as many words as there must be, and as many as there may be beyond. `None` where there are
/// fewer or more.
fn exactly<const MUST: usize, const MAY: usize>(
    mut words: Words<'_>,
) -> Option<([Word<'_>; MUST], [Option<Word<'_>>; MAY])> {
    let mut must: [Word<'_>; MUST] = [&[]; MUST];
    for word in &mut must {
        *word = words.next()?;
    }
    let may = std::array::from_fn(|_| words.next());
    words.next().is_none().then_some((must, may))
}

fn is_noreply(word: Option<&[u8]>) -> bool {
    word == Some(b"noreply")
}

fn get(mut words: Words<'_>, with_unique: bool, touches: bool) -> Result<Request<'_>, Refusal> {
    let keys = words.rest();
    let Some(first) = words.next() else {
        return Err(refusal(ERROR));
    };
    if !touches {
        return Ok(Request::Get {
            keys,
            with_unique,
            expiry: None,
        });
    }
    let expiry = signed(first).ok_or(refusal("CLIENT_ERROR invalid exptime argument"))?;
    Ok(Request::Get {
        keys: words.rest(),
        with_unique,
        expiry: Some(expiry),
    })
}

impl<'a> Store<'a> {
    /// Reads a line as clients write most of them, `set KEY FLAGS EXPIRY LENGTH` and perhaps
    /// `noreply` with one space between any two, in one pass. Returns the line's bytes too. `None`
    /// says nothing: [`Request::parse`] knows more.
    pub(super) fn parse_usual(input: &'a [u8]) -> Option<(Self, usize)> {
        let rest = input.strip_prefix(b"set ")?;
        let end = rest.iter().position(|&byte| byte <= b' ')?;
        let (key, mut rest) = rest.split_at_checked(end)?;
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return None;
        }
        let mut number = || {
            rest = rest.strip_prefix(b" ")?;
            let mut number = 0_u32;
            let mut digits = 0;
            while let [byte @ b'0'..=b'9', behind @ ..] = rest {
                // Nine digits fit.
                if digits == 9 {
                    return None;
                }
                number = number * 10 + u32::from(byte - b'0');
                digits += 1;
                rest = behind;
            }
            (digits > 0).then_some(number)
        };
        let (flags, expiry, length) = (number()?, number()?, number()?);
        let (is_quiet, rest) = match rest.strip_prefix(b" noreply") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let rest = rest.strip_prefix(b"\r\n")?;
        let store = Self {
            mode: Mode::Set,
            key,
            flags,
            expiry: expiry.into(),
            length: length as usize,
            is_quiet,
        };
        Some((store, input.len() - rest.len()))
    }

    fn parse(mode: Mode, words: Words<'a>) -> Result<Self, Refusal> {
        let read = |[key, flags, expiry, length]: [&'a [u8]; 4], mode, last: &[u8], is_quiet| {
            let store = || {
                Some(Self {
                    mode,
                    key: (key.len() <= KEY_BYTES_MAX).then_some(key)?,
                    flags: unsigned(flags)?.try_into().ok()?,
                    expiry: signed(expiry)?,
                    length: block_length(length)?,
                    is_quiet,
                })
            };
            store().ok_or(Refusal {
                text: BAD_FORMAT,
                is_quiet: last == b"noreply",
            })
        };
        let Mode::Cas(_) = mode else {
            let (four, [reply]) = exactly::<4, 1>(words).ok_or(refusal(ERROR))?;
            let [.., length] = four;
            return read(four, mode, reply.unwrap_or(length), is_noreply(reply));
        };
        let ([key, flags, expiry, length, unique], [reply]) =
            exactly::<5, 1>(words).ok_or(refusal(ERROR))?;
        let last = reply.unwrap_or(unique);
        let unique = unsigned(unique).ok_or(Refusal {
            text: BAD_FORMAT,
            is_quiet: last == b"noreply",
        })?;
        let four = [key, flags, expiry, length];
        read(four, Mode::Cas(unique), last, is_noreply(reply))
    }
}

/// Reads the length of a data block.
pub(super) fn block_length(word: &[u8]) -> Option<usize> {
    let length = unsigned(word).filter(|&length| length <= BLOCK_BYTES_MAX)?;
    usize::try_from(length).ok()
}

fn delete(words: Words<'_>) -> Result<Request<'_>, Refusal> {
    // A time for which the key would be held may stand before `noreply`, and must be 0.
    let ([key], [hold, reply]) = exactly::<1, 2>(words).ok_or(refusal(ERROR))?;
    let is_quiet = is_noreply(reply.or(hold));
    let is_valid = match (hold, reply) {
        (None, _) => true,
        (Some(hold), None) => hold == b"0" || is_quiet,
        (Some(hold), Some(_)) => hold == b"0" && is_quiet,
    };
    let text = if !is_valid {
        "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"
    } else if key.len() > KEY_BYTES_MAX {
        BAD_FORMAT
    } else {
        return Ok(Request::Delete { key, is_quiet });
    };
    Err(Refusal { text, is_quiet })
}

fn count(words: Words<'_>, is_up: bool) -> Result<Request<'_>, Refusal> {
    let ([key, by], [reply]) = exactly::<2, 1>(words).ok_or(refusal(ERROR))?;
    let is_quiet = is_noreply(reply.or(Some(by)));
    let text = if key.len() > KEY_BYTES_MAX {
        BAD_FORMAT
    } else if let Some(by) = unsigned(by) {
        return Ok(Request::Count {
            key,
            is_up,
            by,
            is_quiet,
        });
    } else {
        "CLIENT_ERROR invalid numeric delta argument"
    };
    Err(Refusal { text, is_quiet })
}

fn touch(words: Words<'_>) -> Result<Request<'_>, Refusal> {
    let ([key, expiry], [reply]) = exactly::<2, 1>(words).ok_or(refusal(ERROR))?;
    let is_quiet = is_noreply(reply.or(Some(expiry)));
    let text = if key.len() > KEY_BYTES_MAX {
        BAD_FORMAT
    } else if let Some(expiry) = signed(expiry) {
        return Ok(Request::Touch {
            key,
            expiry,
            is_quiet,
        });
    } else {
        "CLIENT_ERROR invalid exptime argument"
    };
    Err(Refusal { text, is_quiet })
}

fn flush_all(words: Words<'_>) -> Result<Request<'_>, Refusal> {
    let ([], [delay, reply]) = exactly::<0, 2>(words).ok_or(refusal(ERROR))?;
    let is_quiet = is_noreply(reply.or(delay));
    let delay = match delay {
        None => Some(0),
        Some(_) if reply.is_none() && is_quiet => Some(0),
        Some(delay) => signed(delay),
    };
    let delay = delay.ok_or(Refusal {
        text: "CLIENT_ERROR invalid exptime argument",
        is_quiet,
    })?;
    Ok(Request::FlushAll { delay, is_quiet })
}

fn verbosity(words: Words<'_>) -> Result<Request<'_>, Refusal> {
    let ([level], [reply]) = exactly::<1, 1>(words).ok_or(refusal(ERROR))?;
    let is_quiet = is_noreply(reply.or(Some(level)));
    if unsigned(level).is_none() {
        return Err(Refusal {
            text: BAD_FORMAT,
            is_quiet,
        });
    }
    Ok(Request::Verbosity { is_quiet })
}
