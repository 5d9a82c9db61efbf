//! The suite that every store must pass, and random histories beside the naive store.

use hikyaku_postgres::{Options, PostgresStore, testing::shared};
use hikyaku_store::{EventStore, testing::compare};

/// Opens a store in a schema of its own.
pub(crate) fn store() -> Box<PostgresStore> {
    let (url, schema) = shared();
    let options = Options {
        schema,
        ..Options::new(&url)
    };
    Box::new(PostgresStore::open(&options).unwrap())
}

mod claims {
    hikyaku_store::store_suite!(|| crate::suite::store());
}

#[test]
fn random_histories_are_answered_as_by_the_naive_store() {
    compare(12, |_| -> Box<dyn EventStore> { store() }, |_, _| {});
}
