//! What all workers' policies share: who is a member, who is trusted, and since when a key is known.

use std::{future::poll_fn, pin::Pin, sync::Arc, time::Duration};

use futures_core::Stream as _;
use hikyaku_event::{Event, Filter, PublicKey};
use hikyaku_server::{BannedKeys, Client, PluginError, QueryVerdict, Verdict, Worker};
use hikyaku_store::{CommittedFeed, EventStore, StoreError};
use hikyaku_tables::Table;
use tokio::sync::{Mutex, OnceCell};

use crate::{
    PolicyConfig, RelayKey,
    age::{Age, Ages},
    membership::{Answer, Membership},
    reading::unix_now,
    trust::TrustWeb,
};

/// How long to wait after the store has failed.
const PAUSE: Duration = Duration::from_secs(1);
/// How often keys are forgotten that never came back.
const SWEEP: Duration = Duration::from_mins(10);

/// What the application gives, and where the workers find what the first of them has made of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    pub(crate) key: Option<RelayKey>,
    pub(crate) first_tries: Option<Arc<dyn Table>>,
    made: Arc<OnceCell<Arc<Community>>>,
}

impl Place {
    /// Returns what all workers share; made, and read from the store, for the first one.
    pub(crate) async fn community(
        &self,
        config: &PolicyConfig,
        worker: &Worker,
    ) -> Result<Arc<Community>, PluginError> {
        let make = async || -> Result<Arc<Community>, PluginError> {
            let (store, community) = (worker.store(), self.make(config, worker)?);
            let feed = store.committed();
            community.read_all(&**store).await?;
            *community.feed.lock().await = Some(feed);
            Ok(Arc::new(community))
        };
        Ok(Arc::clone(self.made.get_or_try_init(make).await?))
    }

    fn make(&self, config: &PolicyConfig, worker: &Worker) -> Result<Community, PluginError> {
        let mut community = Community {
            store: Some(Arc::clone(worker.store())),
            banned: Some(worker.banned_keys()),
            ..Community::default()
        };
        if !config.members.is_empty() {
            let inviting = if config.members_invite {
                let key = self.key.clone().ok_or("invitations need the relay's key")?;
                Some((key, config.invitation_time))
            } else {
                None
            };
            let members = Membership::new(&config.members, inviting, config.members_read);
            community.members = Some(members);
        }
        if !config.trust_roots.is_empty() {
            let PolicyConfig {
                trust_depth,
                trusted_max,
                ..
            } = *config;
            community.trust = Some(TrustWeb::new(&config.trust_roots, trust_depth, trusted_max));
        }
        if let Some(age) = config.account_age {
            let table = self.first_tries.clone();
            let table = table.ok_or("an age of accounts needs a table of first tries")?;
            community.ages = Some(Ages::new(table, age));
        }
        Ok(community)
    }
}

/// What is known about those who are here.
#[derive(Default)]
pub(crate) struct Community {
    store: Option<Arc<dyn EventStore>>,
    banned: Option<BannedKeys>,
    members: Option<Membership>,
    trust: Option<TrustWeb>,
    ages: Option<Ages>,
    /// What was committed since everything was read.
    feed: Mutex<Option<CommittedFeed>>,
}

impl std::fmt::Debug for Community {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Community")
            .field("members", &self.members)
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}

impl Community {
    /// Decides about an event; nothing if it has nothing against it.
    pub(crate) async fn decide(&self, event: &Event) -> Option<Verdict> {
        let store = self.store.as_deref()?;
        if let Some(members) = &self.members {
            let is_banned = |key: &PublicKey| self.is_banned(key);
            match members.decide(store, event, is_banned).await {
                Answer::Member => {}
                Answer::Done(text) => return Some(Verdict::Answer(text.into())),
                Answer::Refused(reason) => return Some(Verdict::Reject(reason)),
            }
        }
        if let Some(trust) = &self.trust
            && !trust.trusts(&event.pubkey())
        {
            let reason = "restricted: only those may write here whom this relay's people follow";
            return Some(Verdict::reject(reason));
        }
        match self.ages.as_ref()?.of(&event.pubkey(), unix_now()).await {
            Ok(Age::OldEnough) => None,
            Ok(Age::New(seconds)) => Some(Verdict::reject(format!(
                "restricted: this key is new here, it may write in {seconds} s"
            ))),
            Ok(Age::Unknown) => {
                let reason = "restricted: too many new keys are waiting here, try again later";
                Some(Verdict::reject(reason))
            }
            Err(error) => {
                tracing::error!(%error, "the age of a key can't be known");
                let reason = "error: this relay can not decide on events now, try again later";
                Some(Verdict::reject(reason))
            }
        }
    }

    /// Decides about a query.
    pub(crate) fn decide_query(&self, client: &Client, filters: &[Filter]) -> QueryVerdict {
        match &self.members {
            Some(members) => members.decide_query(client, filters),
            None => QueryVerdict::Accept,
        }
    }

    /// Keeps up with what is committed, and does what is due, until the store closes.
    pub(crate) async fn follow(&self) {
        let Some(store) = self.store.as_deref() else {
            return;
        };
        tokio::select! {
            () = self.hear_all(store) => {}
            () = self.keep_list(store) => {}
            () = self.hear_bans(store) => {}
            () = self.sweep() => {}
        }
    }

    /// Tells whether a key is kept out of the relay.
    fn is_banned(&self, key: &PublicKey) -> bool {
        (self.banned.as_ref()).is_some_and(|banned| banned.contains(key))
    }

    async fn read_all(&self, store: &dyn EventStore) -> Result<(), StoreError> {
        if let Some(members) = &self.members {
            members.read_all(store).await?;
        }
        if let Some(trust) = &self.trust {
            let banned = self.banned.as_ref().map(BannedKeys::all);
            trust.read_all(store, banned.unwrap_or_default()).await?;
        }
        Ok(())
    }

    /// Hears of each commit. If the store fails meanwhile, or this was interrupted, everything is read
    /// again.
    async fn hear_all(&self, store: &dyn EventStore) {
        loop {
            let feed = self.feed.lock().await.take();
            let feed = if let Some(feed) = feed {
                feed
            } else {
                let feed = store.committed();
                if let Err(error) = self.read_all(store).await {
                    tracing::warn!(%error, "members and the web of trust are not up to date");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                feed
            };
            match self.hear(store, feed).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%error, "members and the web of trust are not up to date");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn hear(
        &self,
        store: &dyn EventStore,
        mut feed: CommittedFeed,
    ) -> Result<(), StoreError> {
        while let Some(commit) = poll_fn(|cx| Pin::new(&mut feed).poll_next(cx)).await {
            for committed in &commit.events {
                if let Some(members) = &self.members {
                    members.hear(&committed.event);
                }
                if let Some(trust) = &self.trust {
                    trust.hear(store, &committed.event).await?;
                }
            }
        }
        Ok(())
    }

    async fn hear_bans(&self, store: &dyn EventStore) {
        let (Some(trust), Some(banned)) = (&self.trust, &self.banned) else {
            return std::future::pending().await;
        };
        while let Err(error) = trust.hear_bans(store, banned.clone()).await {
            tracing::warn!(%error, "the web of trust does not know who is banned");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn keep_list(&self, store: &dyn EventStore) {
        match &self.members {
            Some(members) => members.keep_list(store).await,
            None => std::future::pending().await,
        }
    }

    async fn sweep(&self) {
        let Some(ages) = &self.ages else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(SWEEP).await;
            if let Err(error) = ages.sweep(unix_now()).await {
                tracing::warn!(%error, "keys that never came back are not forgotten");
            }
        }
    }
}
