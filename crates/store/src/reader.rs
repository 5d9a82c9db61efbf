//! Reading rights: who is asking.

use hikyaku_event::{Event, PublicKey};

/// The keys on whose behalf something is read. An argument of every query, count, keys-only cursor
/// and live match, so that no door is without it (NIP-42, NIP-17, NIP-59).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reader {
    keys: Vec<PublicKey>,
    operator: bool,
}

impl Reader {
    /// Somebody who has authenticated nothing: reads no private kinds.
    pub fn anonymous() -> Self {
        Self::default()
    }
    /// The operator of the store: reads everything.
    pub fn operator() -> Self {
        Self {
            keys: Vec::new(),
            operator: true,
        }
    }
    /// A client that has authenticated these keys.
    pub fn authenticated(keys: impl IntoIterator<Item = PublicKey>) -> Self {
        Self {
            keys: keys.into_iter().collect(),
            operator: false,
        }
    }
    /// Adds a key that the client has authenticated.
    pub fn add_key(&mut self, key: PublicKey) {
        if !self.keys.contains(&key) {
            self.keys.push(key);
        }
    }
    /// Returns the authenticated keys.
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }
    /// Tells whether this is the operator, who reads everything.
    pub fn is_operator(&self) -> bool {
        self.operator
    }
    /// Tells whether the event may be shown: everything but private kinds, which only their parties
    /// see.
    pub fn may_read(&self, event: &Event) -> bool {
        self.operator
            || !event.kind().is_private()
            || self.keys.iter().any(|key| event.is_party(key))
    }
}
