//! What a relay says: the bytes of OK, EVENT, EOSE, CLOSED, COUNT, AUTH and NOTICE.

use bytes::Bytes;
use hikyaku_event::EventId;
use hikyaku_store::{Outcome, StoreError};

/// One text message to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The whole message.
    Text(Bytes),
    /// An event for a subscription: the message is `header`, `json`, and one `]`. Both are shared,
    /// so that no event is copied per receiver.
    Event {
        /// `["EVENT","<subscription id>",`; made once per subscription.
        header: Bytes,
        /// The event.
        json: Bytes,
    },
}

/// What became of a [`crate::Publication`].
#[derive(Debug, Clone, Copy)]
pub enum PublishOutcome<'a> {
    /// What the store decided; a duplicate found before the signature check is
    /// [`Outcome::Duplicate`].
    Written(Outcome),
    /// Its signature is wrong.
    WrongSignature,
    /// It is ephemeral, and this many subscriptions of all workers took it.
    Delivered {
        /// 0 is answered with `mute:` (NIP-01).
        listeners: u64,
    },
    /// The store could not write it.
    Failed(&'a StoreError),
}

/// Makes the OK that answers an EVENT.
pub fn ok(id: &EventId, outcome: PublishOutcome<'_>) -> Message {
    let _ = (id, outcome);
    unimplemented!()
}
