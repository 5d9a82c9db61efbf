//! What a conversation reads: records, their sizes, keys, figures of the table.

use hikyaku_tables::{Stamp, Table};

use super::{
    Session,
    arguments::Strings,
    iterator::KeyIterator,
    keys::Word,
    search,
    session::{MISCELLANEOUS, answer_bytes_max, resolve},
    stat,
    wire::{DONE, FAILED, Refusal, Request, write_string},
};
use crate::{
    catalogue::Catalogue,
    exchange::{Exchange, Step},
    metrics::Count,
};

impl Session {
    /// Answers what changes nothing, from what is at hand.
    pub(super) fn read(&mut self, request: &Request<'_>, exchange: &mut Exchange<'_>) {
        let default = &exchange.catalogue().table(Catalogue::DEFAULT).table;
        match *request {
            Request::Get(key) => {
                exchange.count(Count::TyrantGet, 1);
                if self.fetch(key, exchange) {
                    exchange.output.push(DONE);
                    write_string(exchange.output, exchange.value);
                } else {
                    exchange.count(Count::TyrantGetMiss, 1);
                    exchange.output.push(FAILED);
                }
            }
            Request::ValueSize(key) => {
                let (table, key) = resolve(key, exchange);
                let now = exchange.stamp().seconds();
                let size = match Word::of(table, key).map(|word| word.key(table)) {
                    None => table.size(key, now),
                    Some(Ok(Some(key))) => table.size(&key, now),
                    Some(Ok(None)) => Ok(None),
                    Some(Err(error)) => Err(error),
                };
                match self.heed(size) {
                    Some(size) => {
                        exchange.output.push(DONE);
                        let size = (size as u32).to_be_bytes();
                        exchange.output.extend_from_slice(&size);
                    }
                    None => exchange.output.push(FAILED),
                }
            }
            Request::IteratorInit => {
                self.keys = KeyIterator::begin();
                exchange.output.push(DONE);
            }
            Request::IteratorNext => {
                let next = self.keys.next(&**default);
                match self.heed(next) {
                    Some(key) => {
                        exchange.output.push(DONE);
                        write_string(exchange.output, &key);
                    }
                    None => exchange.output.push(FAILED),
                }
            }
            Request::RecordCount => write_u64(exchange.output, default.count()),
            Request::Size => write_u64(exchange.output, default.bytes()),
            Request::Stat => {
                let text = stat::text(exchange);
                exchange.output.push(DONE);
                write_string(exchange.output, text.as_bytes());
            }
            // There are no scripts.
            _ => {
                self.error = Some((MISCELLANEOUS, "not available here".to_owned()));
                exchange.output.push(FAILED);
            }
        }
    }

    pub(super) fn list_keys(
        &mut self,
        prefix: &[u8],
        max: i32,
        exchange: &mut Exchange<'_>,
    ) -> Step {
        let (id, pattern) = exchange.catalogue().resolve(prefix);
        exchange.asks_of(id);
        let table_name = prefix.len() - pattern.len();
        let (prefix, pattern) = (prefix.get(..table_name), pattern.to_vec());
        let prefix = prefix.unwrap_or_default().to_vec();
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let bytes_max = answer_bytes_max(exchange);
        let task = move |table: &dyn Table, _: Stamp| {
            Ok(search::keys(table, &pattern, &prefix, max, bytes_max)?)
        };
        self.task_aside(id, Box::new(task), Refusal::Code, exchange)
    }

    /// Answers with the records that are there, each as two lengths, a key and a value.
    pub(super) fn get_many(&mut self, keys: &Strings, exchange: &mut Exchange<'_>) {
        let start = exchange.output.len();
        let bytes_max = answer_bytes_max(exchange);
        exchange.output.extend_from_slice(&[DONE, 0, 0, 0, 0]);
        let mut found = 0_u32;
        for key in keys.iter() {
            exchange.count(Count::TyrantGet, 1);
            if !self.fetch(key, exchange) {
                exchange.count(Count::TyrantGetMiss, 1);
                continue;
            }
            let (output, value) = (&mut *exchange.output, &*exchange.value);
            if output.len() - start + key.len() + value.len() > bytes_max {
                output.truncate(start);
                output.push(FAILED);
                self.error = Some((MISCELLANEOUS, "the answer would be too long".to_owned()));
                return;
            }
            for length in [key.len(), value.len()] {
                output.extend_from_slice(&(length as u32).to_be_bytes());
            }
            output.extend_from_slice(key);
            output.extend_from_slice(value);
            found += 1;
        }
        if let Some(count) = exchange.output.get_mut(start + 1..start + 5) {
            count.copy_from_slice(&found.to_be_bytes());
        }
    }

    /// Reads a record into the exchange's value.
    pub(super) fn fetch(&mut self, key: &[u8], exchange: &mut Exchange<'_>) -> bool {
        let (table, key) = resolve(key, exchange);
        let now = exchange.stamp().seconds();
        let found = match Word::of(table, key).map(|word| word.key(table)) {
            None => table.get(key, now, exchange.value),
            Some(Ok(Some(key))) => table.get(&key, now, exchange.value),
            Some(Ok(None)) => Ok(None),
            Some(Err(error)) => Err(error),
        };
        self.heed(found).is_some()
    }
}

fn write_u64(output: &mut Vec<u8>, number: u64) {
    output.push(DONE);
    output.extend_from_slice(&number.to_be_bytes());
}
