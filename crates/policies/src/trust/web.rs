//! The web of trust as the store has it, kept up with what is published.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use hikyaku_event::{Event, Filter, Kind, PublicKey};
use hikyaku_store::{EventStore, StoreError};

use super::graph::{DEPTH_MAX, TrustGraph};
use crate::reading::read;

/// Follow lists (NIP-02).
const FOLLOW_LIST: Kind = Kind(3);
/// Keys whose lists are asked for in one query.
const AUTHORS_MAX: usize = 256;

/// Who is trusted. Shared by all workers: each event is one look at it.
#[derive(Debug)]
pub(crate) struct TrustWeb {
    graph: RwLock<TrustGraph>,
}

impl TrustWeb {
    /// Makes a web that trusts its roots alone until it is [read](Self::read_all).
    pub(crate) fn new(roots: &[PublicKey], depth: u32) -> Self {
        let depth = usize::try_from(depth).unwrap_or(DEPTH_MAX);
        Self {
            graph: RwLock::new(TrustGraph::new(roots, depth)),
        }
    }

    /// Tells whether a key is within the steps.
    pub(crate) fn trusts(&self, key: &PublicKey) -> bool {
        self.graph().contains(key)
    }

    /// Reads all follow lists that matter, known ones too.
    pub(crate) async fn read_all(&self, store: &dyn EventStore) -> Result<(), StoreError> {
        let asked = self.graph().asked();
        self.read(store, asked).await?;
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
        let matters = [FOLLOW_LIST, Kind::DELETION, Kind::VANISH].contains(&event.kind());
        if matters && self.graph().asks_of(&event.pubkey()) {
            self.read(store, vec![event.pubkey()]).await?;
        }
        Ok(())
    }

    /// Reads these keys' lists, and those of whom they bring in.
    async fn read(
        &self,
        store: &dyn EventStore,
        mut keys: Vec<PublicKey>,
    ) -> Result<(), StoreError> {
        while !keys.is_empty() {
            let rest = keys.split_off(keys.len().min(AUTHORS_MAX));
            let mut authors = std::mem::replace(&mut keys, rest);
            authors.sort_unstable();
            authors.dedup();
            let filter = Filter {
                authors: Some(authors.clone()),
                kinds: Some(vec![FOLLOW_LIST]),
                ..Filter::default()
            };
            let lists = read(store, filter).await?;
            for author in authors {
                let list = lists.iter().find(|list| list.pubkey() == author);
                let follows = list.map(follows).unwrap_or_default();
                let mut graph = self.graph.write().unwrap_or_else(PoisonError::into_inner);
                keys.extend(graph.set_follows(author, follows));
            }
        }
        Ok(())
    }

    fn graph(&self) -> RwLockReadGuard<'_, TrustGraph> {
        self.graph.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whom a follow list names.
fn follows(list: &Event) -> Vec<PublicKey> {
    list.tags()
        .filter(|tag| tag.letter() == Some(b'p'))
        .filter_map(|tag| PublicKey::from_hex(tag.value()?.as_bytes()).ok())
        .collect()
}
