//! What a session is told about its relay: addresses and limits.

use hikyaku_store::LimitPolicy;

use crate::RelayUrls;

/// What all sessions of a relay share.
#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// The limits put on clients.
    pub limits: Limits,
    /// The addresses that mean this relay in AUTH and in requests to vanish.
    pub urls: RelayUrls,
}

/// The limits put on one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one message; a longer one ends the connection.
    pub message_bytes_max: usize,
    /// Subscriptions open at the same time, counts under way included.
    pub subscriptions_max: usize,
    /// Filters in one REQ or COUNT.
    pub filters_max: usize,
    /// Ids, authors, kinds and tag values in all filters of one REQ or COUNT together.
    pub filter_values_max: usize,
    /// Bytes of one event's JSON.
    pub event_bytes_max: usize,
    /// Tags of one event.
    pub tags_max: usize,
    /// Characters (Unicode) of one event's content.
    pub content_characters_max: usize,
    /// How many stored events one filter returns.
    pub query: LimitPolicy,
    /// How many seconds ahead of our clock an event's `created_at` may be.
    pub created_at_ahead_seconds_max: u64,
    /// How many seconds in the past an event's `created_at` may be; `None` for any.
    pub created_at_behind_seconds_max: Option<u64>,
    /// New events that may wait for one subscription's stored answer to end.
    pub pending_live_max: usize,
    /// Bytes of JSON of such events, of all subscriptions of a connection together.
    pub pending_live_bytes_max: usize,
    /// How far an AUTH's `created_at` may be from our clock, in seconds (NIP-42).
    pub auth_window_seconds: u64,
    /// Keys that may authenticate on one connection.
    pub auth_keys_max: usize,
}

impl Limits {
    /// Characters (Unicode) of a subscription id (NIP-01).
    pub const SUBSCRIPTION_ID_CHARACTERS_MAX: usize = 64;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Real follow lists have 450 kB and 6,000 tags.
            message_bytes_max: 1024 * 1024,
            event_bytes_max: 1024 * 1024,
            content_characters_max: 1024 * 1024,
            tags_max: 20_000,
            // Clients hold one subscription per open view and per batch of profiles.
            subscriptions_max: 300,
            filters_max: 100,
            // A message of 1 MiB has room for 15,000 hex values.
            filter_values_max: 20_000,
            query: LimitPolicy {
                default: 500,
                max: 5000,
            },
            created_at_ahead_seconds_max: 900,
            created_at_behind_seconds_max: None,
            pending_live_max: 1000,
            pending_live_bytes_max: 8 * 1024 * 1024,
            // About ten minutes, says NIP-42.
            auth_window_seconds: 600,
            auth_keys_max: 64,
        }
    }
}
