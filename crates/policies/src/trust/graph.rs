//! Who is within so many steps of the roots. A change costs what it changes, and never the whole.
//!
//! For each key it is counted how many of those within 0, 1, 2, ... steps follow it; it is itself one
//! step further than the first of these counts that is not zero. A count of those within `n` steps
//! rests on counts for fewer steps alone, so keys that follow each other hold nobody up.

use hashbrown::{HashMap, hash_map::Entry};
use hikyaku_event::PublicKey;

/// The most steps that can be asked for.
pub(crate) const DEPTH_MAX: usize = 4;

/// What is known of one key.
#[derive(Debug, Default)]
struct Node {
    root: bool,
    /// How many of those within 0, 1, 2, ... steps follow it.
    followers: [u32; DEPTH_MAX],
    /// Whom it follows: known of those who are near enough to count.
    follows: Option<Box<[PublicKey]>>,
    /// As being how near its follows are counted.
    counted: Option<usize>,
}

/// The keys within some steps of the roots, and whom those follow that are not at the end.
#[derive(Debug)]
pub(crate) struct TrustGraph {
    depth: usize,
    nodes: HashMap<PublicKey, Node, foldhash::quality::RandomState>,
}

impl Node {
    /// Returns how many steps it is from the roots.
    fn level(&self, depth: usize) -> Option<usize> {
        if self.root {
            return Some(0);
        }
        let mut counts = self.followers.iter().take(depth);
        counts.position(|count| *count > 0).map(|at| at + 1)
    }
}

impl TrustGraph {
    /// Makes the graph of these roots alone.
    pub(crate) fn new(roots: &[PublicKey], depth: usize) -> Self {
        let root = || Node {
            root: true,
            ..Node::default()
        };
        Self {
            depth: depth.min(DEPTH_MAX),
            nodes: roots.iter().map(|key| (*key, root())).collect(),
        }
    }

    /// Tells whether a key is near enough.
    pub(crate) fn contains(&self, key: &PublicKey) -> bool {
        self.level(key).is_some()
    }

    /// Tells whether it matters whom a key follows.
    pub(crate) fn asks_of(&self, key: &PublicKey) -> bool {
        self.level(key).is_some_and(|level| level < self.depth)
    }

    /// Returns the keys of whom it matters whom they follow.
    pub(crate) fn asked(&self) -> Vec<PublicKey> {
        let keys = self.nodes.keys();
        keys.filter(|key| self.asks_of(key)).copied().collect()
    }

    /// Returns how many keys are near enough.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Takes down whom a key follows now. Returns the keys of whom it matters now and is not known.
    pub(crate) fn set_follows(
        &mut self,
        key: PublicKey,
        mut follows: Vec<PublicKey>,
    ) -> Vec<PublicKey> {
        if !self.asks_of(&key) {
            return Vec::new();
        }
        follows.sort_unstable();
        follows.dedup();
        let before = (self.nodes.get_mut(&key)).and_then(|node| {
            let level = node.counted.take()?;
            Some((level, node.follows.take()?))
        });
        let mut changed = Vec::new();
        // First whom it follows now: who stays is not to fall out in between.
        let level = self.level(&key).unwrap_or(self.depth);
        self.count(&follows, level..self.depth, true, &mut changed);
        if let Some(node) = self.nodes.get_mut(&key) {
            node.follows = Some(follows.into());
            node.counted = Some(level);
        }
        if let Some((level, follows)) = before {
            self.count(&follows, level..self.depth, false, &mut changed);
        }
        self.settle(changed)
    }

    fn level(&self, key: &PublicKey) -> Option<usize> {
        self.nodes.get(key)?.level(self.depth)
    }

    /// Counts one follower within each of so many steps more or less; notes whose level changes.
    fn count(
        &mut self,
        keys: &[PublicKey],
        levels: std::ops::Range<usize>,
        more: bool,
        changed: &mut Vec<PublicKey>,
    ) {
        for key in keys {
            let mut node = match self.nodes.entry(*key) {
                Entry::Occupied(node) => node,
                Entry::Vacant(place) if more => place.insert_entry(Node::default()),
                Entry::Vacant(_) => continue,
            };
            let before = node.get().level(self.depth);
            for count in node
                .get_mut()
                .followers
                .iter_mut()
                .take(levels.end)
                .skip(levels.start)
            {
                *count = if more {
                    count.saturating_add(1)
                } else {
                    count.saturating_sub(1)
                };
            }
            if node.get().level(self.depth) != before {
                changed.push(*key);
            }
        }
    }

    /// Carries on what changed levels mean for those who are followed.
    fn settle(&mut self, mut changed: Vec<PublicKey>) -> Vec<PublicKey> {
        let mut unknown = Vec::new();
        while let Some(key) = changed.pop() {
            let Entry::Occupied(mut entry) = self.nodes.entry(key) else {
                continue;
            };
            let node = entry.get_mut();
            let level = node.level(self.depth);
            let near = level.filter(|level| *level < self.depth);
            match (node.counted, node.follows.take()) {
                (Some(counted), Some(follows)) => {
                    let now = near.unwrap_or(self.depth);
                    node.counted = near;
                    if near.is_some() {
                        node.follows = Some(follows.clone());
                    }
                    if level.is_none() {
                        entry.remove();
                    }
                    if now < counted {
                        self.count(&follows, now..counted, true, &mut changed);
                    } else {
                        self.count(&follows, counted..now, false, &mut changed);
                    }
                }
                _ if level.is_none() => {
                    entry.remove();
                }
                _ if near.is_some() => unknown.push(key),
                _ => {}
            }
        }
        unknown.retain(|key| {
            self.asks_of(key)
                && self
                    .nodes
                    .get(key)
                    .is_some_and(|node| node.follows.is_none())
        });
        unknown
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn key(number: u8) -> PublicKey {
        PublicKey::new([number; 32])
    }

    /// Whom each follows, as the store would say.
    type Lists = BTreeMap<u8, Vec<u8>>;

    fn walked(lists: &Lists, depth: usize) -> BTreeSet<u8> {
        let mut found = BTreeSet::from([0]);
        for _ in 0..depth {
            let next = found.iter().filter_map(|key| lists.get(key)).flatten();
            let next: Vec<_> = next.copied().collect();
            found.extend(next);
        }
        found
    }

    /// Sets a list, and whatever the graph then asks for.
    fn set(graph: &mut TrustGraph, lists: &Lists, first: u8) {
        let mut asked = vec![key(first)];
        while let Some(next) = asked.pop() {
            let number = next.as_bytes()[0];
            let follows = lists.get(&number).cloned().unwrap_or_default();
            asked.extend(graph.set_follows(next, follows.into_iter().map(key).collect()));
        }
    }

    proptest! {
        #[test]
        fn it_has_whom_a_walk_from_the_roots_finds(
            depth in 0..4_usize,
            changes in prop::collection::vec((0..12_u8, prop::collection::vec(0..12_u8, 0..5)), 1..40),
        ) {
            let mut graph = TrustGraph::new(&[key(0)], depth);
            let mut lists = Lists::new();
            set(&mut graph, &lists, 0);
            for (who, follows) in changes {
                lists.insert(who, follows);
                set(&mut graph, &lists, who);
                let expected = walked(&lists, depth);
                let found: BTreeSet<_> = (0..12).filter(|n| graph.contains(&key(*n))).collect();
                prop_assert_eq!(&found, &expected);
                // Nothing is kept of anybody else.
                prop_assert_eq!(graph.len(), expected.len());
            }
        }
    }

    #[test]
    fn who_stays_is_not_asked_about_again() {
        let mut graph = TrustGraph::new(&[key(0)], 2);
        assert_eq!(graph.set_follows(key(0), vec![key(1), key(2)]).len(), 2);
        assert!(graph.set_follows(key(1), vec![key(3)]).is_empty());
        let asked = graph.set_follows(key(0), vec![key(1), key(4)]);
        assert_eq!(asked, [key(4)]);
        assert!(graph.contains(&key(3)) && !graph.contains(&key(2)));
    }
}
