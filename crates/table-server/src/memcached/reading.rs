//! `get`, `gets`, `gat` and `gats`: one key after the other, so that answers of any number and size
//! need no more memory than the largest.

use hikyaku_tables::{Attributes, Change, Outcome, Stamp, Table, TableError, Update};

use super::{
    reply::{error_line, line},
    request::{BAD_FORMAT, KEY_BYTES_MAX},
    words::{Words, expires_at, without_end, write_number},
};
use crate::{
    exchange::{Exchange, Handed, Step},
    metrics::Count,
    verb::Verb,
};

/// Bytes of answers from which on the rest waits until they are sent.
const ANSWERED_AT_ONCE: usize = 64 * 1024;

/// A read that is under way. The keys that are left are in the input, up to the line's end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) with_unique: bool,
    /// `gat`, `gats`
    pub(super) expiry: Option<i64>,
    /// Bytes of the input that are left of the line, its end included.
    pub(super) left: usize,
    /// It is said what is asked for.
    pub(super) is_told: bool,
}

/// What became of one key.
enum Answered {
    Yes,
    /// Its answer will be made by the table's writer.
    Left,
    NotNow,
    /// An error stands in the place of all that would follow.
    Refused,
}

impl Reading {
    /// Checks all keys, before any is answered.
    pub(super) fn refuse(keys: &[u8]) -> Option<&'static str> {
        let is_wrong =
            keys.len() > KEY_BYTES_MAX && Words::new(keys).any(|key| key.len() > KEY_BYTES_MAX);
        is_wrong.then_some(BAD_FORMAT)
    }

    /// Answers keys. `Some` if the read goes on later.
    pub(super) fn go_on(mut self, exchange: &mut Exchange<'_>) -> (Option<Self>, Step) {
        let (before, was_told) = (self.left, self.is_told);
        // Nothing is taken, or told, by a step that settles.
        let settle = |mut reading: Self| match reading.left {
            left if left == before => {
                reading.is_told = was_told;
                (Some(reading), Step::Settle)
            }
            _ => (Some(reading), Step::Went),
        };
        let line = exchange.input().get(..self.left).unwrap_or_default();
        let mut words = Words::new(without_end(line));
        loop {
            let at = words.rest();
            let Some(key) = words.next() else {
                if !exchange.is_settled() {
                    return settle(self);
                }
                exchange.output.extend_from_slice(b"END\r\n");
                exchange.take(self.left);
                return (None, Step::Went);
            };
            match self.answer(key, exchange) {
                Answered::Yes | Answered::Left => {}
                Answered::NotNow => return settle(self),
                Answered::Refused => {
                    exchange.take(self.left);
                    return (None, Step::Went);
                }
            }
            let taken = at.len() - words.rest().len();
            exchange.take(taken);
            self.left -= taken;
            if exchange.output.len() >= ANSWERED_AT_ONCE {
                return (Some(self), Step::Went);
            }
        }
    }

    fn answer(&mut self, key: &[u8], exchange: &mut Exchange<'_>) -> Answered {
        let (id, name) = exchange.catalogue().resolve(key);
        if !self.is_told {
            self.is_told = true;
            exchange.asks(id, self.verb());
        }
        let served = exchange.catalogue().table(id);
        if self.expiry.is_some() && served.updates_wait {
            let (reading, whole) = (*self, key.to_vec());
            let prefix = key.len() - name.len();
            let task = move |table: &dyn Table, stamp: Stamp| {
                let (mut value, mut output) = (Vec::new(), Vec::new());
                let key = whole.get(prefix..).unwrap_or_default();
                reading.read(table, key, &whole, stamp, &mut value, &mut output)?;
                Ok(output)
            };
            return match exchange.task(id, Box::new(task)) {
                Handed::NotNow => Answered::NotNow,
                _ => Answered::Left,
            };
        }
        if !exchange.is_settled() {
            return Answered::NotNow;
        }
        let stamp = exchange.stamp();
        let read = self.read(
            &*served.table,
            name,
            key,
            stamp,
            exchange.value,
            exchange.output,
        );
        self.count(&read, exchange);
        if let Err(error) = &read {
            line(&error_line(error), exchange.output);
            return Answered::Refused;
        }
        Answered::Yes
    }

    fn verb(&self) -> Verb {
        match (self.expiry, self.with_unique) {
            (Some(_), _) => Verb::GetAndTouch,
            (None, true) => Verb::GetWithUnique,
            (None, false) => Verb::Get,
        }
    }

    /// Counts what came of one key.
    pub(super) fn count(&self, read: &Result<bool, TableError>, exchange: &Exchange<'_>) {
        let (command, hits, misses) = match self.expiry {
            None => (Count::Get, Count::GetHits, Count::GetMisses),
            Some(_) => (Count::Touch, Count::TouchHits, Count::TouchMisses),
        };
        exchange.count(command, 1);
        match read {
            Ok(true) => exchange.count(hits, 1),
            Ok(false) => exchange.count(misses, 1),
            Err(_) => exchange.count(Count::Refused, 1),
        }
    }

    /// Reads one record and writes it down, if there is one.
    fn read(
        &self,
        table: &dyn Table,
        key: &[u8],
        whole_key: &[u8],
        stamp: Stamp,
        value: &mut Vec<u8>,
        output: &mut Vec<u8>,
    ) -> Result<bool, TableError> {
        let now = stamp.seconds();
        let Some(mut found) = table.get(key, now, value)? else {
            return Ok(false);
        };
        if let Some(expiry) = self.expiry {
            let touch = Update {
                attributes: Attributes {
                    flags: 0,
                    expires_at: expires_at(expiry, now),
                },
                ..Update::new(key, Change::Touch)
            };
            match table.update(&touch, stamp)? {
                Outcome::NotFound => return Ok(false),
                Outcome::Stored { unique } => found.unique = unique,
                _ => {}
            }
        }
        output.extend_from_slice(b"VALUE ");
        output.extend_from_slice(whole_key);
        output.push(b' ');
        write_number(found.flags, output);
        output.push(b' ');
        write_number(value.len(), output);
        if self.with_unique {
            output.push(b' ');
            write_number(found.unique, output);
        }
        output.extend_from_slice(b"\r\n");
        output.extend_from_slice(value);
        output.extend_from_slice(b"\r\n");
        Ok(true)
    }
}
