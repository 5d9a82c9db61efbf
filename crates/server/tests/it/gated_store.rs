//! A store whose writes are answered when the test says so.

use std::{pin::Pin, sync::Arc};

use hikyaku_event::Timestamp;
use hikyaku_store::{
    CommittedFeed, EventStore, StoreError, StoreReader, Write, WriteFuture, testing::NaiveStore,
};
use tokio::sync::{mpsc, watch};

/// What the store answers to writes.
#[derive(Debug, Clone)]
pub(crate) enum Gate {
    Closed,
    Open,
    Failing(StoreError),
}

pub(crate) struct GatedStore {
    naive: NaiveStore,
    gate: watch::Receiver<Gate>,
    /// Tells the number of events of each write.
    written: mpsc::UnboundedSender<usize>,
}

/// The test's hands on a gated store.
pub(crate) struct Keeper {
    pub(crate) gate: watch::Sender<Gate>,
    pub(crate) written: mpsc::UnboundedReceiver<usize>,
}

impl GatedStore {
    pub(crate) fn new(gate: Gate) -> (Arc<Self>, Keeper) {
        let (gate, seen) = watch::channel(gate);
        let (sender, written) = mpsc::unbounded_channel();
        let store = Self {
            naive: NaiveStore::new(),
            gate: seen,
            written: sender,
        };
        (Arc::new(store), Keeper { gate, written })
    }
}

impl EventStore for GatedStore {
    fn reader(&self) -> Box<dyn StoreReader> {
        self.naive.reader()
    }

    fn write(&self, batch: Vec<Write>, now: Timestamp) -> WriteFuture {
        let _ = self.written.send(batch.len());
        let mut gate = self.gate.clone();
        if let Gate::Failing(error) = &*gate.borrow() {
            let error = error.clone();
            return Box::pin(async { Err(error) });
        }
        let written = self.naive.write(batch, now);
        Box::pin(async move {
            let _ = gate.wait_for(|gate| !matches!(gate, Gate::Closed)).await;
            written.await
        })
    }

    fn committed(&self) -> CommittedFeed {
        self.naive.committed()
    }

    fn sweep(
        &self,
        now: Timestamp,
    ) -> Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send>> {
        self.naive.sweep(now)
    }
}
