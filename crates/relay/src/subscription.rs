//! One subscription: from REQ over the stored answer to the live part, each event once.

use std::sync::Arc;

use bytes::Bytes;
use hikyaku_event::{Event, SubscriptionId};
use hikyaku_store::Sequence;

use crate::{Message, SubscriptionKey, message};

/// An open REQ.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) key: SubscriptionKey,
    pub(crate) id: SubscriptionId,
    header: Bytes,
    /// Up to here the stored answer has everything; unknown until the query has started.
    snapshot: Option<Sequence>,
    /// What waits for EOSE; `None` once that is sent.
    waiting: Option<Vec<Waiting>>,
    /// The bytes of JSON of what waits.
    waiting_bytes: usize,
}

/// A new event that came before EOSE.
#[derive(Debug)]
struct Waiting {
    /// `None` for an ephemeral event, which no snapshot has.
    sequence: Option<Sequence>,
    event: Arc<Event>,
}

/// What becomes of a new event.
#[derive(Debug)]
pub(crate) enum Offer {
    /// The client gets it now.
    Send(Message),
    /// It waits for EOSE.
    Wait,
    /// The stored answer has it.
    Known,
    /// Too many wait already.
    Overflow,
}

impl Subscription {
    pub(crate) fn new(key: SubscriptionKey, id: SubscriptionId) -> Self {
        let header = message::event_header(&id);
        Self {
            key,
            id,
            header,
            snapshot: None,
            waiting: Some(Vec::new()),
            waiting_bytes: 0,
        }
    }

    /// Learns the query's snapshot, and lets go what waited and is in it.
    pub(crate) fn start(&mut self, snapshot: Sequence) {
        self.snapshot = Some(snapshot);
        if let Some(waiting) = &mut self.waiting {
            waiting.retain(|new| !is_in(snapshot, new.sequence));
            self.waiting_bytes = waiting.iter().map(|new| new.event.json().len()).sum();
        }
    }

    /// Returns the bytes of the new events that wait for EOSE; `None` once that is sent.
    pub(crate) fn waiting_bytes(&self) -> Option<usize> {
        self.waiting.is_some().then_some(self.waiting_bytes)
    }

    /// Takes a new event, in the order of publication. Until EOSE it waits, if fewer than
    /// `waiting_max` do and it has at most `bytes_left` bytes.
    pub(crate) fn offer(
        &mut self,
        sequence: Option<Sequence>,
        event: &Arc<Event>,
        waiting_max: usize,
        bytes_left: usize,
    ) -> Offer {
        if self
            .snapshot
            .is_some_and(|snapshot| is_in(snapshot, sequence))
        {
            return Offer::Known;
        }
        let Some(waiting) = &mut self.waiting else {
            return Offer::Send(self.event(event.json()));
        };
        if waiting.len() >= waiting_max || event.json().len() > bytes_left {
            return Offer::Overflow;
        }
        let event = Arc::clone(event);
        self.waiting_bytes += event.json().len();
        waiting.push(Waiting { sequence, event });
        Offer::Wait
    }

    /// Goes live: returns what has waited; `None` if it is live already.
    pub(crate) fn end_stored(&mut self) -> Option<impl Iterator<Item = Arc<Event>> + use<>> {
        Some(self.waiting.take()?.into_iter().map(|new| new.event))
    }

    /// Makes the message that brings an event.
    pub(crate) fn event(&self, json: &Bytes) -> Message {
        Message::Event {
            header: self.header.clone(),
            json: json.clone(),
        }
    }
}

fn is_in(snapshot: Sequence, sequence: Option<Sequence>) -> bool {
    sequence.is_some_and(|sequence| sequence <= snapshot)
}

#[cfg(test)]
mod tests {
    use hikyaku_event::testing::{Author, EventBuilder};

    use super::*;

    fn subscription() -> Subscription {
        let id = SubscriptionId::new("s").unwrap();
        Subscription::new(SubscriptionKey(0), id)
    }

    fn event(content: &str) -> Arc<Event> {
        let event = EventBuilder::new(1).content(content);
        Arc::new(event.sign(&Author::new(1)))
    }

    #[test]
    fn what_came_before_the_snapshot_was_known_waits_unless_the_snapshot_has_it() {
        let mut subscription = subscription();
        let (known, new, ephemeral) = (event("known"), event("new"), event("ephemeral"));
        subscription.offer(Some(Sequence(7)), &known, 10, 10_000);
        subscription.offer(Some(Sequence(8)), &new, 10, 10_000);
        subscription.offer(None, &ephemeral, 10, 10_000);
        subscription.start(Sequence(7));
        let waited: Vec<_> = subscription.end_stored().unwrap().collect();
        assert_eq!(waited.len(), 2);
        assert!(Arc::ptr_eq(&waited[0], &new));
        assert!(Arc::ptr_eq(&waited[1], &ephemeral));
    }

    #[test]
    fn what_the_snapshot_has_takes_no_room_among_what_waits() {
        let mut subscription = subscription();
        subscription.start(Sequence(7));
        for _ in 0..3 {
            let offer = subscription.offer(Some(Sequence(7)), &event("known"), 1, 10_000);
            assert!(matches!(offer, Offer::Known));
        }
        let offer = subscription.offer(Some(Sequence(8)), &event("new"), 1, 10_000);
        assert!(matches!(offer, Offer::Wait));
        let offer = subscription.offer(Some(Sequence(9)), &event("newer"), 1, 10_000);
        assert!(matches!(offer, Offer::Overflow));
    }

    #[test]
    fn the_stored_answer_ends_once() {
        let mut subscription = subscription();
        assert!(subscription.end_stored().is_some());
        assert!(subscription.end_stored().is_none());
        assert!(matches!(
            subscription.offer(None, &event("live"), 0, 0),
            Offer::Send(_)
        ));
    }
}
