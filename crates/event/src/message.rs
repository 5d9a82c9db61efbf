//! What clients say: EVENT, REQ, CLOSE, COUNT, AUTH (NIP-01, NIP-42, NIP-45).

use crate::{Event, EventError, Filter, FilterError};

/// A subscription id: 1 to 64 Unicode characters, chosen by the client, unique per connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SubscriptionId(Box<str>);

impl SubscriptionId {
    /// Checks the length (1 to 64 characters).
    pub fn new(text: &str) -> Option<Self> {
        (1..=64)
            .contains(&text.chars().count())
            .then(|| Self(text.into()))
    }
    /// Returns the id's text, unescaped.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One message of a client.
#[derive(Debug)]
pub enum ClientMessage {
    /// Publish an event. A malformed one keeps its `id` field's text where there was one, so that
    /// the OK can name it.
    Event(Result<Event, (Option<String>, EventError)>),
    /// Query and subscribe. A malformed filter is reported as CLOSED for this subscription.
    Req(SubscriptionId, Result<Vec<Filter>, FilterError>),
    /// Count (NIP-45).
    Count(SubscriptionId, Result<Vec<Filter>, FilterError>),
    /// End a subscription.
    Close(SubscriptionId),
    /// Authenticate (NIP-42); as [`ClientMessage::Event`].
    Auth(Result<Event, (Option<String>, EventError)>),
}

/// Why a message can't be answered but by a NOTICE.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MessageError(pub String);

impl ClientMessage {
    /// Parses one text message. At most `filters_max` filters are accepted in a REQ or COUNT: more
    /// are a [`FilterError`].
    pub fn parse(text: &[u8], filters_max: usize) -> Result<Self, MessageError> {
        let _ = (text, filters_max);
        let _ = (
            |e: Event| e,
            |e: EventError| e,
            |f: Filter| f,
            |f: FilterError| f,
        );
        unimplemented!()
    }
}
