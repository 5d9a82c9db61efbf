//! The web of trust as the store has it, kept up with what is published and with who is banned.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use hikyaku_event::{Event, Filter, Kind, PublicKey};
use hikyaku_server::{BannedKeys, blocking};
use hikyaku_store::{EventStore, StoreError};

use super::{
    graph::{DEPTH_MAX, TrustGraph},
    keys::Keys,
};
use crate::reading::read;

/// Follow lists (NIP-02).
const FOLLOW_LIST: Kind = Kind(3);
/// Keys that one list brings in at most: somebody who is trusted may make up as many as a list holds,
/// and nobody follows so many.
const LISTED_MAX: usize = 5_000;
/// Keys whose lists are asked for in one query, and are in memory at the same time.
const AUTHORS_MAX: usize = 32;
/// How often it is looked whose ban has ended.
const BANS_LOOK: Duration = Duration::from_mins(1);

/// Who is trusted. Shared by all workers: each event is one look at the keys, which waits for no
/// change of the graph. What a change means is worked out off the workers.
#[derive(Debug)]
pub(crate) struct TrustWeb {
    keys: Arc<Keys>,
    graph: Arc<Mutex<TrustGraph>>,
    /// Whose lists count as empty. Who has it changes the graph, nobody else.
    banned: tokio::sync::Mutex<HashSet<PublicKey>>,
    /// It was said that there is no room.
    said_short: AtomicBool,
}

impl TrustWeb {
    /// Makes a web that trusts its roots alone until it is [read](Self::read_all), and never more
    /// than so many keys.
    pub(crate) fn new(roots: &[PublicKey], depth: u32, keys_max: usize) -> Self {
        let depth = usize::try_from(depth).unwrap_or(DEPTH_MAX);
        let graph = TrustGraph::new(roots, depth, keys_max);
        Self {
            keys: Arc::clone(graph.keys()),
            graph: Arc::new(Mutex::new(graph)),
            banned: tokio::sync::Mutex::default(),
            said_short: AtomicBool::new(false),
        }
    }

    /// Tells whether a key is within the steps.
    pub(crate) fn trusts(&self, key: &PublicKey) -> bool {
        self.keys.contains(key)
    }

    /// Reads all follow lists that matter, known ones too; lists of these banned keys count as empty.
    pub(crate) async fn read_all(
        &self,
        store: &dyn EventStore,
        banned: Vec<PublicKey>,
    ) -> Result<(), StoreError> {
        let mut known = self.banned.lock().await;
        *known = banned.into_iter().collect();
        let asked = self.graph().asked();
        self.read(store, asked, &known).await?;
        let keys = self.graph().len();
        tracing::info!(keys, "the web of trust is read");
        Ok(())
    }

    /// Reads again what an event that was stored may have changed.
    pub(crate) async fn hear(
        &self,
        store: &dyn EventStore,
        event: &Event,
    ) -> Result<(), StoreError> {
        if ![FOLLOW_LIST, Kind::DELETION, Kind::VANISH].contains(&event.kind()) {
            return Ok(());
        }
        let banned = self.banned.lock().await;
        if self.graph().asks_of(&event.pubkey()) {
            self.read(store, vec![event.pubkey()], &banned).await?;
        }
        Ok(())
    }

    /// Reads the lists of keys again that are banned now and were not, or were and are not; never
    /// returns but for a failure of the store.
    pub(crate) async fn hear_bans(
        &self,
        store: &dyn EventStore,
        mut banned: BannedKeys,
    ) -> Result<(), StoreError> {
        loop {
            {
                let mut known = self.banned.lock().await;
                let now: HashSet<_> = banned.all().into_iter().collect();
                let mut changed: Vec<_> = now.symmetric_difference(&known).copied().collect();
                changed.retain(|key| self.graph().asks_of(key));
                self.read(store, changed, &now).await?;
                *known = now;
            }
            // A ban that ends is not said to anybody.
            let _ = tokio::time::timeout(BANS_LOOK, banned.changed()).await;
        }
    }

    /// Reads these keys' lists, and those of whom they bring in.
    async fn read(
        &self,
        store: &dyn EventStore,
        mut keys: Vec<PublicKey>,
        banned: &HashSet<PublicKey>,
    ) -> Result<(), StoreError> {
        while !keys.is_empty() {
            let rest = keys.split_off(keys.len().min(AUTHORS_MAX));
            let mut authors = std::mem::replace(&mut keys, rest);
            authors.sort_unstable();
            authors.dedup();
            let mut counted = authors.clone();
            counted.retain(|author| !banned.contains(author));
            let lists = if counted.is_empty() {
                Vec::new()
            } else {
                let filter = Filter {
                    authors: Some(counted),
                    kinds: Some(vec![FOLLOW_LIST]),
                    ..Filter::default()
                };
                read(store, filter).await?
            };
            let graph = Arc::clone(&self.graph);
            let work = move || set_follows(&mut locked(&graph), &authors, &lists);
            let (asked, is_short) = blocking(work).await;
            keys.extend(asked);
            if is_short && !self.said_short.swap(true, Relaxed) {
                tracing::warn!(
                    "the web of trust is full: some who are followed may not write \
                    (`policy.trusted_max`)"
                );
            }
        }
        Ok(())
    }

    fn graph(&self) -> MutexGuard<'_, TrustGraph> {
        locked(&self.graph)
    }
}

fn locked(graph: &Mutex<TrustGraph>) -> MutexGuard<'_, TrustGraph> {
    graph.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes down whom these follow by their lists. Returns whose lists matter now and are not known, and
/// whether there was no room for some.
fn set_follows(
    graph: &mut TrustGraph,
    authors: &[PublicKey],
    lists: &[Event],
) -> (Vec<PublicKey>, bool) {
    let mut asked = Vec::new();
    for author in authors {
        let list = lists.iter().find(|list| list.pubkey() == *author);
        asked.extend(graph.set_follows(author, list.map(follows).unwrap_or_default()));
    }
    (asked, graph.is_short())
}

/// Returns whom a follow list names, the first of them.
fn follows(list: &Event) -> Vec<PublicKey> {
    list.tags()
        .filter(|tag| tag.letter() == Some(b'p'))
        .filter_map(|tag| PublicKey::from_hex(tag.value()?.as_bytes()).ok())
        .take(LISTED_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_waits_for_no_change() {
        let (root, other) = (PublicKey::new([1; 32]), PublicKey::new([2; 32]));
        let web = TrustWeb::new(&[root], 2, 10);
        // A change is under way for as long as this is there.
        let _change = web.graph();
        assert!(web.trusts(&root) && !web.trusts(&other));
    }
}
