//! The comparison itself: two naive stores agree, and one that errs is found out.

use std::{future::Future, pin::Pin};

use hikyaku_event::Timestamp;
use hikyaku_store::{
    CommittedFeed, EventStore, Hider, StoreError, StoreReader, Write, WriteFuture,
    testing::{NaiveStore, compare},
};

/// A naive store that misreads what it is told to write.
struct Erring {
    store: NaiveStore,
    misread: fn(Write) -> Write,
}

impl EventStore for Erring {
    fn reader(&self) -> Box<dyn StoreReader> {
        self.store.reader()
    }

    fn write(&self, batch: Vec<Write>, now: Timestamp) -> WriteFuture {
        self.store
            .write(batch.into_iter().map(self.misread).collect(), now)
    }

    fn committed(&self) -> CommittedFeed {
        self.store.committed()
    }

    fn sweep(
        &self,
        now: Timestamp,
    ) -> Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send>> {
        self.store.sweep(now)
    }
}

fn compare_with(misread: fn(Write) -> Write) {
    let open = |_| -> Box<dyn EventStore> {
        let store = NaiveStore::new();
        Box::new(Erring { store, misread })
    };
    compare(4, open, |_, _| {});
}

#[test]
fn stores_that_do_the_same_agree() {
    compare_with(|write| write);
}

#[test]
#[should_panic(expected = "assertion `left == right` failed")]
fn a_store_that_never_vanishes_is_found_out() {
    compare_with(|write| match write {
        Write::Event { event, .. } => Write::Event {
            event,
            vanish: false,
        },
        other => other,
    });
}

#[test]
#[should_panic(expected = "assertion `left == right` failed")]
fn a_store_that_knows_one_hider_is_found_out() {
    compare_with(|write| match write {
        Write::Hide { id, .. } => Write::Hide { id, by: Hider(0) },
        other => other,
    });
}
