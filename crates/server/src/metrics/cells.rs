//! One worker's cells, and what each of them means.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::histogram::Histogram;

/// Describes one family of cells to a scrape: its name, its label with the value if it has one, and
/// what it counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Description {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) help: &'static str,
}

macro_rules! cells {
    ($(#[$doc:meta])* $enum:ident, $length:ident { $($cell:ident: $name:literal $label:literal $help:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        #[allow(clippy::enum_variant_names, reason = "cells are named as they are scraped")]
        pub(crate) enum $enum { $($cell,)* }

        impl $enum {
            /// In the order of the cells; those of one family stand together.
            pub(super) const DESCRIPTIONS: &[Description] =
                &[$(Description { name: $name, label: $label, help: $help },)*];
        }

        const $length: usize = $enum::DESCRIPTIONS.len();
    };
}

cells!(
    /// What only grows.
    Count, COUNTS {
        ConnectionsOpened: "connections_opened_total" "" "WebSocket connections opened",
        ConnectionsClosed: "connections_closed_total" "" "WebSocket connections that have ended",
        ConnectionsRefused: "connections_refused_total" "" "Connections refused because there were too many",
        SlowReaders: "slow_readers_closed_total" "" "Connections closed because they did not read their live events",
        Unresponsive: "unresponsive_closed_total" "" "Connections closed because they did not answer a ping",
        MessagesEvent: "messages_received_total" "type=\"EVENT\"" "Messages received, by type",
        MessagesReq: "messages_received_total" "type=\"REQ\"" "",
        MessagesCount: "messages_received_total" "type=\"COUNT\"" "",
        MessagesClose: "messages_received_total" "type=\"CLOSE\"" "",
        MessagesAuth: "messages_received_total" "type=\"AUTH\"" "",
        MessagesOther: "messages_received_total" "type=\"other\"" "",
        EventsStored: "events_total" "outcome=\"stored\"" "Well-formed events received, by what became of them",
        EventsDuplicate: "events_total" "outcome=\"duplicate\"" "",
        EventsSuperseded: "events_total" "outcome=\"superseded\"" "",
        EventsRefused: "events_total" "outcome=\"refused\"" "",
        EventsWrongSignature: "events_total" "outcome=\"wrong_signature\"" "",
        EventsDelivered: "events_total" "outcome=\"delivered\"" "",
        EventsMuted: "events_total" "outcome=\"muted\"" "",
        EventsTooFast: "events_total" "outcome=\"rate_limited\"" "",
        EventsRejected: "events_total" "outcome=\"rejected\"" "",
        EventsShadowed: "events_total" "outcome=\"shadowed\"" "",
        EventsFailed: "events_total" "outcome=\"failed\"" "",
        QueriesEnded: "queries_total" "outcome=\"ended\"" "Stored queries and counts, by how they ended",
        QueriesCancelled: "queries_total" "outcome=\"cancelled\"" "",
        QueriesTooFast: "queries_total" "outcome=\"rate_limited\"" "",
        QueriesRefused: "queries_total" "outcome=\"refused\"" "",
        QueriesFailed: "queries_total" "outcome=\"failed\"" "",
        RowsExamined: "query_rows_examined_total" "" "Events that queries looked at",
        RowsReturned: "query_rows_returned_total" "" "Events that queries answered",
        ObservationsDropped: "observations_dropped_total" "" "Sightings and counts of members not taken down because the recorder was behind",
        LiveDeliveries: "live_deliveries_total" "" "New events taken by live subscriptions",
        BytesReceived: "received_bytes_total" "" "Bytes received over WebSocket",
        BytesSent: "sent_bytes_total" "" "Bytes sent over WebSocket",
        Writes: "socket_writes_total" "" "System calls that sent bytes over WebSocket",
    }
);

cells!(
    /// What goes up and down.
    Level, LEVELS {
        Connections: "connections" "" "WebSocket connections open",
        Subscriptions: "subscriptions" "" "Live subscriptions",
        QueriesRunning: "queries_running" "" "Stored queries and counts under way",
        PublicationsInFlight: "publications_in_flight" "" "Events received and not yet answered",
        BytesQueued: "queued_bytes" "" "Bytes waiting for slow sockets",
    }
);

cells!(
    /// What takes time.
    Latency, LATENCIES {
        Publish: "publish_seconds" "" "From an event's arrival to its OK",
        Query: "query_seconds" "" "From a REQ or COUNT to the end of its stored answer",
    }
);

/// One worker's cells. Written by its thread alone, read by any.
#[derive(Debug)]
pub(crate) struct WorkerMetrics {
    counts: [AtomicU64; COUNTS],
    levels: [AtomicU64; LEVELS],
    latencies: [Histogram; LATENCIES],
}

impl Default for WorkerMetrics {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            levels: std::array::from_fn(|_| AtomicU64::new(0)),
            latencies: std::array::from_fn(|_| Histogram::default()),
        }
    }
}

impl Count {
    /// Returns the value of the cell's label: how an event or a query ended.
    pub(crate) fn outcome(self) -> &'static str {
        let description = Self::DESCRIPTIONS.get(self as usize);
        let value = description.and_then(|description| description.label.split('"').nth(1));
        value.unwrap_or_default()
    }
}

impl WorkerMetrics {
    /// Adds to a count.
    pub(crate) fn add(&self, count: Count, by: u64) {
        if let Some(cell) = self.counts.get(count as usize) {
            cell.store(cell.load(Relaxed).wrapping_add(by), Relaxed);
        }
    }

    /// Sets a level.
    pub(crate) fn set(&self, level: Level, value: usize) {
        if let Some(cell) = self.levels.get(level as usize) {
            cell.store(value as u64, Relaxed);
        }
    }

    /// Records how long something took.
    pub(crate) fn record(&self, latency: Latency, duration: Duration) {
        if let Some(histogram) = self.latencies.get(latency as usize) {
            histogram.record(duration);
        }
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().map(|cell| cell.load(Relaxed))
    }

    pub(super) fn levels(&self) -> impl Iterator<Item = u64> {
        self.levels.iter().map(|cell| cell.load(Relaxed))
    }

    pub(super) fn latencies(&self) -> &[Histogram] {
        &self.latencies
    }
}
