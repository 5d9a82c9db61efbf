//! A conversation without a socket, for tests and fuzzing: what a connection does with its bytes.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test is to fail where something is not as it should be"
)]

use std::{mem, sync::Arc};

use hikyaku_tables::{Stamp, Table};

use crate::{
    catalogue::Catalogue,
    config::TableServerConfig,
    exchange::{Deferred, Desk, Exchange, Protocol, Step},
    metrics::{Metrics, WorkerMetrics},
    writer,
};

/// A protocol's other side.
pub(crate) struct Rehearsal<P> {
    pub(crate) protocol: P,
    pub(crate) catalogue: Catalogue,
    pub(crate) config: TableServerConfig,
    pub(crate) now_us: u64,
    pub(crate) metrics: Metrics,
    counts: Arc<WorkerMetrics>,
    kept: Vec<u8>,
    is_closed: bool,
    /// The last batch that was left was for the table's thread for what takes long.
    pub(crate) was_aside: bool,
}

impl<P: Protocol> Rehearsal<P> {
    pub(crate) fn new(protocol: P, tables: Vec<(String, Arc<dyn Table>)>) -> Self {
        let (catalogue, _) = Catalogue::start(tables, 0)
            .expect("a thread starts")
            .expect("there is a table");
        let metrics = Metrics::new(1);
        Self {
            protocol,
            catalogue,
            config: TableServerConfig::default(),
            now_us: 1_700_000_000_000_000,
            counts: metrics.worker(0),
            metrics,
            kept: Vec::new(),
            is_closed: false,
            was_aside: false,
        }
    }

    /// Sends bytes; returns the answers, those of the tables' writers included.
    pub(crate) fn say(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        let mut value = Vec::new();
        let mut deferred = Deferred::default();
        let mut input = mem::take(&mut self.kept);
        input.extend_from_slice(bytes);
        let mut rest = input.as_slice();
        let desk = Desk {
            catalogue: &self.catalogue,
            config: &self.config,
            counts: &self.counts,
            metrics: &self.metrics,
            replication: None,
            started_us: 0,
            stamp: Stamp {
                at_us: self.now_us,
                origin: 0,
            },
        };
        while !self.is_closed {
            let written = output.len();
            let was_settled = deferred.batch.is_empty();
            let mut exchange = Exchange::new(&desk, rest, &mut output, &mut value, &mut deferred);
            let step = self.protocol.step(&mut exchange);
            let taken = exchange.taken();
            rest = &rest[taken..];
            assert!(
                was_settled || output.len() == written,
                "an answer overtakes others"
            );
            if matches!(step, Step::Settle) {
                assert_eq!(taken, 0, "a request is taken and not carried out");
                assert!(!was_settled, "there is nothing to settle");
            }
            if !matches!(step, Step::Went) && !deferred.batch.is_empty() {
                let Deferred {
                    table,
                    batch,
                    is_aside,
                    ..
                } = mem::take(&mut deferred);
                self.was_aside = is_aside;
                let served = self.catalogue.table(table.expect("a batch has its table"));
                let settled = writer::carry_out(&*served.table, desk.stamp, &mut [batch]);
                let mut exchange =
                    Exchange::new(&desk, &[], &mut output, &mut value, &mut deferred);
                self.protocol.settle(settled, &mut exchange);
                continue;
            }
            match step {
                Step::Went | Step::Settle => {}
                Step::Read(needed) => {
                    assert!(needed > rest.len(), "what is there is not read again");
                    break;
                }
                Step::Close | Step::HandOver(_) => self.is_closed = true,
            }
        }
        self.kept = rest.to_vec();
        output
    }

    /// Returns how many bytes of a request that is not whole are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept.len()
    }

    /// Tells whether the protocol has ended the conversation.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }
}
