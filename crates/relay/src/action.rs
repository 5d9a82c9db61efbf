//! What a session asks of whoever owns its socket.

use std::sync::Arc;

use hikyaku_event::{Event, Filter, PublicKey};
use hikyaku_store::Query;

use crate::Message;

/// Names one REQ or COUNT of a connection; never used again in it, so that what arrives late for
/// an old one can't be taken for the new one of the same subscription id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionKey(pub u64);

/// What a session wants done, in order.
#[derive(Debug)]
pub enum Action {
    /// Send this to the client.
    Send(Message),
    /// Publish this event and answer with [`crate::ok`].
    Publish(Publication),
    /// Insert the filters into the live index *first*, then start the query and report
    /// [`crate::Session::query_started`]: in this order no event can fall between the two.
    Open {
        /// The name for everything reported back.
        key: SubscriptionKey,
        /// The stored part.
        query: Query,
        /// The live part: the filters that can match at all.
        filters: Arc<[Filter]>,
    },
    /// Count, and report [`crate::Session::counted`].
    Count {
        /// The name for what is reported back.
        key: SubscriptionKey,
        /// What to count.
        query: Query,
    },
    /// Drop the cursor and, of a subscription, the filters in the live index.
    Cancel {
        /// Which.
        key: SubscriptionKey,
    },
    /// The client has shown that it has this key.
    Authenticated(PublicKey),
    /// Close the connection after what has been sent so far.
    Disconnect {
        /// What to tell the client.
        reason: String,
    },
}

/// An event that passed every check a session can make: well-formed, within the limits, its id
/// the right one. Neither its signature is checked, nor whether it is known already.
#[derive(Debug, Clone)]
pub struct Publication {
    /// The event; ephemeral ones (by [`hikyaku_event::Kind::class`]) are not to be stored.
    pub event: Arc<Event>,
    /// For kind 62: whether it names this relay, so that it is to be carried out (NIP-62).
    pub vanish: bool,
}
