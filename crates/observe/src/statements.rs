//! The record of the request that the thread works on: statements, waits, connections.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    hash::BuildHasher,
    panic::Location,
    pin::pin,
    time::Duration,
};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::fingerprint::fingerprint;

/// The same statement from the same line so often in one request is reported.
pub const REPEATS_MIN: u32 = 5;
/// Different statements that one request's record tells apart.
const DIFFERENT_MAX: usize = 32;
/// Texts whose fingerprint a thread remembers.
const KNOWN_MAX: usize = 1024;

/// What one request asked of databases.
#[derive(Debug, Default)]
pub struct Statements {
    pub(crate) made: Vec<Made>,
    /// Nanoseconds of waiting for connections, for answers, and of reading them.
    pub(crate) wait_ns: u64,
    pub(crate) query_ns: u64,
    pub(crate) decode_ns: u64,
    /// Connections that are held now.
    held: u32,
    /// Where a connection was asked for while another was held.
    pub(crate) nested: Option<&'static Location<'static>>,
}

/// One statement that a request made from one line.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) site: &'static Location<'static>,
    pub(crate) times: u32,
    pub(crate) total_ns: u64,
    pub(crate) shortest_ns: u64,
}

/// A statement's fingerprint, and the statement without its values.
#[derive(Debug, Clone)]
pub(crate) struct Fingerprint {
    pub(crate) hash: u64,
    pub(crate) text: std::rc::Rc<str>,
}

/// What the thread is at.
enum Current {
    Nothing,
    /// A request; nothing is recorded of it yet, so that one that asks no database costs nothing.
    Request(Option<Box<Statements>>),
}

thread_local! {
    static CURRENT: Cell<Current> = const { Cell::new(Current::Nothing) };
    static KNOWN: RefCell<HashMap<u64, Fingerprint, FixedState>> =
        const { RefCell::new(HashMap::with_hasher(FixedState::with_seed(0x6869))) };
}

/// Puts back what the thread was at, also if the work panics.
struct Restore<'a>(&'a mut Option<Box<Statements>>, Current);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut self.1, Current::Nothing);
        if let Current::Request(record) = CURRENT.replace(before) {
            *self.0 = record;
        }
    }
}

impl Statements {
    /// Returns the time that went to databases; of what was in flight together each counts.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.wait_ns + self.query_ns + self.decode_ns)
    }

    /// Works on a request: what is recorded meanwhile on this thread is added to `record`.
    pub fn within<T>(record: &mut Option<Box<Self>>, work: impl FnOnce() -> T) -> T {
        let before = CURRENT.replace(Current::Request(record.take()));
        let _restore = Restore(record, before);
        work()
    }
}

/// Polls a request's future within its record; returns what it came to, and the record.
pub async fn observed<F: Future>(request: F) -> (F::Output, Option<Box<Statements>>) {
    let mut request = pin!(request);
    let mut record = None;
    let output = poll_fn(|cx| Statements::within(&mut record, || request.as_mut().poll(cx))).await;
    (output, record)
}

/// Adds to the record of the request that the thread works on, if it does.
fn record(add: impl FnOnce(&mut Statements)) {
    CURRENT.with(|current| match current.replace(Current::Nothing) {
        Current::Nothing => {}
        Current::Request(record) => {
            let mut record = record.unwrap_or_default();
            add(&mut record);
            current.set(Current::Request(Some(record)));
        }
    });
}

/// Notes that the request has made a statement, from `site`, and had its answer after `took`.
pub fn statement(sql: &str, site: &'static Location<'static>, took: Duration) {
    record(|request| {
        let ns = nanoseconds(took);
        request.query_ns += ns;
        let fingerprint = known(sql);
        let same = |made: &Made| made.fingerprint.hash == fingerprint.hash && made.site == site;
        let made = &mut request.made;
        if let Some(at) = made.iter().position(same) {
            if let Some(made) = made.get_mut(at) {
                made.times += 1;
                made.total_ns += ns;
                made.shortest_ns = made.shortest_ns.min(ns);
            }
        } else if made.len() < DIFFERENT_MAX {
            made.push(Made {
                fingerprint,
                site,
                times: 1,
                total_ns: ns,
                shortest_ns: ns,
            });
        }
    });
}

/// Notes that reading a statement's answer took so long.
pub fn decoding(took: Duration) {
    record(|request| request.decode_ns += nanoseconds(took));
}

/// Notes that the request has got a connection, asked for at `site`, after waiting for it.
pub fn connection_taken(site: &'static Location<'static>, waited: Duration) {
    record(|request| {
        request.wait_ns += nanoseconds(waited);
        if request.held > 0 {
            request.nested = Some(site);
        }
        request.held += 1;
    });
}

/// Notes that the request has waited for a connection that others use too, so that nothing is held.
pub fn waited(time: Duration) {
    record(|request| request.wait_ns += nanoseconds(time));
}

/// Notes that the request has given a connection back.
pub fn connection_given_back() {
    record(|request| request.held = request.held.saturating_sub(1));
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn known(sql: &str) -> Fingerprint {
    let hasher = FixedState::with_seed(0x6869);
    let hash = hasher.hash_one(sql);
    KNOWN.with_borrow_mut(|known| {
        if let Some(found) = known.get(&hash) {
            return found.clone();
        }
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        let text = fingerprint(sql);
        let found = Fingerprint {
            hash: hasher.hash_one(&*text),
            text: text.into(),
        };
        known.insert(hash, found.clone());
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn query(sql: &str, us: u64) {
        statement(sql, Location::caller(), Duration::from_micros(us));
    }

    #[test]
    fn statements_belong_to_the_request_that_is_worked_on() {
        query("SELECT 1", 1);
        let (mut one, mut two) = (None, None);
        for id in 0..6 {
            Statements::within(&mut one, || {
                query(&format!("SELECT * FROM t WHERE id = {id}"), 10 + id);
                Statements::within(&mut two, || query("SELECT 2", 1));
            });
        }
        Statements::within(&mut one, || query("SELECT 3", 5));
        let (one, two) = (one.unwrap(), two.unwrap());
        let times = |record: &Statements| record.made.iter().map(|m| m.times).collect::<Vec<_>>();
        assert_eq!(times(&one), [6, 1]);
        assert_eq!(times(&two), [6]);
        let first = &one.made[0];
        assert_eq!(&*first.fingerprint.text, "SELECT * FROM t WHERE id = ?");
        assert_eq!((first.total_ns, first.shortest_ns), (75_000, 10_000));
        assert_eq!(one.query_ns, 80_000);
    }

    #[test]
    fn one_line_is_not_another() {
        let mut record = None;
        Statements::within(&mut record, || {
            query("SELECT 1", 1);
            query("SELECT 1", 1);
        });
        let made = record.unwrap().made;
        assert_eq!(made.len(), 2);
        assert_ne!(made[0].site.line(), made[1].site.line());
    }

    #[test]
    fn a_panic_leaves_the_thread_at_nothing() {
        let mut record = None;
        let work = std::panic::AssertUnwindSafe(|| {
            Statements::within(&mut record, || {
                query("SELECT 1", 1);
                panic!("a handler fails");
            })
        });
        std::panic::catch_unwind(work).unwrap_err();
        query("SELECT 2", 1);
        assert_eq!(record.unwrap().made.len(), 1);
    }

    #[test]
    fn a_second_connection_beside_a_held_one_is_noted() {
        let site = Location::caller();
        let mut record = None;
        Statements::within(&mut record, || {
            connection_taken(site, Duration::from_micros(3));
            connection_given_back();
            connection_taken(site, Duration::ZERO);
        });
        assert!(record.as_ref().unwrap().nested.is_none());
        Statements::within(&mut record, || connection_taken(site, Duration::ZERO));
        let record = record.unwrap();
        assert_eq!(record.nested, Some(site));
        assert_eq!(record.wait_ns, 3000);
    }
}
