//! The suite that every store must pass, and random histories beside the naive store.

use hikyaku_event::TagName;
use hikyaku_postgres::{Options, PostgresStore, testing::shared};
use hikyaku_store::{
    EventStore,
    testing::{Blocking, LONG_NAME, compare},
};

/// Opens a store in a schema of its own.
pub(crate) fn store() -> Box<PostgresStore> {
    let (url, schema) = shared();
    let options = Options {
        schema,
        tag_names: TagName::new(LONG_NAME).into_iter().collect(),
        ..Options::new(&url)
    };
    Box::new(PostgresStore::open(&options).unwrap())
}

mod claims {
    hikyaku_store::store_suite!(|| crate::suite::store());
}

#[test]
fn the_suite_and_the_histories_ask_for_longer_names() {
    assert!(Blocking(&*store()).indexes(LONG_NAME));
}

#[test]
fn random_histories_are_answered_as_by_the_naive_store() {
    compare(12, |_| -> Box<dyn EventStore> { store() }, |_, _| {});
}
