//! Events made on the spot, for measurements that need events nobody has seen: signed by all cores
//! before the clock runs.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    corpus::{
        event::Bytes32,
        random::Random,
        shape::Shape,
        sign::{Draft, Identified, Identities},
    },
    error::{BenchError, Result},
};

/// Different authors of fresh events.
const AUTHORS: usize = 2_000;
/// Makes a note about as long as the mean event.
const CONTENT_BYTES: usize = 340;
/// Fresh events are written from so long ago on, a second each; a corpus must be older.
const AGE_SECONDS: u64 = 30 * 86_400;

/// A signed event.
#[derive(Debug)]
pub(crate) struct Signed {
    pub(crate) json: String,
    pub(crate) id: Bytes32,
    /// A number for its author: who publishes it on one connection keeps each author's order.
    pub(crate) author: usize,
}

/// Makes events.
#[derive(Debug)]
pub(crate) struct Fresh<'a> {
    identities: &'a Identities,
    random: Random,
    shape: Shape<'a>,
    /// Carried by no other event than the notes of this maker, with a number behind it.
    pub(crate) hashtag: String,
    made: usize,
    stop: &'a AtomicBool,
}

impl Fresh<'_> {
    /// Returns keys that nobody has used before.
    pub(crate) fn identities() -> Identities {
        Identities::new(now().as_nanos() as u64, AUTHORS)
    }

    /// Returns the time from which on fresh events are written.
    pub(crate) fn begin() -> u64 {
        now().as_secs() - AGE_SECONDS
    }
}

impl<'a> Fresh<'a> {
    /// Starts a series unlike any before it, without some kinds. A set flag ends the making.
    pub(crate) fn new(identities: &'a Identities, without: &[u16], stop: &'a AtomicBool) -> Self {
        let seed = now().as_nanos() as u64;
        let mut random = Random::new(seed);
        let shape = Shape::new(seed, 0, AUTHORS, identities);
        Self {
            identities,
            hashtag: format!("bench{:016x}", random.next()),
            random,
            shape: shape.in_order_from(Self::begin(), without),
            made: 0,
            stop,
        }
    }

    /// Returns events with the shape of the real network.
    pub(crate) fn events(&mut self, count: usize) -> Result<Vec<Signed>> {
        let drawn: Vec<_> = (0..count)
            .map_while(|_| (!self.is_stopped()).then(|| self.shape.next()))
            .collect();
        self.sign(&drawn)
    }

    /// Returns notes of now, each with a hashtag of this maker: those of the groups in turns.
    pub(crate) fn notes(&mut self, count: usize, groups: usize) -> Result<Vec<Signed>> {
        let drawn = (0..count).map(|number| self.note(number % groups.max(1)));
        let drawn: Vec<_> = drawn.collect();
        self.sign(&drawn)
    }

    /// Returns the hashtag of the notes of a group.
    pub(crate) fn group(&self, group: usize) -> String {
        format!("{}n{group}", self.hashtag)
    }

    fn note(&mut self, group: usize) -> Identified {
        self.made += 1;
        let mut content = format!("{} ", self.made);
        while content.len() < CONTENT_BYTES {
            content.push_str(&faster_hex::hex_string(&self.random.bytes::<16>()));
        }
        let draft = Draft {
            author: self.random.below(AUTHORS),
            created_at: now().as_secs(),
            kind: 1,
            tags: format!("[[\"t\",\"{}\"]]", self.group(group)),
            content: format!("\"{content}\""),
        };
        draft.identify(self.identities)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn sign(&self, drawn: &[Identified]) -> Result<Vec<Signed>> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let share = drawn.len().div_ceil(cores).max(1);
        let one = |event: &Identified| {
            (!self.is_stopped()).then(|| Signed {
                json: event.sign(self.identities),
                id: event.id,
                author: event.draft.author,
            })
        };
        let signed: Vec<_> = thread::scope(|scope| {
            let parts = drawn.chunks(share);
            let signing: Vec<_> = parts
                .map(|part| scope.spawn(move || part.iter().map_while(one).collect::<Vec<_>>()))
                .collect();
            let signed = signing
                .into_iter()
                .map(|part| part.join().unwrap_or_default());
            signed.flatten().collect()
        });
        if self.is_stopped() {
            return Err(BenchError::Interrupted);
        }
        Ok(signed)
    }
}

fn now() -> std::time::Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use crate::corpus::{Fields, bytes32};

    #[test]
    fn each_authors_events_come_in_the_order_they_were_written() {
        let identities = Fresh::identities();
        let never = AtomicBool::new(false);
        let mut fresh = Fresh::new(&identities, &[3], &never);
        let mut newest: HashMap<usize, u64> = HashMap::new();
        let mut ids = HashSet::new();
        let mut kinds = HashSet::new();
        let events: Vec<_> = (0..2).flat_map(|_| fresh.events(600).unwrap()).collect();
        for event in events {
            let fields = Fields::parse(event.json.as_bytes()).unwrap();
            assert_eq!(bytes32(&fields.id), Some(event.id));
            assert!(ids.insert(event.id));
            let newest = newest.entry(event.author).or_default();
            assert!(fields.created_at > *newest);
            *newest = fields.created_at;
            kinds.insert(fields.kind);
        }
        assert!(kinds.contains(&5) && kinds.contains(&0) && !kinds.contains(&3));
    }
}
