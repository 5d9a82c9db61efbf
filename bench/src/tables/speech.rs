//! What is said to a server, and what it must answer, byte for byte.

use std::io::Write;

use crate::{
    error::{BenchError, Result},
    load::{Address, Patience, Stream},
    tables::record::{ENTRIES, ENTRY_BYTES, name},
};

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Memcached,
    Redis,
}

/// What a server can do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Speech {
    pub(crate) protocol: Protocol,
    /// It takes Tokyo Tyrant's binary commands at the same port.
    pub(crate) has_tyrant: bool,
    /// It rotates values: appends, and cuts from the front.
    pub(crate) rotates: bool,
}

/// Tokyo Tyrant's `rnum`, the number of records: asked for when only an answer is wanted.
pub(crate) const RECORD_COUNT: &[u8] = &[0xc8, 0x80];
/// Its answer: 0, and a number of eight bytes.
pub(crate) const RECORD_COUNT_BYTES: usize = 9;

impl Speech {
    /// Finds out what a server can do. `lists` is what the keys of rotated lists begin with.
    pub(crate) fn of(
        address: &Address,
        protocol: Protocol,
        lists: &str,
        patience: Patience<'_>,
    ) -> Result<Self> {
        if protocol == Protocol::Redis {
            return Ok(Self {
                protocol,
                has_tyrant: false,
                rotates: true,
            });
        }
        // To memcached the two bytes are a command that it does not know.
        let greeting = [RECORD_COUNT, b"\r\nversion\r\n"].concat();
        let greeted = asked(address, &greeting, 1, patience)?;
        // A mode of `ms` that memcached does not have.
        let key = name(0);
        let rotate = format!("ms {lists}{key} {ENTRY_BYTES} MQ W{LIST_BYTES}\r\n00000000\r\n");
        let rotated = asked(address, rotate.as_bytes(), 4, patience)?;
        Ok(Self {
            protocol,
            has_tyrant: greeted.first() == Some(&0),
            rotates: rotated.starts_with(b"HD"),
        })
    }
}

const LIST_BYTES: usize = ENTRIES * ENTRY_BYTES;

/// Says something on a connection of its own, and returns the first so many bytes of the answer.
fn asked(
    address: &Address,
    request: &[u8],
    count: usize,
    patience: Patience<'_>,
) -> Result<Vec<u8>> {
    let mut stream = Stream::open(address)?;
    stream.output().extend_from_slice(request);
    stream.send(patience)?;
    while stream.unread().len() < count {
        stream.wait(patience)?;
    }
    Ok(stream.unread().to_vec())
}

impl Protocol {
    pub(crate) fn get(self, key: u32, out: &mut Vec<u8>) {
        let key = name(key);
        // Writing to memory can't fail, here and below.
        let _ = match self {
            Self::Memcached => write!(out, "get {key}\r\n"),
            Self::Redis => write!(out, "*2\r\n$3\r\nGET\r\n$8\r\n{key}\r\n"),
        };
    }

    /// Appends the answer to a `get` that finds this.
    pub(crate) fn found(self, key: u32, value: &[u8], out: &mut Vec<u8>) {
        let (key, length) = (name(key), value.len());
        let _ = match self {
            Self::Memcached => write!(out, "VALUE {key} 0 {length}\r\n"),
            Self::Redis => write!(out, "${length}\r\n"),
        };
        out.extend_from_slice(value);
        out.extend_from_slice(match self {
            Self::Memcached => b"\r\nEND\r\n",
            Self::Redis => b"\r\n",
        });
    }

    pub(crate) fn set(self, key: u32, value: &[u8], out: &mut Vec<u8>) {
        let (key, length) = (name(key), value.len());
        let _ = match self {
            Self::Memcached => write!(out, "set {key} 0 0 {length}\r\n"),
            Self::Redis => write!(out, "*3\r\n$3\r\nSET\r\n$8\r\n{key}\r\n${length}\r\n"),
        };
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }

    /// Returns the answer to a `set` that was carried out.
    pub(crate) fn stored(self) -> &'static [u8] {
        match self {
            Self::Memcached => b"STORED\r\n",
            Self::Redis => b"+OK\r\n",
        }
    }

    /// Empties a list, whatever it holds. The answer is one line.
    pub(crate) fn empty(self, lists: &str, key: u32, out: &mut Vec<u8>) {
        let key = format!("{lists}{}", name(key));
        let _ = match self {
            Self::Memcached => write!(out, "delete {key}\r\n"),
            Self::Redis => write!(out, "*2\r\n$3\r\nDEL\r\n${}\r\n{key}\r\n", key.len()),
        };
    }

    /// Appends an entry to a list and cuts the list to its length: one command of ours, two of Redis.
    pub(crate) fn rotate(self, lists: &str, key: u32, entry: &[u8], out: &mut Vec<u8>) {
        let key = format!("{lists}{}", name(key));
        let length = key.len();
        match self {
            Self::Memcached => {
                let _ = write!(out, "ms {key} {ENTRY_BYTES} MQ W{LIST_BYTES}\r\n");
                out.extend_from_slice(entry);
                out.extend_from_slice(b"\r\n");
            }
            Self::Redis => {
                let _ = write!(
                    out,
                    "*3\r\n$5\r\nLPUSH\r\n${length}\r\n{key}\r\n${ENTRY_BYTES}\r\n"
                );
                out.extend_from_slice(entry);
                let last = ENTRIES - 1;
                let _ = write!(
                    out,
                    "\r\n*4\r\n$5\r\nLTRIM\r\n${length}\r\n{key}\r\n$1\r\n0\r\n$1\r\n{last}\r\n"
                );
            }
        }
    }

    /// Appends the answer to a rotation of a list that has so many entries before.
    pub(crate) fn rotated(self, entries: usize, out: &mut Vec<u8>) {
        let _ = match self {
            Self::Memcached => write!(out, "HD\r\n"),
            Self::Redis => write!(out, ":{}\r\n+OK\r\n", entries + 1),
        };
    }

    pub(crate) fn list(self, lists: &str, key: u32, out: &mut Vec<u8>) {
        let key = format!("{lists}{}", name(key));
        let _ = match self {
            Self::Memcached => write!(out, "get {key}\r\n"),
            Self::Redis => {
                let (length, last) = (key.len(), ENTRIES - 1);
                write!(
                    out,
                    "*4\r\n$6\r\nLRANGE\r\n${length}\r\n{key}\r\n$1\r\n0\r\n$1\r\n{last}\r\n"
                )
            }
        };
    }

    /// Appends the answer to [`Protocol::list`]; the entries come the oldest first.
    pub(crate) fn listed(
        self,
        lists: &str,
        key: u32,
        entries: &[[u8; ENTRY_BYTES]],
        out: &mut Vec<u8>,
    ) {
        match self {
            Self::Memcached => {
                let length = entries.len() * ENTRY_BYTES;
                let _ = write!(out, "VALUE {lists}{} 0 {length}\r\n", name(key));
                out.extend_from_slice(entries.as_flattened());
                out.extend_from_slice(b"\r\nEND\r\n");
            }
            Self::Redis => {
                let _ = write!(out, "*{}\r\n", entries.len());
                for entry in entries.iter().rev() {
                    let _ = write!(out, "${ENTRY_BYTES}\r\n");
                    out.extend_from_slice(entry);
                    out.extend_from_slice(b"\r\n");
                }
            }
        }
    }
}

/// Appends a `set` that wants no answer, in memcached's protocol.
pub(crate) fn quiet_set(key: u32, value: &[u8], out: &mut Vec<u8>) {
    let _ = write!(out, "set {} 0 0 {} noreply\r\n", name(key), value.len());
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends Tokyo Tyrant's `putnr`, which has no answer: magic, command, lengths, key, value.
pub(crate) fn putnr(key: u32, value: &[u8], out: &mut Vec<u8>) {
    let key = name(key).to_string();
    out.extend_from_slice(&[0xc8, 0x18]);
    out.extend_from_slice(&(key.len() as u32).to_be_bytes());
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(value);
}

/// Names what a server said instead of the right answer: a refusal, or a wrong answer.
pub(crate) fn misanswer(found: &[u8], right: &[u8]) -> BenchError {
    let shown = |bytes: &[u8]| {
        let text = bytes.escape_ascii().to_string();
        format!("{text:.120}")
    };
    let refusals: [&[u8]; 4] = [b"ERROR", b"CLIENT_ERROR ", b"SERVER_ERROR ", b"-"];
    if refusals.iter().any(|refusal| found.starts_with(refusal)) {
        return BenchError::Server(format!("refused a request: {}", shown(found)));
    }
    BenchError::Wrong(format!("{} where {} is right", shown(found), shown(right)))
}
