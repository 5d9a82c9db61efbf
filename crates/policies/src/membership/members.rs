//! Joining, leaving and inviting, as NIP-43 has it, and the list of members that the relay publishes.

use std::{
    borrow::Cow,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};

use hikyaku_event::{Event, Filter, Kind, PublicKey, Timestamp};
use hikyaku_server::{Client, QueryVerdict};
use hikyaku_store::{EventStore, StoreError, Write};
use tokio::sync::Notify;

use super::{invitation::Invitation, roll::Roll};
use crate::{
    RelayKey,
    reading::{read, unix_now},
};

/// The list of members, by the relay.
const LIST: Kind = Kind(13_534);
/// A member was added or removed, by the relay.
const ADDED: Kind = Kind(8_000);
const REMOVED: Kind = Kind(8_001);
/// Somebody asks to be let in, for an invitation, to be let out.
pub(crate) const JOIN: Kind = Kind(28_934);
const INVITE: Kind = Kind(28_935);
pub(crate) const LEAVE: Kind = Kind(28_936);

/// How far a request's time may be from ours.
const REQUEST_AGE_MAX: u64 = 10 * 60;
/// Members that a list names at most: more would not fit where events are kept. The list need not be
/// whole (NIP-43).
const LISTED_MAX: usize = 5_000;
/// The list is published this often at most, however many join.
const LIST_PAUSE: Duration = Duration::from_secs(1);

/// Who is a member. Shared by all workers.
#[derive(Debug)]
pub(crate) struct Membership {
    roll: RwLock<Roll>,
    /// What invitations need; without it members are those of the configuration.
    inviting: Option<Inviting>,
    /// Only members may read.
    reading: bool,
    changed: Notify,
}

#[derive(Debug)]
struct Inviting {
    key: RelayKey,
    /// How long an invitation is good.
    time: Duration,
}

/// What an event comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Its author may write.
    Member,
    /// It was a request, and is carried out; its author hears this.
    Done(&'static str),
    /// It is refused.
    Refused(Cow<'static, str>),
}

impl Membership {
    /// `inviting`: the relay's key, and how long an invitation is good.
    pub(crate) fn new(
        founders: &[PublicKey],
        inviting: Option<(RelayKey, Duration)>,
        reading: bool,
    ) -> Self {
        Self {
            roll: RwLock::new(Roll::new(founders.iter().copied())),
            inviting: inviting.map(|(key, time)| Inviting { key, time }),
            reading,
            changed: Notify::new(),
        }
    }

    /// Reads what the relay has said about members.
    pub(crate) async fn read_all(&self, store: &dyn EventStore) -> Result<(), StoreError> {
        let Some(inviting) = &self.inviting else {
            return Ok(());
        };
        let said = Filter {
            authors: Some(vec![inviting.key.public()]),
            kinds: Some(vec![ADDED, REMOVED]),
            ..Filter::default()
        };
        for event in read(store, said).await? {
            self.note(&event);
        }
        self.changed.notify_one();
        Ok(())
    }

    /// Hears of an event that was stored, here or at another node.
    pub(crate) fn hear(&self, event: &Event) {
        let by_the_relay =
            (self.inviting.as_ref()).is_some_and(|own| own.key.public() == event.pubkey());
        if by_the_relay && [ADDED, REMOVED].contains(&event.kind()) {
            self.note(event);
            self.changed.notify_one();
        }
    }

    fn note(&self, event: &Event) {
        let keys = event.tags().filter(|tag| tag.letter() == Some(b'p'));
        let keys = keys.filter_map(|tag| PublicKey::from_hex(tag.value()?.as_bytes()).ok());
        let mut roll = self.roll.write().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            roll.note(key, event.created_at(), event.kind() == ADDED);
        }
    }

    fn roll(&self) -> RwLockReadGuard<'_, Roll> {
        self.roll.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides about an event, and carries it out if it asks to be let in or out. Who `is_banned` lets
    /// nobody in.
    pub(crate) async fn decide(
        &self,
        store: &dyn EventStore,
        event: &Event,
        is_banned: impl Fn(&PublicKey) -> bool,
    ) -> Answer {
        let refused = |reason: &'static str| Answer::Refused(reason.into());
        let author = event.pubkey();
        if let Some(inviting) = &self.inviting
            && [JOIN, INVITE, LEAVE].contains(&event.kind())
        {
            if event.kind() == INVITE {
                return refused("blocked: only the relay makes invitations");
            }
            // A protected event is taken from its author alone (NIP-70).
            if !event.tags().any(|tag| tag.name() == "-") {
                return refused("invalid: a request to join or leave has a tag `-`");
            }
            if event.created_at().abs_diff(unix_now()) > REQUEST_AGE_MAX {
                return refused("invalid: a request to join or leave is of this moment");
            }
            return if event.kind() == JOIN {
                self.join(store, event, inviting, is_banned).await
            } else {
                self.leave(store, author, inviting).await
            };
        }
        if self.roll().is_member(&author) {
            Answer::Member
        } else {
            refused("restricted: only members may write here")
        }
    }

    async fn join(
        &self,
        store: &dyn EventStore,
        event: &Event,
        inviting: &Inviting,
        is_banned: impl Fn(&PublicKey) -> bool,
    ) -> Answer {
        let refused = |reason: &'static str| Answer::Refused(reason.into());
        if self.roll().is_member(&event.pubkey()) {
            return Answer::Done("duplicate: you are already a member of this relay");
        }
        let claim = event.tags().find(|tag| tag.name() == "claim");
        let claim = claim.and_then(|tag| tag.value()).unwrap_or_default();
        let Some(invitation) = Invitation::read(&claim, &inviting.key) else {
            return refused("restricted: that is an invalid invite code");
        };
        if invitation.until < unix_now() {
            return refused("restricted: that invite code is expired");
        }
        if !self.roll().is_member(&invitation.inviter) || is_banned(&invitation.inviter) {
            return refused("restricted: who made that invite code is not a member any more");
        }
        let said = self.say(store, ADDED, event.pubkey(), inviting).await;
        said.map_or_else(Answer::Refused, |()| {
            Answer::Done("info: welcome, you may write here now")
        })
    }

    async fn leave(&self, store: &dyn EventStore, key: PublicKey, inviting: &Inviting) -> Answer {
        if self.roll().is_founder(&key) {
            let reason = "restricted: this key is a member by the relay's configuration";
            return Answer::Refused(reason.into());
        }
        if !self.roll().is_member(&key) {
            return Answer::Done("duplicate: you are not a member of this relay");
        }
        let said = self.say(store, REMOVED, key, inviting).await;
        said.map_or_else(Answer::Refused, |()| {
            Answer::Done("info: you are not a member any more")
        })
    }

    /// Says by an event of the relay's that a key was added or removed; it counts once it is stored.
    async fn say(
        &self,
        store: &dyn EventStore,
        kind: Kind,
        key: PublicKey,
        inviting: &Inviting,
    ) -> Result<(), Cow<'static, str>> {
        let at = self.roll().next_time(&key, unix_now());
        let tags = [tag(&["-"]), tag(&["p", &key.to_hex()])];
        let event = inviting.key.sign(kind.0, at, &tags);
        let event = event.ok_or("error: this relay's key can not sign")?;
        write(store, event.clone()).await.map_err(|error| {
            tracing::error!(%error, "a change of the members was not stored");
            "error: this relay can not write now, try again later"
        })?;
        self.note(&event);
        self.changed.notify_one();
        Ok(())
    }

    /// Decides about a query: makes invitations for members, and lets members alone read if that is
    /// wished.
    pub(crate) fn decide_query(&self, client: &Client, filters: &[Filter]) -> QueryVerdict {
        let member = {
            let roll = self.roll();
            client
                .keys()
                .iter()
                .find(|key| roll.is_member(key))
                .copied()
        };
        if let Some(inviting) = &self.inviting
            && asks_for_invitations(filters)
        {
            return match (member, client.keys()) {
                (Some(member), _) => Self::invite(member, inviting, filters),
                (None, []) => QueryVerdict::RequireAuth,
                (None, _) => QueryVerdict::refuse("restricted: only members invite others"),
            };
        }
        // Who is not yet a member finds out by the list whether it is.
        let of_the_list = |filter: &Filter| filter.kinds.as_deref() == Some(&[LIST]);
        match (member, client.keys()) {
            _ if !self.reading || filters.iter().all(of_the_list) => QueryVerdict::Accept,
            (Some(_), _) => QueryVerdict::Accept,
            (None, []) => QueryVerdict::RequireAuth,
            (None, _) => QueryVerdict::refuse("restricted: only members may read here"),
        }
    }

    fn invite(inviter: PublicKey, inviting: &Inviting, filters: &[Filter]) -> QueryVerdict {
        let now = unix_now();
        let until = now.saturating_add(inviting.time.as_secs());
        let invitation = Invitation { inviter, until };
        let event = invitation.claim(&inviting.key).and_then(|claim| {
            let tags = [tag(&["-"]), tag(&["claim", &claim])];
            inviting.key.sign(INVITE.0, now, &tags)
        });
        let mut events: Vec<_> = event.into_iter().collect();
        events.retain(|event| filters.iter().any(|filter| filter.matches(event)));
        QueryVerdict::Answer(events)
    }

    /// Publishes the list of members when it has changed; never returns.
    pub(crate) async fn keep_list(&self, store: &dyn EventStore) {
        let Some(inviting) = &self.inviting else {
            return std::future::pending().await;
        };
        loop {
            self.changed.notified().await;
            if let Err(error) = self.publish_list(store, inviting).await {
                tracing::warn!(%error, "the list of members was not published");
                self.changed.notify_one();
            }
            tokio::time::sleep(LIST_PAUSE).await;
        }
    }

    async fn publish_list(
        &self,
        store: &dyn EventStore,
        inviting: &Inviting,
    ) -> Result<(), StoreError> {
        let mut tags = vec![tag(&["-"])];
        let listed: Vec<_> = self.roll().members().take(LISTED_MAX).collect();
        tags.extend(listed.iter().map(|key| tag(&["member", &key.to_hex()])));
        let filter = Filter {
            authors: Some(vec![inviting.key.public()]),
            kinds: Some(vec![LIST]),
            ..Filter::default()
        };
        let last = read(store, filter).await?.into_iter().next();
        if last.as_ref().is_some_and(|last| tags_of(last) == tags) {
            return Ok(());
        }
        let after: Timestamp = last.map_or(0, |last| last.created_at().saturating_add(1));
        if let Some(event) = inviting.key.sign(LIST.0, unix_now().max(after), &tags) {
            write(store, event).await?;
        }
        Ok(())
    }
}

/// Tells whether invitations are all that is asked for.
fn asks_for_invitations(filters: &[Filter]) -> bool {
    let only = |filter: &Filter| filter.kinds.as_deref() == Some(&[INVITE]);
    !filters.is_empty() && filters.iter().all(only)
}

fn tag(strings: &[&str]) -> Vec<String> {
    strings.iter().map(|text| (*text).to_owned()).collect()
}

fn tags_of(event: &Event) -> Vec<Vec<String>> {
    let strings = |tag: hikyaku_event::Tag<'_>| tag.strings().map(Cow::into_owned).collect();
    event.tags().map(strings).collect()
}

async fn write(store: &dyn EventStore, event: Event) -> Result<(), StoreError> {
    let write = Write::Event {
        event: Arc::new(event),
        vanish: false,
    };
    store.write(vec![write], unix_now()).await.map(|_| ())
}
