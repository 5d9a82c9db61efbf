//! A connection that reads and writes records. Both protocols answer in order, so what is under way
//! is a queue.

use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd},
};

use crate::{
    error::{BenchError, Result},
    load::{Address, Done, Lane, Stream},
    tables::{
        record::{Records, name},
        script::Held,
        speech::Protocol,
    },
};

/// Requests under way on one connection, at most.
const UNDER_WAY_MAX: usize = 10_000;

/// An operation on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Get(u32),
    Set(u32),
}

/// What is waited for, in the order it was sent.
#[derive(Debug)]
enum Waiting {
    /// The value of a write of this number; `None` if nobody knows which.
    Value(usize, u32, Option<u32>),
    Stored(usize, u32),
}

/// The connection.
#[derive(Debug)]
pub(crate) struct Connection<'a> {
    stream: Stream,
    protocol: Protocol,
    operations: &'a [Operation],
    queue: Queue<'a>,
}

/// What is under way.
#[derive(Debug)]
struct Queue<'a> {
    records: &'a Records,
    waiting: VecDeque<Waiting>,
}

/// One answer, read wholly: its length, and what it says.
#[derive(Debug, PartialEq)]
enum Answer<'a> {
    Stored,
    Value(Option<&'a [u8]>),
    Refused(&'a [u8]),
}

impl<'a> Connection<'a> {
    pub(crate) fn open(
        address: &Address,
        operations: &'a [Operation],
        held: &'a Held,
    ) -> Result<Self> {
        let stream = Stream::open(address)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            protocol: held.speech.protocol,
            operations,
            queue: Queue {
                records: &held.records,
                waiting: VecDeque::new(),
            },
        })
    }
}

impl Queue<'_> {
    /// Takes an answer for what has waited longest.
    fn settle(&mut self, answer: &Answer<'_>, done: &mut Vec<Done>) -> Result<()> {
        match (self.waiting.pop_front(), answer) {
            (Some(Waiting::Stored(number, _)), Answer::Stored) => done.push(Done::of(number)),
            (Some(Waiting::Value(number, key, version)), Answer::Value(found)) => {
                self.check(key, version, *found)?;
                done.push(Done::of(number));
            }
            (Some(Waiting::Stored(number, key)), Answer::Refused(line)) => {
                self.refused(key);
                done.push(Done::failed(number, line.escape_ascii().to_string()));
            }
            (Some(Waiting::Value(number, ..)), Answer::Refused(line)) => {
                done.push(Done::failed(number, line.escape_ascii().to_string()));
            }
            (waiting, answer) => {
                return Err(BenchError::Wrong(format!(
                    "{answer:?} is no answer to {waiting:?}"
                )));
            }
        }
        Ok(())
    }

    fn check(&self, key: u32, version: Option<u32>, found: Option<&[u8]>) -> Result<()> {
        let Some(version) = version else {
            return Ok(());
        };
        let mut right = Vec::new();
        self.records.value(key, version, &mut right);
        if found == Some(&right) {
            return Ok(());
        }
        let found = found.map_or_else(
            || "nothing".to_owned(),
            |found| format!("{:.80}", found.escape_ascii().to_string()),
        );
        Err(BenchError::Wrong(format!(
            "key {} has {found}, not what was written last",
            name(key)
        )))
    }

    /// A write was refused: what the record holds is known again behind the next write of it.
    fn refused(&mut self, key: u32) {
        for waiting in &mut self.waiting {
            match waiting {
                Waiting::Stored(_, other) if *other == key => return,
                Waiting::Value(_, other, version) if *other == key => *version = None,
                _ => {}
            }
        }
        self.records.forget(key);
    }
}

impl Lane for Connection<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn has_room(&self) -> bool {
        self.queue.waiting.len() < UNDER_WAY_MAX
    }

    fn under_way(&self) -> usize {
        self.queue.waiting.len()
    }

    fn start(&mut self, number: usize) -> Result<()> {
        let records = self.queue.records;
        match self.operations.get(number).copied() {
            Some(Operation::Get(key)) => {
                let version = records.version(key);
                self.queue
                    .waiting
                    .push_back(Waiting::Value(number, key, version));
                self.protocol.get(key, self.stream.output());
            }
            Some(Operation::Set(key)) => {
                let (version, mut value) = (records.next(), Vec::new());
                records.hold(key, version);
                records.value(key, version, &mut value);
                self.queue.waiting.push_back(Waiting::Stored(number, key));
                self.protocol.set(key, &value, self.stream.output());
            }
            None => {}
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.stream.flush()
    }

    fn is_blocked(&self) -> bool {
        self.stream.is_blocked()
    }

    fn read(&mut self, done: &mut Vec<Done>) -> Result<()> {
        self.stream.fill()?;
        loop {
            let parsed = Answer::parse(self.protocol, self.stream.unread())?;
            let Some((length, answer)) = parsed else {
                return Ok(());
            };
            self.queue.settle(&answer, done)?;
            self.stream.take(length);
        }
    }

    fn abandon(&mut self, reason: &str, done: &mut Vec<Done>) {
        for waiting in self.queue.waiting.drain(..) {
            let number = match waiting {
                Waiting::Value(number, ..) => number,
                Waiting::Stored(number, key) => {
                    self.queue.records.forget(key);
                    number
                }
            };
            done.push(Done::failed(number, reason));
        }
    }

    fn bytes(&self) -> (u64, u64) {
        self.stream.bytes()
    }
}

impl<'b> Answer<'b> {
    /// Reads one answer, if all of it is there.
    fn parse(protocol: Protocol, bytes: &'b [u8]) -> Result<Option<(usize, Self)>> {
        let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
            return Ok(None);
        };
        let line = bytes.get(..end).unwrap_or_default();
        let begin = end + 2;
        let malformed = || {
            let line = line.escape_ascii().to_string();
            BenchError::Wrong(format!("not an answer of the protocol: {line:.100}"))
        };
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<usize>().ok();
        let plain = |answer| Ok(Some((begin, answer)));
        let (length, tail): (usize, &[u8]) = match protocol {
            Protocol::Memcached if line.starts_with(b"VALUE ") => {
                let length = line.rsplit(|byte| *byte == b' ').next().and_then(number);
                (length.ok_or_else(malformed)?, b"\r\nEND\r\n")
            }
            Protocol::Memcached => match line {
                b"STORED" => return plain(Self::Stored),
                b"END" => return plain(Self::Value(None)),
                _ if line.ends_with(b"ERROR") || line == b"NOT_STORED" => {
                    return plain(Self::Refused(line));
                }
                _ if line.starts_with(b"SERVER_ERROR ") || line.starts_with(b"CLIENT_ERROR ") => {
                    return plain(Self::Refused(line));
                }
                _ => return Err(malformed()),
            },
            Protocol::Redis => match line.split_first() {
                Some((b'+', b"OK")) => return plain(Self::Stored),
                Some((b'-', reason)) => return plain(Self::Refused(reason)),
                Some((b'$', b"-1")) => return plain(Self::Value(None)),
                Some((b'$', length)) => (number(length).ok_or_else(malformed)?, b"\r\n"),
                _ => return Err(malformed()),
            },
        };
        let whole = begin.saturating_add(length).saturating_add(tail.len());
        let Some(rest) = bytes.get(begin..whole) else {
            return Ok(None);
        };
        let (value, found) = rest.split_at(length);
        if found != tail {
            return Err(malformed());
        }
        Ok(Some((whole, Self::Value(Some(value)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(protocol: Protocol, bytes: &[u8]) -> Option<(usize, Answer<'_>)> {
        Answer::parse(protocol, bytes).unwrap()
    }

    #[test]
    fn an_answer_is_read_when_all_of_it_is_there() {
        for (protocol, text, length) in [
            (
                Protocol::Memcached,
                &b"VALUE 10000000 0 4\r\na\r\nb\r\nEND\r\nmore"[..],
                31,
            ),
            (Protocol::Redis, b"$4\r\na\r\nb\r\nmore", 10),
        ] {
            for end in 0..length {
                assert_eq!(parsed(protocol, &text[..end]), None, "{end}");
            }
            let right = Answer::Value(Some(b"a\r\nb"));
            assert_eq!(parsed(protocol, text), Some((length, right)));
        }
        assert_eq!(
            parsed(Protocol::Memcached, b"END\r\n"),
            Some((5, Answer::Value(None)))
        );
        assert_eq!(
            parsed(Protocol::Redis, b"$-1\r\n"),
            Some((5, Answer::Value(None)))
        );
    }

    #[test]
    fn nobody_knows_what_a_record_holds_whose_write_was_refused() {
        let records = Records::new(2, &[8]);
        let value = |key, version| {
            let mut value = Vec::new();
            records.value(key, version, &mut value);
            value
        };
        let (old, new) = (value(0, 0), value(0, 7));
        let waiting = [
            Waiting::Stored(0, 0),
            Waiting::Value(1, 0, Some(6)),
            Waiting::Stored(2, 0),
            Waiting::Value(3, 0, Some(7)),
        ];
        let mut queue = Queue {
            records: &records,
            waiting: waiting.into(),
        };
        let mut done = Vec::new();
        let answers = [
            Answer::Refused(b"SERVER_ERROR out of memory"),
            Answer::Value(Some(&old)),
            Answer::Stored,
            Answer::Value(Some(&new)),
        ];
        for answer in answers {
            queue.settle(&answer, &mut done).unwrap();
        }
        assert_eq!(done.len(), 4);
        queue.waiting.push_back(Waiting::Value(4, 0, Some(7)));
        let said = queue.settle(&Answer::Value(None), &mut done).unwrap_err();
        assert!(
            said.to_string().contains("not what was written last"),
            "{said}"
        );
    }

    #[test]
    fn refusals_are_told_from_what_is_no_answer_at_all() {
        for (protocol, text) in [
            (Protocol::Memcached, &b"SERVER_ERROR out of memory\r\n"[..]),
            (Protocol::Memcached, b"ERROR\r\n"),
            (Protocol::Redis, b"-OOM\r\n"),
        ] {
            assert!(matches!(
                parsed(protocol, text),
                Some((_, Answer::Refused(_)))
            ));
        }
        for (protocol, text) in [
            (Protocol::Memcached, &b"+OK\r\n"[..]),
            (Protocol::Redis, b"STORED\r\n"),
            (Protocol::Memcached, b"VALUE 1 0 1\r\nab\r\nEND\r\n"),
        ] {
            assert!(Answer::parse(protocol, text).is_err());
        }
    }
}
