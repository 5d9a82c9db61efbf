//! Events for tests, in a line each.

use std::sync::Arc;

use hikyaku_event::{
    Event, PublicKey, Timestamp,
    testing::{Author, EventBuilder},
};

/// An event to be signed by an author who is known by a number.
#[derive(Debug, Clone)]
pub struct Draft {
    author: Author,
    event: EventBuilder,
}

/// Begins an event.
pub fn draft(author: u32, kind: u16, created_at: Timestamp) -> Draft {
    Draft {
        author: Author::new(author.into()),
        event: EventBuilder::new(kind).created_at(created_at),
    }
}

/// Returns the key of the author with this number.
pub fn key(author: u32) -> PublicKey {
    Author::new(author.into()).pubkey()
}

impl Draft {
    /// Adds a tag.
    #[must_use]
    pub fn tag(mut self, strings: &[&str]) -> Self {
        self.event = self.event.tag(strings);
        self
    }

    /// Sets the content.
    #[must_use]
    pub fn content(mut self, content: &str) -> Self {
        self.event = self.event.content(content);
        self
    }

    /// Signs the event.
    pub fn build(self) -> Arc<Event> {
        Arc::new(self.event.sign(&self.author))
    }
}
