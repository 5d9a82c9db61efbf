//! Which keys there are in the graph: for all workers to ask while one thread changes it.

use std::{
    hash::BuildHasher,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use foldhash::quality::RandomState;
use hashbrown::HashMap;
use hikyaku_event::PublicKey;

/// Parts with a lock each: who asks waits for one entry at most, and where a part grows for this part
/// alone.
const SHARDS: usize = 64;

/// Each key's place among the nodes of the graph.
type Shard = HashMap<PublicKey, u32, RandomState>;

/// The keys of a graph, and their places in it.
#[derive(Debug)]
pub(super) struct Keys {
    shards: Box<[RwLock<Shard>; SHARDS]>,
    /// Which part a key is in: nobody can choose keys that are all in one.
    hasher: RandomState,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            shards: Box::new(std::array::from_fn(|_| RwLock::default())),
            hasher: RandomState::default(),
        }
    }
}

impl Keys {
    pub(super) fn contains(&self, key: &PublicKey) -> bool {
        self.read(key).contains_key(key)
    }

    pub(super) fn place(&self, key: &PublicKey) -> Option<u32> {
        self.read(key).get(key).copied()
    }

    pub(super) fn insert(&self, key: PublicKey, place: u32) {
        self.write(&key).insert(key, place);
    }

    pub(super) fn remove(&self, key: &PublicKey) {
        self.write(key).remove(key);
    }

    fn shard(&self, key: &PublicKey) -> &RwLock<Shard> {
        let [first, rest @ ..] = &*self.shards;
        // The remainder is a small number, whatever the width of a pointer.
        let index = (self.hasher.hash_one(key) % SHARDS as u64) as usize;
        match index {
            0 => first,
            index => rest.get(index - 1).unwrap_or(first),
        }
    }

    fn read(&self, key: &PublicKey) -> RwLockReadGuard<'_, Shard> {
        let shard = self.shard(key).read();
        shard.unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, key: &PublicKey) -> RwLockWriteGuard<'_, Shard> {
        let shard = self.shard(key).write();
        shard.unwrap_or_else(PoisonError::into_inner)
    }
}
