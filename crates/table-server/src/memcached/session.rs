//! One client's conversation in memcached's text protocol.

use std::{mem, sync::atomic::Ordering::Relaxed};

use hikyaku_tables::{Attributes, Change, Condition, Outcome, Stamp, Table, TableError, Update};
use memchr::memchr;

use super::{
    meta::{self, Command, Meta, MetaReply},
    reading::Reading,
    reply::{self, Asked, Reply, line},
    request::{BAD_FORMAT, ERROR, Mode, Request, Store, block_length},
    statistics,
    words::{Words, expires_at, without_end},
};
use crate::{
    catalogue::TableId,
    exchange::{Exchange, Handed, Protocol, Step},
    metrics::Count,
    writer::{Settled, Task},
};

/// Bytes of a line, as memcached has it; and of one that lists keys.
const LINE_BYTES_MAX: usize = 2048;
const KEYS_BYTES_MAX: usize = 1024 * 1024;

const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk";
const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";

/// One client's conversation.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Bytes still to be skipped of a block that was refused.
    skip: usize,
    reading: Option<Reading>,
    /// How to answer what is left to a writer, in order.
    left: Vec<Reply>,
}

/// A line, where it stands in the input.
#[derive(Clone, Copy)]
struct Line<'a> {
    /// What follows the line.
    rest: &'a [u8],
    /// Bytes of the line with its end.
    bytes: usize,
    /// Bytes of the end.
    end: usize,
}

impl Session {
    /// Tells whether the client is in the middle of a request of which nothing is kept.
    pub(crate) fn is_within_request(&self) -> bool {
        self.skip > 0
    }

    fn skip(&mut self, exchange: &mut Exchange<'_>) -> Step {
        let skipped = self.skip.min(exchange.input().len());
        if skipped == 0 {
            return Step::Read(1);
        }
        self.skip -= skipped;
        exchange.take(skipped);
        Step::Went
    }

    /// Answers a request without a data block, or one whose block is not known; the line is taken.
    fn say(text: &str, at: Line<'_>, exchange: &mut Exchange<'_>) -> Step {
        if !exchange.is_settled() {
            return Step::Settle;
        }
        exchange.take(at.bytes);
        line(text, exchange.output);
        Step::Went
    }

    fn refuse(text: &str, at: Line<'_>, exchange: &mut Exchange<'_>) -> Step {
        let step = Self::say(text, at, exchange);
        if step == Step::Went {
            exchange.count(Count::Refused, 1);
        }
        step
    }

    /// Refuses a request with its data block, which is skipped.
    fn refuse_block(
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
        exchange.count(Count::Refused, 1);
        exchange.take(at.bytes);
        self.skip = length + 2;
        if !is_quiet {
            line(text, exchange.output);
        }
        Step::Went
    }

    /// Hands in an update and answers it, now or later. `bytes`: of the whole request.
    fn update(
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

    fn store(&mut self, store: Store<'_>, at: Line<'_>, exchange: &mut Exchange<'_>) -> Step {
        if store.length > exchange.config().value_bytes_max {
            return self.refuse_block(TOO_LARGE, store.is_quiet, store.length, at, exchange);
        }
        let block = store.length + 2;
        let Some(data) = at.rest.get(..block) else {
            return Step::Read(at.bytes + block);
        };
        let Some(data) = data.strip_suffix(b"\r\n") else {
            return self.bad_chunk(store.is_quiet, block, at, exchange);
        };
        let attributes = Attributes {
            flags: store.flags,
            expires_at: match store.expiry {
                0 => 0,
                expiry => expires_at(expiry, exchange.stamp().seconds()),
            },
        };
        let none = Attributes::default();
        let (condition, change, attributes) = match store.mode {
            Mode::Set => (Condition::Any, Change::Put(data), attributes),
            Mode::Add => (Condition::Absent, Change::Put(data), attributes),
            Mode::Replace => (Condition::Present, Change::Put(data), attributes),
            Mode::Append => (Condition::Present, Change::Append(data), none),
            Mode::Prepend => (Condition::Present, Change::Prepend(data), none),
            Mode::Cas(unique) => (Condition::Unique(unique), Change::Put(data), attributes),
        };
        let asked = match store.mode {
            Mode::Cas(_) => Asked::Cas,
            _ => Asked::Store,
        };
        let (id, key) = exchange.catalogue().resolve(store.key);
        let update = Update {
            key,
            condition,
            change,
            attributes,
        };
        let step = self.update(
            (id, &update),
            (asked, store.is_quiet),
            at.bytes + block,
            exchange,
        );
        if step == Step::Went {
            exchange.count(Count::Set, 1);
        }
        step
    }

    /// Refuses a block that does not end where it should. What follows is taken for a command, as
    /// memcached does.
    fn bad_chunk(
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
    fn leave(
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

    fn flush_all(
        &mut self,
        delay: i64,
        is_quiet: bool,
        at: Line<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Step {
        use crate::catalogue::Catalogue;
        if !exchange.is_settled() {
            return Step::Settle;
        }
        exchange.count(Count::Flush, 1);
        let now = exchange.stamp().seconds();
        let served = exchange.catalogue().table(Catalogue::DEFAULT);
        if delay > 0 {
            let at_us = expires_at(delay, now).saturating_mul(1_000_000);
            served.flush_at_us.store(at_us, Relaxed);
            exchange.take(at.bytes);
            if !is_quiet {
                line("OK", exchange.output);
            }
            return Step::Went;
        }
        served.flush_at_us.store(0, Relaxed);
        let vanish = |table: &dyn Table, stamp: Stamp| table.vanish(stamp).map(|()| Vec::new());
        let reply = Reply::Flushed(is_quiet);
        self.leave(
            Catalogue::DEFAULT,
            Box::new(vanish),
            reply,
            at.bytes,
            exchange,
        )
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
                };
                let (reading, step) = reading.go_on(exchange);
                self.reading = reading;
                step
            }
            Request::Delete { key, is_quiet } => {
                let (id, key) = exchange.catalogue().resolve(key);
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
                    (Change::Increment { by, initial }, Asked::Increment)
                } else {
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
            Request::MetaNoOp => Self::say("MN", at, exchange),
            Request::FlushAll { delay, is_quiet } => self.flush_all(delay, is_quiet, at, exchange),
            Request::Verbosity { is_quiet: false } => Self::say("OK", at, exchange),
            Request::Verbosity { is_quiet: true } => {
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
                exchange.take(at.bytes);
                Step::Went
            }
            Request::Version => {
                let version = concat!("VERSION ", env!("CARGO_PKG_VERSION"));
                Self::say(version, at, exchange)
            }
            Request::Quit if !exchange.is_settled() => Step::Settle,
            Request::Quit => Step::Close,
        }
    }

    fn meta_set(&mut self, words: &[u8], at: Line<'_>, exchange: &mut Exchange<'_>) -> Step {
        let mut words = Words::new(words);
        let (Some(key), length) = (words.next(), words.next()) else {
            return Self::refuse(ERROR, at, exchange);
        };
        let Some(length) = length.and_then(block_length) else {
            return Self::refuse(BAD_FORMAT, at, exchange);
        };
        let block = length + 2;
        let meta = match Meta::parse(key, words.rest()) {
            Ok(meta) => meta,
            Err(text) if key.len() > super::request::KEY_BYTES_MAX => {
                return Self::refuse(text, at, exchange);
            }
            Err(text) => return self.refuse_block(text, false, length, at, exchange),
        };
        if length > exchange.config().value_bytes_max {
            return self.refuse_block(TOO_LARGE, false, length, at, exchange);
        }
        let (id, key) = exchange.catalogue().resolve(&meta.key);
        let now = exchange.stamp().seconds();
        let data = at.rest.get(..block);
        let content = data.and_then(|data| data.strip_suffix(b"\r\n"));
        let update = match meta::update(&meta, key, content.unwrap_or_default(), now) {
            Ok(update) => update,
            Err(text) => return self.refuse_block(text, false, length, at, exchange),
        };
        if data.is_none() {
            return Step::Read(at.bytes + block);
        }
        let Some(content) = content else {
            return self.bad_chunk(false, block, at, exchange);
        };
        let bytes = at.bytes + block;
        if meta.options.invalidates && meta.options.unique.is_some() {
            let served = exchange.catalogue().table(id);
            if !served.updates_wait {
                if !exchange.is_settled() {
                    return Step::Settle;
                }
                let result = meta::store(&*served.table, &served.leases, &update, exchange.stamp());
                meta::answer(Command::Set, &meta, &result, exchange.output);
                exchange.take(bytes);
                exchange.count(Count::Set, 1);
                return Step::Went;
            }
            let leases = served.leases.clone();
            let prefix = meta.key.len() - key.len();
            let (owned, content) = (meta.into_owned(), content.to_vec());
            let task = move |table: &dyn Table, stamp: Stamp| {
                let key = owned.key.get(prefix..).unwrap_or_default();
                let update = meta::update(&owned, key, &content, stamp.seconds())
                    .map_err(|text| TableError::Syntax(text.to_owned()))?;
                let result = meta::store(table, &leases, &update, stamp);
                let mut output = Vec::new();
                meta::answer(Command::Set, &owned, &result, &mut output);
                Ok(output)
            };
            return self.leave(id, Box::new(task), Reply::Made, bytes, exchange);
        }
        let step = self.meta_update((id, &update), Command::Set, &meta, bytes, exchange);
        if step == Step::Went {
            exchange.count(Count::Set, 1);
        }
        step
    }

    /// Hands in an update and answers it, now or later.
    fn meta_update(
        &mut self,
        (id, update): (TableId, &Update<'_>),
        command: Command,
        meta: &Meta<'_>,
        bytes: usize,
        exchange: &mut Exchange<'_>,
    ) -> Step {
        match exchange.update(id, update) {
            Handed::Done(result) => {
                meta::answer(command, meta, &result, exchange.output);
                count_meta(command, meta, &result, exchange);
            }
            Handed::Left => self.left.push(Reply::Meta(Box::new(MetaReply {
                command,
                meta: meta.clone().into_owned(),
            }))),
            Handed::NotNow => return Step::Settle,
        }
        exchange.take(bytes);
        Step::Went
    }

    fn meta(
        &mut self,
        command: Command,
        words: &[u8],
        at: Line<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Step {
        let mut words = Words::new(words);
        let Some(key) = words.next() else {
            return Self::refuse(ERROR, at, exchange);
        };
        let meta = match Meta::parse(key, words.rest()) {
            Ok(meta) => meta,
            Err(text @ (BAD_FORMAT | meta::LONG_OPAQUE)) => {
                return Self::refuse(text, at, exchange);
            }
            Err(text) if command == Command::Get => return Self::refuse(text, at, exchange),
            Err(_) => {
                let text = "CLIENT_ERROR invalid or duplicate flag";
                return Self::refuse(text, at, exchange);
            }
        };
        let options = meta.options;
        let (id, key) = exchange.catalogue().resolve(&meta.key);
        let served = exchange.catalogue().table(id);
        let now = exchange.stamp().seconds();
        let increment = match command {
            Command::Arithmetic => match meta::increment(&meta, key, now) {
                Ok(update) => Some(update),
                Err(text) => return Self::refuse(text, at, exchange),
            },
            _ => None,
        };
        // What one update does goes with others to a table's writer.
        let alone = match command {
            Command::Delete if !options.invalidates => Some(meta::remove(&meta, key)),
            Command::Arithmetic
                if !options.wants_expiry
                    && options.expiry.is_none()
                    && (options.unique.is_none() || options.vivify.is_none()) =>
            {
                increment
            }
            _ => None,
        };
        if let Some(update) = alone {
            return self.meta_update((id, &update), command, &meta, at.bytes, exchange);
        }
        let is_update = command != Command::Get || options.vivify.or(options.expiry).is_some();
        if served.updates_wait && is_update {
            let leases = served.leases.clone();
            let prefix = meta.key.len() - key.len();
            let owned = meta.into_owned();
            let task = move |table: &dyn Table, stamp: Stamp| {
                let key = owned.key.get(prefix..).unwrap_or_default();
                let (mut value, mut output) = (Vec::new(), Vec::new());
                compound(
                    command,
                    table,
                    &leases,
                    key,
                    &owned,
                    stamp,
                    &mut value,
                    &mut output,
                )?;
                Ok(output)
            };
            return self.leave(id, Box::new(task), Reply::Made, at.bytes, exchange);
        }
        if !exchange.is_settled() {
            return Step::Settle;
        }
        exchange.take(at.bytes);
        let stamp = exchange.stamp();
        let done = compound(
            command,
            &*served.table,
            &served.leases,
            key,
            &meta,
            stamp,
            exchange.value,
            exchange.output,
        );
        match done {
            Ok(is_hit) if command == Command::Get => {
                exchange.count(Count::Get, 1);
                let found = if is_hit {
                    Count::GetHits
                } else {
                    Count::GetMisses
                };
                exchange.count(found, 1);
            }
            Ok(_) => {}
            Err(error) => {
                exchange.count(Count::Refused, 1);
                line(&reply::error_line(&error), exchange.output);
            }
        }
        exchange.count(Count::Meta, 1);
        Step::Went
    }

    fn meta_debug(words: &[u8], at: Line<'_>, exchange: &mut Exchange<'_>) -> Step {
        let mut words = Words::new(words);
        let Some(word) = words.next() else {
            return Self::refuse(BAD_FORMAT, at, exchange);
        };
        let flags = match words.next() {
            Some(flag @ b"b") => flag,
            _ => b"",
        };
        let Ok(meta) = Meta::parse(word, flags) else {
            return Self::refuse(BAD_FORMAT, at, exchange);
        };
        if !exchange.is_settled() {
            return Step::Settle;
        }
        exchange.take(at.bytes);
        let (id, key) = exchange.catalogue().resolve(&meta.key);
        let table = &*exchange.catalogue().table(id).table;
        let now = exchange.stamp().seconds();
        let told = meta::debug(table, key, word, now, exchange.value, exchange.output);
        if let Err(error) = told {
            line(&reply::error_line(&error), exchange.output);
        }
        Step::Went
    }
}

/// Carries out a meta command that reads, or does more than one update, and writes its answer.
/// Tells whether there was a record.
#[expect(
    clippy::too_many_arguments,
    reason = "it is called on either side of the way to a writer"
)]
fn compound(
    command: Command,
    table: &dyn Table,
    leases: &super::Leases,
    key: &[u8],
    meta: &Meta<'_>,
    stamp: Stamp,
    value: &mut Vec<u8>,
    output: &mut Vec<u8>,
) -> Result<bool, TableError> {
    let outcome = match command {
        Command::Get => return meta::get(table, leases, key, meta, stamp, value, output),
        Command::Arithmetic => {
            let update = meta::increment(meta, key, stamp.seconds())
                .map_err(|text| TableError::Syntax(text.to_owned()))?;
            meta::arithmetic(table, &update, meta, stamp, output)?
        }
        Command::Set | Command::Delete => {
            let outcome = meta::invalidate(table, leases, key, meta, stamp)?;
            meta::answer(command, meta, &Ok(outcome), output);
            outcome
        }
    };
    Ok(outcome != Outcome::NotFound)
}

/// Counts what came of a meta command that was one update.
fn count_meta(
    command: Command,
    meta: &Meta<'_>,
    result: &Result<Outcome, TableError>,
    exchange: &Exchange<'_>,
) {
    exchange.count(Count::Meta, 1);
    let Ok(outcome) = result else {
        exchange.count(Count::Refused, 1);
        return;
    };
    let asked = match command {
        Command::Delete => Asked::Delete,
        Command::Arithmetic => Asked::Increment,
        Command::Set if meta.options.unique.is_some() => Asked::Cas,
        Command::Get | Command::Set => Asked::Store,
    };
    reply::count(asked, outcome, exchange);
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
            return self.store(store, Line { rest, bytes, end }, exchange);
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
                    count_meta(reply.command, &reply.meta, &result, exchange);
                }
                (Settled::Task(Ok(_)), Reply::Flushed(is_quiet)) => {
                    if !is_quiet {
                        line("OK", exchange.output);
                    }
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
                (Settled::Update(Ok(_)), Reply::Made | Reply::Flushed(_)) => {}
            }
        }
    }
}
