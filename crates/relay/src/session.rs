//! One client's session: what it has authenticated, subscribed to, and still waits for.
//!
//! Which events are let in is decided in `admission`, what an AUTH must be in `authentication`, who
//! may ask for what in `entitlement`, when a new event is sent in `subscription`; this file knows
//! the messages and keeps the state.

use std::sync::Arc;

use hikyaku_event::{
    ClientMessage, Event, EventError, Filter, FilterError, SubscriptionId, Timestamp, Verifier,
};
use hikyaku_store::{Completeness, Query, Reader, Sequence, StoreError, StoredEvent, rules};

use crate::{
    Action, Message, Publication, RelayConfig, SubscriptionKey,
    admission::{self, Reason},
    authentication, entitlement, message,
    subscription::{Offer, Subscription},
};

/// One client's session. Bytes and time go in, [`Action`]s come out.
///
/// INVARIANT: every EVENT and AUTH gets one OK, every COUNT one COUNT or CLOSED, every REQ one EOSE
/// or CLOSED unless the client replaces or closes it first; what has no id to name gets a NOTICE.
#[derive(Debug)]
pub struct Session {
    config: Arc<RelayConfig>,
    challenge: String,
    reader: Reader,
    /// By key, ascending: keys only grow. Few enough to be searched by id.
    subscriptions: Vec<Subscription>,
    /// The counts under way.
    counts: Vec<(SubscriptionKey, SubscriptionId)>,
    next_key: u64,
}

impl Session {
    /// Creates the session of a new connection. `challenge` is what AUTH must sign: unguessable,
    /// of this connection alone.
    pub fn new(config: Arc<RelayConfig>, challenge: String) -> Self {
        Self {
            config,
            challenge,
            reader: Reader::anonymous(),
            subscriptions: Vec::new(),
            counts: Vec::new(),
            next_key: 0,
        }
    }

    /// Greets the client: sends the AUTH challenge (NIP-42).
    pub fn open(&mut self, out: &mut Vec<Action>) {
        out.push(Action::Send(message::auth(&self.challenge)));
    }

    /// Takes one text message of the client.
    pub fn receive(
        &mut self,
        text: &[u8],
        now: Timestamp,
        verifier: &mut Verifier,
        out: &mut Vec<Action>,
    ) {
        let limits = &self.config.limits;
        if text.len() > limits.message_bytes_max {
            let reason = format!(
                "invalid: the message has {} bytes, at most {} are accepted",
                text.len(),
                limits.message_bytes_max
            );
            out.push(Action::Send(message::notice(&reason)));
            out.push(Action::Disconnect { reason });
            return;
        }
        match ClientMessage::parse(text, limits.filters_max) {
            Ok(ClientMessage::Event(Ok(event))) => self.publish(event, now, out),
            Ok(ClientMessage::Auth(Ok(event))) => self.authenticate(&event, now, verifier, out),
            Ok(ClientMessage::Event(Err((id, error))) | ClientMessage::Auth(Err((id, error)))) => {
                out.push(Action::Send(malformed(id.as_deref(), &error)));
            }
            Ok(ClientMessage::Req(id, filters)) => self.subscribe(id, filters, now, out),
            Ok(ClientMessage::Count(id, filters)) => self.count(id, filters, now, out),
            Ok(ClientMessage::Close(id)) => self.close(&id, out),
            Err(error) => {
                out.push(Action::Send(message::notice(&format!("invalid: {error}"))));
            }
        }
    }

    /// Returns who the client has shown to be.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Reports that a subscription's query reads this snapshot.
    pub fn query_started(&mut self, key: SubscriptionKey, snapshot: Sequence) {
        if let Some(subscription) = self.subscription(key) {
            subscription.start(snapshot);
        }
    }

    /// Takes a stored answer of a subscription; returns what to send, or `None` when the
    /// subscription is gone.
    pub fn stored(&mut self, key: SubscriptionKey, event: &StoredEvent) -> Option<Message> {
        Some(self.subscription(key)?.event(&event.json))
    }

    /// Reports that the stored answer is complete: sends EOSE, then the new events that waited.
    pub fn query_ended(
        &mut self,
        key: SubscriptionKey,
        completeness: Completeness,
        now: Timestamp,
        out: &mut Vec<Action>,
    ) {
        let Some(subscription) = self.subscription(key) else {
            return;
        };
        let Some(waiting) = subscription.end_stored() else {
            return;
        };
        out.push(Action::Send(message::eose(&subscription.id, completeness)));
        for event in waiting {
            if !rules::is_expired(&event, now) {
                out.push(Action::Send(subscription.event(event.json())));
            }
        }
    }

    /// Reports that a query or count has failed: sends CLOSED, and cancels what there was.
    pub fn query_failed(
        &mut self,
        key: SubscriptionKey,
        error: &StoreError,
        out: &mut Vec<Action>,
    ) {
        if let Some(id) = self.end_count(key) {
            out.push(Action::Send(message::closed_by(&id, error)));
        } else if let Some(id) = self.end_subscription(key, out) {
            out.push(Action::Send(message::closed_by(&id, error)));
        }
    }

    /// Reports that a query or count was not begun; the reason begins with a word that programs
    /// read (NIP-01).
    pub fn query_refused(&mut self, key: SubscriptionKey, reason: &str, out: &mut Vec<Action>) {
        if let Some(id) = self
            .end_count(key)
            .or_else(|| self.end_subscription(key, out))
        {
            out.push(Action::Send(message::closed(&id, reason)));
        }
    }

    /// Reports a count.
    pub fn counted(&mut self, key: SubscriptionKey, count: u64, out: &mut Vec<Action>) {
        if let Some(id) = self.end_count(key) {
            out.push(Action::Send(message::count(&id, count, true)));
        }
    }

    /// Reports a count of what the store can find now, which is not all there is.
    pub fn counted_at_least(&mut self, key: SubscriptionKey, count: u64, out: &mut Vec<Action>) {
        if let Some(id) = self.end_count(key) {
            out.push(Action::Send(message::count(&id, count, false)));
        }
    }

    /// Takes a new event that a filter of this subscription matches; `sequence` is `None` for an
    /// ephemeral one. Tells whether the client gets it, now or after EOSE: not what the snapshot
    /// had, what this reader may not read, or what has expired.
    pub fn live(
        &mut self,
        key: SubscriptionKey,
        sequence: Option<Sequence>,
        event: &Arc<Event>,
        now: Timestamp,
        out: &mut Vec<Action>,
    ) -> bool {
        if !self.reader.may_read(event) || rules::is_expired(event, now) {
            return false;
        }
        let waiting_max = self.config.limits.pending_live_max;
        let bytes_left = self.bytes_left_to_wait(key);
        let Some(subscription) = self.subscription(key) else {
            return false;
        };
        match subscription.offer(sequence, event, waiting_max, bytes_left) {
            Offer::Send(message) => {
                out.push(Action::Send(message));
                true
            }
            Offer::Wait => true,
            Offer::Known => false,
            Offer::Overflow => {
                if let Some(id) = self.end_subscription(key, out) {
                    let reason = "error: too many new events came before the stored ones were sent";
                    out.push(Action::Send(message::closed(&id, reason)));
                }
                false
            }
        }
    }

    /// Returns how many bytes of new events may still wait for stored answers to end. Counted only
    /// for a subscription that waits itself: that is rare, and what is live must cost nothing.
    fn bytes_left_to_wait(&mut self, key: SubscriptionKey) -> usize {
        let waits = |subscription: &mut Subscription| subscription.waiting_bytes().is_some();
        if !self.subscription(key).is_some_and(waits) {
            return 0;
        }
        let bytes: usize = self
            .subscriptions
            .iter()
            .filter_map(Subscription::waiting_bytes)
            .sum();
        let max = self.config.limits.pending_live_bytes_max;
        max.saturating_sub(bytes)
    }

    fn publish(&mut self, event: Event, now: Timestamp, out: &mut Vec<Action>) {
        out.push(
            match admission::check(&event, &self.reader, &self.config.limits, now) {
                Ok(()) => Action::Publish(Publication {
                    vanish: admission::is_to_vanish(&event, &self.config.urls),
                    event: Arc::new(event),
                }),
                Err(reason) => Action::Send(message::ok_text(&event.id().to_hex(), false, &reason)),
            },
        );
    }

    fn authenticate(
        &mut self,
        event: &Event,
        now: Timestamp,
        verifier: &mut Verifier,
        out: &mut Vec<Action>,
    ) {
        let verdict = authentication::check(event, &self.challenge, &self.config, now, verifier)
            .and_then(|()| self.admit_key(event));
        let id = event.id().to_hex();
        out.push(Action::Send(match &verdict {
            Ok(()) => message::ok_text(&id, true, ""),
            Err(reason) => message::ok_text(&id, false, reason),
        }));
        if verdict.is_ok() {
            out.push(Action::Authenticated(event.pubkey()));
        }
    }

    fn admit_key(&mut self, event: &Event) -> Result<(), Reason> {
        let keys = self.reader.keys();
        let max = self.config.limits.auth_keys_max;
        if keys.len() >= max && !keys.contains(&event.pubkey()) {
            return Err(
                format!("restricted: at most {max} keys may authenticate on a connection").into(),
            );
        }
        self.reader.add_key(event.pubkey());
        Ok(())
    }

    fn subscribe(
        &mut self,
        id: SubscriptionId,
        filters: Result<Vec<Filter>, FilterError>,
        now: Timestamp,
        out: &mut Vec<Action>,
    ) {
        // The old one of this id ends even if the new one is refused: after a CLOSED nothing may
        // come under the id.
        self.replace(&id, out);
        let filters = match self.check_filters(filters) {
            Ok(filters) => filters,
            Err(reason) => return out.push(Action::Send(message::closed(&id, &reason))),
        };
        let live: Arc<[Filter]> = filters
            .iter()
            .filter(|filter| !filter.matches_nothing())
            .cloned()
            .collect();
        if live.is_empty() {
            return out.push(Action::Send(message::eose(&id, Completeness::Finish)));
        }
        let key = self.new_key();
        let query = self.query(filters, now);
        self.subscriptions.push(Subscription::new(key, id));
        out.push(Action::Open {
            key,
            query,
            filters: live,
        });
    }

    fn count(
        &mut self,
        id: SubscriptionId,
        filters: Result<Vec<Filter>, FilterError>,
        now: Timestamp,
        out: &mut Vec<Action>,
    ) {
        let filters = match self.check_filters(filters) {
            Ok(filters) => filters,
            Err(reason) => return out.push(Action::Send(message::closed(&id, &reason))),
        };
        let key = self.new_key();
        let query = self.query(filters, now);
        self.counts.push((key, id));
        out.push(Action::Count { key, query });
    }

    fn check_filters(
        &self,
        filters: Result<Vec<Filter>, FilterError>,
    ) -> Result<Vec<Filter>, Reason> {
        let limits = &self.config.limits;
        let filters = filters.map_err(|error| format!("invalid: {error}"))?;
        let values: usize = filters.iter().map(value_count).sum();
        if values > limits.filter_values_max {
            let max = limits.filter_values_max;
            return Err(format!(
                "invalid: the filters have {values} values, at most {max} are accepted"
            )
            .into());
        }
        entitlement::check(&filters, &self.reader)?;
        if self.subscriptions.len() + self.counts.len() >= limits.subscriptions_max {
            let max = limits.subscriptions_max;
            return Err(format!(
                "error: too many subscriptions, at most {max} may be open at once"
            )
            .into());
        }
        Ok(filters)
    }

    fn query(&self, filters: Vec<Filter>, now: Timestamp) -> Query {
        Query {
            filters,
            reader: self.reader.clone(),
            limits: self.config.limits.query,
            now,
        }
    }

    fn new_key(&mut self) -> SubscriptionKey {
        let key = SubscriptionKey(self.next_key);
        self.next_key += 1;
        key
    }

    /// Ends what a CLOSE names: a subscription, and counts under way.
    fn close(&mut self, id: &SubscriptionId, out: &mut Vec<Action>) {
        self.replace(id, out);
        for (key, _) in self.counts.extract_if(.., |(_, counted)| counted == id) {
            out.push(Action::Cancel { key });
        }
    }

    /// Ends the subscription of this id, if there is one.
    fn replace(&mut self, id: &SubscriptionId, out: &mut Vec<Action>) {
        let old = self.subscriptions.iter().find(|old| old.id == *id);
        if let Some(key) = old.map(|old| old.key) {
            self.end_subscription(key, out);
        }
    }

    fn subscription(&mut self, key: SubscriptionKey) -> Option<&mut Subscription> {
        let index = self.position(key)?;
        self.subscriptions.get_mut(index)
    }

    fn position(&self, key: SubscriptionKey) -> Option<usize> {
        self.subscriptions
            .binary_search_by_key(&key, |subscription| subscription.key)
            .ok()
    }

    fn end_subscription(
        &mut self,
        key: SubscriptionKey,
        out: &mut Vec<Action>,
    ) -> Option<SubscriptionId> {
        let index = self.position(key)?;
        out.push(Action::Cancel { key });
        Some(self.subscriptions.remove(index).id)
    }

    fn end_count(&mut self, key: SubscriptionKey) -> Option<SubscriptionId> {
        let index = self.counts.iter().position(|(count, _)| *count == key)?;
        Some(self.counts.remove(index).1)
    }
}

/// Answers an EVENT or AUTH whose event is none: by OK where there is an id to name.
fn malformed(id: Option<&str>, error: &EventError) -> Message {
    let reason = format!("invalid: {error}");
    match id {
        Some(id) => message::ok_text(id, false, &reason),
        None => message::notice(&reason),
    }
}

fn value_count(filter: &Filter) -> usize {
    // A condition without values costs something, too.
    let tags: usize = filter.tags.iter().map(|tag| tag.values.len().max(1)).sum();
    filter.ids.as_ref().map_or(0, Vec::len)
        + filter.authors.as_ref().map_or(0, Vec::len)
        + filter.kinds.as_ref().map_or(0, Vec::len)
        + tags
}
