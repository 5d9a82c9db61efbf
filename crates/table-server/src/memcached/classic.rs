//! The commands that change records, as memcached has had them since its first days.

use std::sync::atomic::Ordering::Relaxed;

use hikyaku_tables::{Attributes, Change, Condition, Outcome, Stamp, Table, Update};

use super::{
    Session,
    reply::{Asked, Reply, line},
    request::{Mode, Store},
    session::{Line, TOO_LARGE},
    words::expires_at,
};
use crate::{
    catalogue::Catalogue,
    exchange::{Exchange, Handed, Step},
    metrics::Count,
    verb::Verb,
};

/// Stores that one step carries out at most, besides the first.
const STORES_AT_ONCE: u64 = 256;

impl Session {
    pub(super) fn store(
        &mut self,
        store: Store<'_>,
        at: Line<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Step {
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
        exchange.asks(
            id,
            match store.mode {
                Mode::Set => Verb::Set,
                Mode::Add => Verb::Add,
                Mode::Replace => Verb::Replace,
                Mode::Append => Verb::Append,
                Mode::Prepend => Verb::Prepend,
                Mode::Cas(_) => Verb::Cas,
            },
        );
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

    /// Carries out the stores behind one that was carried out, as far as they are as plain as it: what
    /// a step costs besides is paid once for all. The first that is not is left to the next step, also
    /// one that is refused: nothing was changed then.
    pub(super) fn store_more(exchange: &mut Exchange<'_>) {
        let mut stored = 0;
        while stored < STORES_AT_ONCE
            && let input = exchange.input()
            && let Some((store, line_bytes)) = Store::parse_usual(input)
            && store.expiry == 0
            && store.length <= exchange.config().value_bytes_max
            && let bytes = line_bytes + store.length + 2
            && let Some(block) = input.get(line_bytes..bytes)
            && let Some(data) = block.strip_suffix(b"\r\n")
            && let (id, key) = exchange.catalogue().resolve(store.key)
            && exchange.asked_for(id, Verb::Set)
        {
            let update = Update {
                attributes: Attributes {
                    flags: store.flags,
                    expires_at: 0,
                },
                ..Update::new(key, Change::Put(data))
            };
            let Handed::Done(Ok(Outcome::Stored { .. })) = exchange.update(id, &update) else {
                break;
            };
            if !store.is_quiet {
                exchange.output.extend_from_slice(b"STORED\r\n");
            }
            exchange.take(bytes);
            stored += 1;
        }
        exchange.count(Count::Set, stored);
        exchange.asks_again(stored);
    }

    pub(super) fn flush_all(
        &mut self,
        delay: i64,
        is_quiet: bool,
        at: Line<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Step {
        if !exchange.is_settled() {
            return Step::Settle;
        }
        exchange.count(Count::Flush, 1);
        exchange.asks(Catalogue::DEFAULT, Verb::FlushAll);
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
}
