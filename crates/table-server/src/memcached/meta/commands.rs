//! The meta commands in a conversation: which go to a table's writer, and how each is answered.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use hikyaku_tables::{Outcome, Stamp, Table, TableError, Update};

use super::{Command, LONG_OPAQUE, Meta, MetaReply, answer, arithmetic, get, set};
use crate::{
    catalogue::TableId,
    exchange::{Exchange, Handed, Step},
    memcached::{
        Leases, Session,
        reply::{self, Asked, Reply, line},
        request::{BAD_FORMAT, ERROR, KEY_BYTES_MAX, block_length},
        session::{Line, TOO_LARGE},
        words::Words,
    },
    metrics::Count,
    verb::Verb,
};

impl Session {
    pub(in crate::memcached) fn meta_set(
        &mut self,
        words: &[u8],
        at: Line<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Step {
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
            Err(text) if key.len() > KEY_BYTES_MAX => {
                return Self::refuse(text, at, exchange);
            }
            Err(text) => return self.refuse_block(text, false, length, at, exchange),
        };
        if length > exchange.config().value_bytes_max {
            return self.refuse_block(TOO_LARGE, false, length, at, exchange);
        }
        let (id, key) = exchange.catalogue().resolve(&meta.key);
        exchange.asks(
            id,
            match meta.options.mode {
                Some(b'Q' | b'V') => Verb::MetaRotate,
                _ => Verb::MetaSet,
            },
        );
        let now = exchange.stamp().seconds();
        let data = at.rest.get(..block);
        let content = data.and_then(|data| data.strip_suffix(b"\r\n"));
        let update = match set::update(&meta, key, content.unwrap_or_default(), now) {
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
                let result = set::store(&*served.table, &served.leases, &update, exchange.stamp());
                answer(Command::Set, &meta, &result, exchange.output);
                exchange.take(bytes);
                exchange.count(Count::Set, 1);
                return Step::Went;
            }
            let leases = served.leases.clone();
            let prefix = meta.key.len() - key.len();
            let (owned, content) = (meta.into_owned(), content.to_vec());
            let task = move |table: &dyn Table, stamp: Stamp| {
                let key = owned.key.get(prefix..).unwrap_or_default();
                let update = set::update(&owned, key, &content, stamp.seconds())
                    .map_err(|text| TableError::Syntax(text.to_owned()))?;
                let result = set::store(table, &leases, &update, stamp);
                let mut output = Vec::new();
                answer(Command::Set, &owned, &result, &mut output);
                Ok(output)
            };
            let step = self.leave(id, Box::new(task), Reply::Made, bytes, exchange);
            if step == Step::Went {
                exchange.count(Count::Set, 1);
            }
            return step;
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
                answer(command, meta, &result, exchange.output);
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

    pub(in crate::memcached) fn meta(
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
            Err(text @ (BAD_FORMAT | LONG_OPAQUE)) => {
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
        exchange.asks(
            id,
            match command {
                Command::Get => Verb::MetaGet,
                Command::Set => Verb::MetaSet,
                Command::Delete => Verb::MetaDelete,
                Command::Arithmetic => Verb::MetaArithmetic,
            },
        );
        let served = exchange.catalogue().table(id);
        let now = exchange.stamp().seconds();
        let increment = match command {
            Command::Arithmetic => match arithmetic::increment(&meta, key, now) {
                Ok(update) => Some(update),
                Err(text) => return Self::refuse(text, at, exchange),
            },
            _ => None,
        };
        // What one update does goes with others to a table's writer.
        let alone = match command {
            Command::Delete if !options.invalidates => Some(set::remove(&meta, key)),
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
            let is_hit = Arc::new(AtomicBool::new(false));
            let reply = match command {
                Command::Get => Reply::MetaGet(Arc::clone(&is_hit)),
                _ => Reply::Made,
            };
            let task = move |table: &dyn Table, stamp: Stamp| {
                let key = owned.key.get(prefix..).unwrap_or_default();
                let (mut value, mut output) = (Vec::new(), Vec::new());
                let found = compound(
                    command,
                    table,
                    &leases,
                    key,
                    &owned,
                    stamp,
                    &mut value,
                    &mut output,
                )?;
                is_hit.store(found, Relaxed);
                Ok(output)
            };
            let step = self.leave(id, Box::new(task), reply, at.bytes, exchange);
            if step == Step::Went {
                exchange.count(Count::Meta, 1);
            }
            return step;
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
            Ok(is_hit) if command == Command::Get => count_get(is_hit, exchange),
            Ok(_) => {}
            Err(error) => {
                exchange.count(Count::Refused, 1);
                line(&reply::error_line(&error), exchange.output);
            }
        }
        exchange.count(Count::Meta, 1);
        Step::Went
    }

    pub(in crate::memcached) fn meta_debug(
        words: &[u8],
        at: Line<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Step {
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
        exchange.asks(id, Verb::MetaDebug);
        let table = &*exchange.catalogue().table(id).table;
        let now = exchange.stamp().seconds();
        let told = get::debug(table, key, word, now, exchange.value, exchange.output);
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
    leases: &Leases,
    key: &[u8],
    meta: &Meta<'_>,
    stamp: Stamp,
    value: &mut Vec<u8>,
    output: &mut Vec<u8>,
) -> Result<bool, TableError> {
    let outcome = match command {
        Command::Get => return get::get(table, leases, key, meta, stamp, value, output),
        Command::Arithmetic => {
            let update = arithmetic::increment(meta, key, stamp.seconds())
                .map_err(|text| TableError::Syntax(text.to_owned()))?;
            arithmetic::arithmetic(table, &update, meta, stamp, output)?
        }
        Command::Set | Command::Delete => {
            let outcome = set::invalidate(table, leases, key, meta, stamp)?;
            answer(command, meta, &Ok(outcome), output);
            outcome
        }
    };
    Ok(outcome != Outcome::NotFound)
}

/// Counts what came of `mg`.
pub(in crate::memcached) fn count_get(is_hit: bool, exchange: &Exchange<'_>) {
    exchange.count(Count::Get, 1);
    let found = if is_hit {
        Count::GetHits
    } else {
        Count::GetMisses
    };
    exchange.count(found, 1);
}

/// Counts what came of a meta command that was one update.
pub(in crate::memcached) fn count_meta(
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
