//! One client's conversation in memcached's text protocol.

use std::{mem, sync::atomic::Ordering::Relaxed};

use hikyaku_tables::{Attributes, Change, Outcome, Update};
use memchr::memchr;

use super::{
    meta::{self, Command},
    reading::Reading,
    reply::{self, Asked, Reply, line},
    request::{ERROR, Request, Store},
    statistics,
    words::{Words, expires_at, without_end},
};
use crate::{
    catalogue::TableId,
    exchange::{Exchange, Handed, Protocol, Step},
    metrics::Count,
    verb::Verb,
    writer::{Settled, Task},
};

/// Bytes of a line, as memcached has it; and of one that lists keys.
const LINE_BYTES_MAX: usize = 2048;
const KEYS_BYTES_MAX: usize = 1024 * 1024;

const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk";
pub(super) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";

/// One client's conversation.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Bytes still to be skipped of a block that was refused.
    skip: usize,
    reading: Option<Reading>,
    /// How to answer what is left to a writer, in order.
    pub(super) left: Vec<Reply>,
}

/// A line, where it stands in the input.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    /// What follows the line.
    pub(super) rest: &'a [u8],
    /// Bytes of the line with its end.
    pub(super) bytes: usize,
    /// Bytes of the end.
    pub(super) end: usize,
}

impl Session {
    /// Tells whether the client is in the middle of a request of which nothing is kept.
    pub(crate) fn is_within_request(&self) -> bool {
        self.skip > 0
    }

    pub(super) fn skip(&mut self, exchange: &mut Exchange<'_>) -> Step {
        let skipped = self.skip.min(exchange.input().len());
        if skipped == 0 {
            return Step::Read(1);
        }
        self.skip -= skipped;
        exchange.take(skipped);
        Step::Went
    }

    /// Answers a request without a data block, or one whose block is not known; the line is taken.
    pub(super) fn say(text: &str, at: Line<'_>, exchange: &mut Exchange<'_>) -> Step {
        if !exchange.is_settled() {
            return Step::Settle;
        }
        exchange.take(at.bytes);
        line(text, exchange.output);
        Step::Went
    }

    pub(super) fn refuse(text: &str, at: Line<'_>, exchange: &mut Exchange<'_>) -> Step {
        let step = Self::say(text, at, exchange);
        if step == Step::Went {
            exchange.asks(None, Verb::Refused);
            exchange.count(Count::Refused, 1);
        }
        step
    }

    /// Refuses a request with its data block, which is skipped.
    pub(super) fn refuse_block(
        &mut self,
        text: &str,
        is_quiet: bool,
        length: usize,
        at: Line<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Step {
        if !exchange.is_settled() {
            return Step::Settle;
        }
        exchange.asks(None, Verb::Refused);
        exchange.count(Count::Refused, 1);
        exchange.take(at.bytes);
        self.skip = length + 2;
        if !is_quiet {
            line(text, exchange.output);
        }
        Step::Went
    }

    /// Hands in an update and answers it, now or later. `bytes`: of the whole request.
    pub(super) fn update(
        &mut self,
        (id, update): (TableId, &Update<'_>),
        (asked, is_quiet): (Asked, bool),
        bytes: usize,
        exchange: &mut Exchange<'_>,
    ) -> Step {
        match exchange.update(id, update) {
            Handed::Done(Ok(Outcome::Stored { .. })) if asked == Asked::Store => {
                if !is_quiet {
                    exchange.output.extend_from_slice(b"STORED\r\n");
                }
            }
            Handed::Done(result) => reply::answer(asked, is_quiet, &result, exchange),
            Handed::Left => self.left.push(Reply::Classic(asked, is_quiet)),
            Handed::NotNow => return Step::Settle,
        }
        exchange.take(bytes);
        Step::Went
    }

    /// Refuses a block that does not end where it should. What follows is taken for a command, as
    /// memcached does.
    pub(super) fn bad_chunk(
        &mut self,
        is_quiet: bool,
        block: usize,
        at: Line<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Step {
        let step = self.refuse_block(BAD_CHUNK, is_quiet, block - 2, at, exchange);
        if step == Step::Went {
            return self.skip(exchange);
        }
        step
    }

    /// Leaves something to the table's writer, and its answer with it.
    pub(super) fn leave(
        &mut self,
        id: TableId,
        task: Task,
        reply: Reply,
        bytes: usize,
        exchange: &mut Exchange<'_>,
    ) -> Step {
        if matches!(exchange.task(id, task), Handed::NotNow) {
            return Step::Settle;
        }
        self.left.push(reply);
        exchange.take(bytes);
        Step::Went
    }

    fn carry_out(
        &mut self,
        request: Request<'_>,
        at: Line<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Step {
        match request {
            Request::Store(store) => self.store(store, at, exchange),
            Request::Get {
                keys,
                with_unique,
                expiry,
            } => {
                if let Some(text) = Reading::refuse(keys) {
                    return Self::refuse(text, at, exchange);
                }
                if !exchange.is_settled() {
                    return Step::Settle;
                }
                let left = keys.len() + at.end;
                exchange.take(at.bytes - left);
                let reading = Reading {
                    with_unique,
                    expiry,
                    left,
                    is_told: false,
                };
                let (reading, step) = reading.go_on(exchange);
                self.reading = reading;
                step
            }
            Request::Delete { key, is_quiet } => {
                let (id, key) = exchange.catalogue().resolve(key);
                exchange.asks(id, Verb::Delete);
                let update = Update::new(key, Change::Remove);
                self.update((id, &update), (Asked::Delete, is_quiet), at.bytes, exchange)
            }
            Request::Count {
                key,
                is_up,
                by,
                is_quiet,
            } => {
                let (id, key) = exchange.catalogue().resolve(key);
                let initial = None;
                let (change, asked) = if is_up {
                    exchange.asks(id, Verb::Increment);
                    (Change::Increment { by, initial }, Asked::Increment)
                } else {
                    exchange.asks(id, Verb::Decrement);
                    (Change::Decrement { by, initial }, Asked::Decrement)
                };
                let update = Update::new(key, change);
                self.update((id, &update), (asked, is_quiet), at.bytes, exchange)
            }
            Request::Touch {
                key,
                expiry,
                is_quiet,
            } => {
                let (id, key) = exchange.catalogue().resolve(key);
                exchange.asks(id, Verb::Touch);
                let expires_at = expires_at(expiry, exchange.stamp().seconds());
                let update = Update {
                    attributes: Attributes {
                        flags: 0,
                        expires_at,
                    },
                    ..Update::new(key, Change::Touch)
                };
                let step = self.update((id, &update), (Asked::Touch, is_quiet), at.bytes, exchange);
                if step == Step::Went {
                    exchange.count(Count::Touch, 1);
                }
                step
            }
            Request::MetaGet(words) => self.meta(Command::Get, words, at, exchange),
            Request::MetaSet(words) => self.meta_set(words, at, exchange),
            Request::MetaDelete(words) => self.meta(Command::Delete, words, at, exchange),
            Request::MetaArithmetic(words) => self.meta(Command::Arithmetic, words, at, exchange),
            Request::MetaDebug(words) => Self::meta_debug(words, at, exchange),
            Request::MetaNoOp => {
                exchange.asks(None, Verb::NoOp);
                Self::say("MN", at, exchange)
            }
            Request::FlushAll { delay, is_quiet } => self.flush_all(delay, is_quiet, at, exchange),
            Request::Verbosity { is_quiet } => {
                exchange.asks(None, Verb::Verbosity);
                if !is_quiet {
                    return Self::say("OK", at, exchange);
                }
                exchange.take(at.bytes);
                Step::Went
            }
            Request::Stats { about } => {
                if !exchange.is_settled() {
                    return Step::Settle;
                }
                if !statistics::write(about, exchange) {
                    return Self::refuse(ERROR, at, exchange);
                }
                exchange.asks(None, Verb::Stats);
                exchange.take(at.bytes);
                Step::Went
            }
            Request::Version => {
                exchange.asks(None, Verb::Version);
                let version = concat!("VERSION ", env!("CARGO_PKG_VERSION"));
                Self::say(version, at, exchange)
            }
            Request::Quit if !exchange.is_settled() => Step::Settle,
            Request::Quit => {
                exchange.asks(None, Verb::Quit);
                exchange.take(at.bytes);
                Step::Close
            }
        }
    }
}

impl Protocol for Session {
    fn step(&mut self, exchange: &mut Exchange<'_>) -> Step {
        if self.skip > 0 {
            return self.skip(exchange);
        }
        if let Some(reading) = self.reading.take() {
            let (reading, step) = reading.go_on(exchange);
            self.reading = reading;
            return step;
        }
        let input = exchange.input();
        if let Some((store, bytes)) = Store::parse_usual(input) {
            let rest = input.get(bytes..).unwrap_or_default();
            let end = 2;
            let step = self.store(store, Line { rest, bytes, end }, exchange);
            if step == Step::Went {
                Self::store_more(exchange);
            }
            return step;
        }
        let Some(end) = memchr(b'\n', input) else {
            let lists_keys = matches!(Words::new(input).next(), Some(b"get" | b"gets"));
            let most = if lists_keys {
                KEYS_BYTES_MAX
            } else {
                LINE_BYTES_MAX
            };
            if input.len() < most {
                return Step::Read(input.len() + 1);
            }
            if !exchange.is_settled() {
                return Step::Settle;
            }
            line("CLIENT_ERROR line too long", exchange.output);
            return Step::Close;
        };
        let (whole, rest) = input.split_at_checked(end + 1).unwrap_or((input, &[]));
        let text = without_end(whole);
        let at = Line {
            rest,
            bytes: whole.len(),
            end: whole.len() - text.len(),
        };
        match Request::parse(text) {
            Ok(request) => self.carry_out(request, at, exchange),
            Err(refusal) if refusal.is_quiet => {
                exchange.asks(None, Verb::Refused);
                exchange.count(Count::Refused, 1);
                exchange.take(at.bytes);
                Step::Went
            }
            Err(refusal) => Self::refuse(refusal.text, at, exchange),
        }
    }

    fn settle(&mut self, settled: Vec<Settled>, exchange: &mut Exchange<'_>) {
        let mut replies = mem::take(&mut self.left).into_iter();
        for settled in settled {
            let reply = match self.reading {
                // The keys of a `gat`, which ends at the first error.
                Some(_) => Reply::Made,
                None => replies.next().unwrap_or(Reply::Made),
            };
            match (settled, reply) {
                (Settled::Update(result), Reply::Classic(asked, is_quiet)) => {
                    reply::answer(asked, is_quiet, &result, exchange);
                }
                (Settled::Update(result), Reply::Meta(reply)) => {
                    meta::answer(reply.command, &reply.meta, &result, exchange.output);
                    meta::count_meta(reply.command, &reply.meta, &result, exchange);
                }
                (Settled::Task(Ok(_)), Reply::Flushed(is_quiet)) => {
                    if !is_quiet {
                        line("OK", exchange.output);
                    }
                }
                (Settled::Task(Ok(made)), Reply::MetaGet(is_hit)) => {
                    meta::count_get(is_hit.load(Relaxed), exchange);
                    exchange.output.extend_from_slice(&made);
                }
                (Settled::Task(Ok(made)), _) => {
                    if let Some(reading) = &self.reading {
                        reading.count(&Ok(!made.is_empty()), exchange);
                    }
                    exchange.output.extend_from_slice(&made);
                }
                (Settled::Task(Err(error)) | Settled::Update(Err(error)), _) => {
                    exchange.count(Count::Refused, 1);
                    line(&reply::error_line(&error), exchange.output);
                    if let Some(reading) = self.reading.take() {
                        exchange.count(Count::Touch, 1);
                        self.skip = reading.left;
                        return;
                    }
                }
                (Settled::Update(Ok(_)), Reply::Made | Reply::MetaGet(_) | Reply::Flushed(_)) => {}
            }
        }
    }
}
