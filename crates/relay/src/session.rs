//! One client's session.

use std::sync::Arc;

use hikyaku_event::{Event, Timestamp, Verifier};
use hikyaku_store::{Completeness, Reader, Sequence, StoreError, StoredEvent};

use crate::{Action, Message, RelayConfig, SubscriptionKey};

/// One client's session: what it has authenticated, subscribed to, and still waits for.
#[derive(Debug)]
pub struct Session {
    config: Arc<RelayConfig>,
    challenge: String,
    reader: Reader,
}

impl Session {
    /// Creates the session of a new connection. `challenge` is what AUTH must sign: unguessable,
    /// of this connection alone.
    pub fn new(config: Arc<RelayConfig>, challenge: String) -> Self {
        Self {
            config,
            challenge,
            reader: Reader::anonymous(),
        }
    }
    /// Greets the client: sends the AUTH challenge (NIP-42).
    pub fn open(&mut self, out: &mut Vec<Action>) {
        let _ = (&self.config, &self.challenge, out);
        unimplemented!()
    }
    /// Takes one text message of the client.
    pub fn receive(
        &mut self,
        text: &[u8],
        now: Timestamp,
        verifier: &mut Verifier,
        out: &mut Vec<Action>,
    ) {
        let _ = (text, now, verifier, out);
        unimplemented!()
    }
    /// Returns who the client has shown to be.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }
    /// Reports that a subscription's query reads this snapshot.
    pub fn query_started(&mut self, key: SubscriptionKey, snapshot: Sequence) {
        let _ = (key, snapshot);
        unimplemented!()
    }
    /// Takes a stored answer of a subscription; returns what to send, or `None` when the
    /// subscription is gone.
    pub fn stored(&mut self, key: SubscriptionKey, event: &StoredEvent) -> Option<Message> {
        let _ = (key, event);
        unimplemented!()
    }
    /// Reports that the stored answer is complete: sends EOSE, then the new events that waited.
    pub fn query_ended(
        &mut self,
        key: SubscriptionKey,
        completeness: Completeness,
        now: Timestamp,
        out: &mut Vec<Action>,
    ) {
        let _ = (key, completeness, now, out);
        unimplemented!()
    }
    /// Reports that a query or count has failed: sends CLOSED, and cancels what there was.
    pub fn query_failed(
        &mut self,
        key: SubscriptionKey,
        error: &StoreError,
        out: &mut Vec<Action>,
    ) {
        let _ = (key, error, out);
        unimplemented!()
    }
    /// Reports a count.
    pub fn counted(&mut self, key: SubscriptionKey, count: u64, out: &mut Vec<Action>) {
        let _ = (key, count, out);
        unimplemented!()
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
        let _ = (key, sequence, event, now, out);
        unimplemented!()
    }
}
