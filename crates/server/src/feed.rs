//! New events on their way to live subscriptions: what the store has committed, and what is
//! ephemeral and touches no store.

use std::{pin::Pin, rc::Rc, sync::Arc};

use futures_core::Stream;
use hikyaku_event::Event;
use hikyaku_relay::ListenerKey;
use hikyaku_store::{CommittedFeed, Sequence};
use tokio::sync::mpsc;

use crate::{metrics::Count, neighbours, worker::Worker};

/// Deliveries between two turns of the loop: about a millisecond.
const DELIVERIES_PER_TURN: usize = 2_000;

/// Ephemeral events for one worker, of which it reports how many subscriptions took each.
pub(crate) struct Delivery {
    pub(crate) events: Arc<[Arc<Event>]>,
    pub(crate) report: mpsc::UnboundedSender<Vec<u64>>,
}

/// Hands the store's commits to the worker's subscriptions, until the store closes.
pub(crate) async fn committed(worker: Rc<Worker>, mut feed: CommittedFeed) {
    let mut distributor = Distributor::default();
    while let Some(commit) = std::future::poll_fn(|cx| Pin::new(&mut feed).poll_next(cx)).await {
        for committed in &commit.events {
            let event = &committed.event;
            distributor
                .distribute(&worker, Some(committed.sequence), event)
                .await;
        }
    }
    tracing::debug!("the store's feed has ended");
}

/// Hands ephemeral events to the worker's subscriptions, until the server is gone.
pub(crate) async fn deliveries(worker: Rc<Worker>, mut inbox: mpsc::UnboundedReceiver<Delivery>) {
    let mut distributor = Distributor::default();
    while let Some(delivery) = inbox.recv().await {
        let mut listeners = Vec::with_capacity(delivery.events.len());
        for event in delivery.events.iter() {
            listeners.push(distributor.distribute(&worker, None, event).await);
        }
        // The publisher may have gone away.
        let _ = delivery.report.send(listeners);
    }
}

impl Worker {
    /// Hands ephemeral events to all workers, and to the other nodes; resolves to how many
    /// subscriptions of this node took each, once all have reported.
    pub(crate) fn deliver_everywhere(
        &self,
        events: &Arc<[Arc<Event>]>,
    ) -> impl Future<Output = Vec<u64>> + use<> {
        let mut listeners = vec![0; events.len()];
        if let Some(neighbours) = &self.shared.neighbours {
            neighbours::tell(&**neighbours, events);
        }
        let (report, mut reports) = mpsc::unbounded_channel::<Vec<u64>>();
        for inbox in &self.shared.inboxes {
            // A worker that has stopped has no listeners.
            let _ = inbox.send(Delivery {
                events: Arc::clone(events),
                report: report.clone(),
            });
        }
        drop(report);
        async move {
            while let Some(counts) = reports.recv().await {
                for (sum, count) in listeners.iter_mut().zip(counts) {
                    *sum += count;
                }
            }
            listeners
        }
    }
}

/// Finds an event's listeners; keeps its list between events.
#[derive(Default)]
struct Distributor {
    found: Vec<ListenerKey>,
    deliveries: usize,
}

impl Distributor {
    /// Hands one event to every subscription of the worker that it belongs to; returns how many
    /// took it.
    async fn distribute(
        &mut self,
        worker: &Worker,
        sequence: Option<Sequence>,
        event: &Arc<Event>,
    ) -> u64 {
        self.found.clear();
        worker
            .live
            .borrow_mut()
            .for_each_match(event, |key| self.found.push(key));
        let mut taken = 0;
        for key in &self.found {
            if self.deliveries == DELIVERIES_PER_TURN {
                self.deliveries = 0;
                tokio::task::yield_now().await;
            }
            self.deliveries += 1;
            // It may have gone away while others had their turn.
            if let Some(connection) = worker.connection(key.connection)
                && connection.live(worker, key.subscription, sequence, event)
            {
                taken += 1;
            }
        }
        worker.metrics.add(Count::LiveDeliveries, taken);
        taken
    }
}
