//! The live-subscription index: from a new event to the subscriptions it belongs to.

use std::sync::Arc;

use hikyaku_event::{Event, Filter};

use crate::SubscriptionKey;

/// Names one subscription of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerKey {
    /// The connection, by the worker's own numbering.
    pub connection: u64,
    /// The subscription in it.
    pub subscription: SubscriptionKey,
}

/// All live subscriptions of one worker.
#[derive(Debug)]
pub struct LiveIndex {}

impl LiveIndex {
    /// Creates an empty index. `seed` must not be known to clients: it keeps them from choosing
    /// values that collide.
    pub fn new(seed: u64) -> Self {
        let _ = seed;
        Self {}
    }
    /// Adds a subscription; one of the same key is replaced.
    pub fn insert(&mut self, key: ListenerKey, filters: Arc<[Filter]>) {
        let _ = (key, filters);
        unimplemented!()
    }
    /// Removes a subscription, if it is there.
    pub fn remove(&mut self, key: ListenerKey) {
        let _ = key;
        unimplemented!()
    }
    /// Calls `found` once for each subscription with a filter that matches the event. Reading
    /// rights and expiry are checked by [`crate::Session::live`].
    pub fn for_each_match(&mut self, event: &Event, found: impl FnMut(ListenerKey)) {
        let _ = (event, found);
        unimplemented!()
    }
    /// Returns the number of subscriptions.
    pub fn len(&self) -> usize {
        0
    }
    /// Tells whether there is no subscription.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
