//! What this node and the others on its store tell each other: ephemeral events, what clients have spent
//! of their rates, and which signatures of requests have been used.
//!
//! A text begins with a letter that says what it is; one that this program does not know is passed over.

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_core::Stream as _;
use hikyaku_event::{Event, EventId};
use hikyaku_store::Neighbours;
use tokio::{sync::mpsc, time::MissedTickBehavior};

use crate::{clock::unix_now, feed::Delivery, worker::Shared};

/// An ephemeral event's JSON follows.
const EPHEMERAL: &str = "e";
/// What clients have spent follows, as [`crate::rates`] writes it.
const SPENT: &str = "r";
/// The id of an event follows that has signed a request (NIP-98).
const USED: &str = "u";

/// How often what clients have spent here is told.
const TELL_INTERVAL: Duration = Duration::from_millis(200);

/// Tells of ephemeral events.
pub(crate) fn tell(neighbours: &dyn Neighbours, events: &[Arc<Event>]) {
    for event in events {
        // What was parsed as an event is UTF-8.
        if let Ok(json) = std::str::from_utf8(event.json()) {
            neighbours.tell(format!("{EPHEMERAL}{json}"));
        }
    }
}

/// Tells of a signature that has been used.
pub(crate) fn tell_used(neighbours: &dyn Neighbours, event: EventId) {
    neighbours.tell(format!("{USED}{}", event.to_hex()));
}

/// Tells what clients have spent, again and again; never returns.
pub(crate) async fn tell_spent(shared: &Shared) {
    let mut timer = tokio::time::interval(TELL_INTERVAL);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while let Some(neighbours) = &shared.neighbours {
        timer.tick().await;
        for spent in shared.rates.spent() {
            neighbours.tell(format!("{SPENT}{spent}"));
        }
    }
    std::future::pending::<()>().await;
}

/// Takes what other nodes tell; never returns.
pub(crate) async fn hear(shared: &Shared) {
    if let Some(neighbours) = &shared.neighbours {
        let mut tidings = neighbours.hear();
        while let Some(text) = std::future::poll_fn(|cx| Pin::new(&mut tidings).poll_next(cx)).await
        {
            match text.split_at_checked(1) {
                Some((EPHEMERAL, json)) => deliver(shared, json),
                Some((SPENT, spent)) => shared.rates.spent_elsewhere(spent),
                Some((USED, id)) => {
                    if let Ok(id) = EventId::from_hex(id.as_bytes()) {
                        // It may have been used here, too, a moment ago.
                        let _ = shared.signed_once.note(id, unix_now());
                    }
                }
                _ => tracing::debug!("another node tells what this one does not know"),
            }
        }
    }
    std::future::pending::<()>().await;
}

/// Hands another node's ephemeral event to all workers. Who wrote it hears from that node alone how
/// many took it.
fn deliver(shared: &Shared, json: &str) {
    match Event::from_stored(Bytes::copy_from_slice(json.as_bytes())) {
        Ok(event) => {
            let events: Arc<[_]> = Arc::new([Arc::new(event)]);
            let (report, _) = mpsc::unbounded_channel();
            for inbox in &shared.inboxes {
                // A worker that has stopped has no listeners.
                let _ = inbox.send(Delivery {
                    events: Arc::clone(&events),
                    report: report.clone(),
                });
            }
        }
        Err(error) => tracing::warn!(%error, "another node tells an event that is none"),
    }
}
