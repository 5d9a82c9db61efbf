//! Who is within so many steps of the roots. A change costs what it changes, and never the whole.
//!
//! For each key it is counted how many of those within 0, 1, 2, ... steps follow it; it is itself one
//! step further than the first of these counts that is not zero. A count of those within `n` steps
//! rests on counts for fewer steps alone, so keys that follow each other hold nobody up.

use std::{ops::Range, sync::Arc};

use hikyaku_event::PublicKey;

use super::keys::Keys;

/// The most steps that can be asked for.
pub(crate) const DEPTH_MAX: usize = 4;
/// Follows that are kept for each key that there may be: lists are shared out, a list of thousands
/// here and many of a few hundred there.
const FOLLOWS_PER_KEY: usize = 32;

/// What is known of one key.
#[derive(Debug)]
struct Node {
    key: PublicKey,
    root: bool,
    /// The place is in use.
    live: bool,
    /// How many of those within 0, 1, 2, ... steps follow it.
    followers: [u32; DEPTH_MAX],
    /// As being how near its follows are counted, and the places of whom it follows: known of those
    /// who are near enough to count.
    counted: Option<(usize, Box<[u32]>)>,
}

/// The keys within some steps of the roots, and whom those follow that are not at the end.
///
/// INVARIANT: whoever is in a counted list has a follower, so it has a place, and keeps it.
#[derive(Debug)]
pub(super) struct TrustGraph {
    depth: usize,
    keys: Arc<Keys>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// How many keys there may be, the roots among them.
    keys_max: usize,
    /// How many follows are kept.
    follows: usize,
    /// Some list was not taken wholly, for there was no room.
    is_short: bool,
}

impl Node {
    fn new(key: PublicKey, root: bool) -> Self {
        Self {
            key,
            root,
            live: true,
            followers: [0; DEPTH_MAX],
            counted: None,
        }
    }

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
    /// Makes the graph of these roots alone; it will not have more than so many keys.
    pub(super) fn new(roots: &[PublicKey], depth: usize, keys_max: usize) -> Self {
        let mut graph = Self {
            depth: depth.min(DEPTH_MAX),
            keys: Arc::default(),
            nodes: Vec::new(),
            free: Vec::new(),
            keys_max: keys_max.max(roots.len()).min(u32::MAX as usize),
            follows: 0,
            is_short: false,
        };
        for key in roots {
            graph.place_of(*key, true);
        }
        graph
    }

    /// Returns the keys that are near enough, as they are at any time.
    pub(super) fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// Tells whether it matters whom a key follows.
    pub(super) fn asks_of(&self, key: &PublicKey) -> bool {
        self.near(key).is_some()
    }

    /// Returns the keys of whom it matters whom they follow.
    pub(super) fn asked(&self) -> Vec<PublicKey> {
        let near = |node: &&Node| node.live && self.near_level(node).is_some();
        let nodes = self.nodes.iter().filter(near);
        nodes.map(|node| node.key).collect()
    }

    /// Returns how many keys are near enough.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Tells whether some list was not taken wholly, for there was no room.
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Takes down whom a key follows now. Returns the keys of whom it matters now and is not known.
    pub(super) fn set_follows(
        &mut self,
        key: &PublicKey,
        mut follows: Vec<PublicKey>,
    ) -> Vec<PublicKey> {
        let Some((place, level)) = self.near(key) else {
            return Vec::new();
        };
        follows.sort_unstable();
        follows.dedup();
        let before = self.take_counted(place);
        let room = (self.keys_max.saturating_mul(FOLLOWS_PER_KEY)).saturating_sub(self.follows);
        self.is_short |= follows.len() > room;
        let follows: Box<[u32]> = (follows.into_iter().take(room))
            .filter_map(|key| self.place_of(key, false))
            .collect();
        let mut changed = Vec::new();
        // First whom it follows now: who stays is not to fall out in between.
        self.count(&follows, level..self.depth, true, &mut changed);
        self.keep_counted(place, level, follows);
        if let Some((level, follows)) = before {
            self.count(&follows, level..self.depth, false, &mut changed);
        }
        self.settle(changed)
    }

    fn take_counted(&mut self, place: u32) -> Option<(usize, Box<[u32]>)> {
        let counted = self.node_mut(place)?.counted.take();
        self.follows -= counted.as_ref().map_or(0, |(_, follows)| follows.len());
        counted
    }

    fn keep_counted(&mut self, place: u32, level: usize, follows: Box<[u32]>) {
        self.follows += follows.len();
        if let Some(node) = self.node_mut(place) {
            node.counted = Some((level, follows));
        }
    }

    fn node(&self, place: u32) -> Option<&Node> {
        let node = self.nodes.get(place as usize);
        node.filter(|node| node.live)
    }

    fn node_mut(&mut self, place: u32) -> Option<&mut Node> {
        let node = self.nodes.get_mut(place as usize);
        node.filter(|node| node.live)
    }

    /// Returns the place and the level of a key of whom it matters whom it follows.
    fn near(&self, key: &PublicKey) -> Option<(u32, usize)> {
        let place = self.keys.place(key)?;
        Some((place, self.near_level(self.node(place)?)?))
    }

    fn near_level(&self, node: &Node) -> Option<usize> {
        node.level(self.depth).filter(|level| *level < self.depth)
    }

    /// Returns a key's place, a new one if it has none and there is room.
    fn place_of(&mut self, key: PublicKey, root: bool) -> Option<u32> {
        if let Some(place) = self.keys.place(&key) {
            return Some(place);
        }
        if self.len() >= self.keys_max {
            self.is_short = true;
            return None;
        }
        let place = match self.free.pop() {
            Some(place) => place,
            None => u32::try_from(self.nodes.len()).ok()?,
        };
        match self.nodes.get_mut(place as usize) {
            Some(node) => *node = Node::new(key, root),
            None => self.nodes.push(Node::new(key, root)),
        }
        self.keys.insert(key, place);
        Some(place)
    }

    fn remove(&mut self, place: u32) {
        if let Some(node) = self.node_mut(place) {
            node.live = false;
            let key = node.key;
            self.keys.remove(&key);
            self.free.push(place);
        }
    }

    /// Counts one follower within each of so many steps more or less; notes whose level changes.
    fn count(&mut self, places: &[u32], levels: Range<usize>, more: bool, changed: &mut Vec<u32>) {
        let depth = self.depth;
        for place in places {
            let Some(node) = self.node_mut(*place) else {
                continue;
            };
            let before = node.level(depth);
            let counts = node.followers.iter_mut();
            for count in counts.take(levels.end).skip(levels.start) {
                *count = if more {
                    count.saturating_add(1)
                } else {
                    count.saturating_sub(1)
                };
            }
            if node.level(depth) != before {
                changed.push(*place);
            }
        }
    }

    /// Carries on what changed levels mean for those who are followed.
    fn settle(&mut self, mut changed: Vec<u32>) -> Vec<PublicKey> {
        let mut unknown = Vec::new();
        while let Some(place) = changed.pop() {
            let Some(node) = self.node(place) else {
                continue;
            };
            let (level, near) = (node.level(self.depth), self.near_level(node));
            if let Some((counted, follows)) = self.take_counted(place) {
                let now = near.unwrap_or(self.depth);
                if now < counted {
                    self.count(&follows, now..counted, true, &mut changed);
                } else {
                    self.count(&follows, counted..now, false, &mut changed);
                }
                if near.is_some() {
                    self.keep_counted(place, now, follows);
                }
            } else if near.is_some() {
                unknown.push(place);
            }
            if level.is_none() {
                self.remove(place);
            }
        }
        let asked = |place: u32| {
            let node = self.node(place)?;
            let is_unknown = self.near_level(node).is_some() && node.counted.is_none();
            is_unknown.then_some(node.key)
        };
        unknown.into_iter().filter_map(asked).collect()
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
            asked.extend(graph.set_follows(&next, follows.into_iter().map(key).collect()));
        }
    }

    fn found(graph: &TrustGraph) -> BTreeSet<u8> {
        (0..12)
            .filter(|n| graph.keys().contains(&key(*n)))
            .collect()
    }

    proptest! {
        #[test]
        fn it_has_whom_a_walk_from_the_roots_finds(
            depth in 0..4_usize,
            changes in prop::collection::vec((0..12_u8, prop::collection::vec(0..12_u8, 0..5)), 1..40),
        ) {
            let mut graph = TrustGraph::new(&[key(0)], depth, 12);
            let mut lists = Lists::new();
            set(&mut graph, &lists, 0);
            for (who, follows) in changes {
                lists.insert(who, follows);
                set(&mut graph, &lists, who);
                let expected = walked(&lists, depth);
                prop_assert_eq!(&found(&graph), &expected);
                // Nothing is kept of anybody else.
                prop_assert_eq!(graph.len(), expected.len());
                prop_assert!(!graph.is_short());
                let asked: BTreeSet<_> = graph.asked().iter().map(|key| key.as_bytes()[0]).collect();
                let near = depth.checked_sub(1).map(|depth| walked(&lists, depth));
                prop_assert_eq!(asked, near.unwrap_or_default());
            }
            // And nothing at all but the root when nobody follows anybody.
            for who in 0..12 {
                lists.remove(&who);
                set(&mut graph, &lists, who);
            }
            prop_assert_eq!((graph.len(), graph.follows), (1, 0));
        }

        #[test]
        fn one_that_is_full_has_nobody_whom_a_walk_does_not_find(
            depth in 1..4_usize,
            keys_max in 1..8_usize,
            changes in prop::collection::vec((0..12_u8, prop::collection::vec(0..12_u8, 0..8)), 1..40),
        ) {
            let mut graph = TrustGraph::new(&[key(0)], depth, keys_max);
            let mut lists = Lists::new();
            for (who, follows) in changes {
                lists.insert(who, follows);
                set(&mut graph, &lists, who);
                prop_assert!(found(&graph).is_subset(&walked(&lists, depth)));
                prop_assert!(graph.len() <= keys_max);
            }
        }
    }

    #[test]
    fn who_stays_is_not_asked_about_again() {
        let mut graph = TrustGraph::new(&[key(0)], 2, 12);
        assert_eq!(graph.set_follows(&key(0), vec![key(1), key(2)]).len(), 2);
        assert!(graph.set_follows(&key(1), vec![key(3)]).is_empty());
        let asked = graph.set_follows(&key(0), vec![key(1), key(4)]);
        assert_eq!(asked, [key(4)]);
        assert_eq!(found(&graph), [0, 1, 3, 4].into());
    }

    #[test]
    fn neither_keys_nor_follows_are_more_than_there_may_be() {
        let mut graph = TrustGraph::new(&[key(0)], 3, 4);
        let many = |first: u8, count: u8| (first..first + count).map(key).collect();
        assert_eq!(graph.set_follows(&key(0), many(1, 3)).len(), 3);
        assert!(!graph.is_short());
        assert!(graph.set_follows(&key(1), many(4, 100)).is_empty());
        assert!(graph.is_short());
        assert_eq!(graph.len(), 4);
        // Room that somebody leaves is another's.
        graph.set_follows(&key(0), many(1, 2));
        graph.set_follows(&key(1), many(4, 100));
        assert_eq!(found(&graph), [0, 1, 2, 4].into());
        // Lists of keys that are there already have a bound of their own.
        let mut graph = TrustGraph::new(&[key(0)], 2, 60);
        graph.set_follows(&key(0), many(1, 59));
        for n in 1..60 {
            graph.set_follows(&key(n), many(0, 60));
        }
        assert!(graph.is_short());
        assert_eq!(graph.follows, 60 * FOLLOWS_PER_KEY);
    }
}
