//! Statements are told to the request that makes them, with the line they are from.

use std::time::Duration;

use hikyaku_event::testing::{Author, EventBuilder};
use hikyaku_observe::{Cost, Observations, Shape, observed};
use hikyaku_postgres::{Options, PostgresStore, testing::shared};
use hikyaku_store::EventStore;

#[test]
fn a_loop_of_statements_is_reported_with_its_line() {
    let (url, schema) = shared();
    let options = Options {
        schema,
        ..Options::new(&url)
    };
    let store = PostgresStore::open(&options).unwrap();
    let reader = store.reader();
    let ids: Vec<_> = (0..8)
        .map(|n| {
            EventBuilder::new(1)
                .content(&n.to_string())
                .sign(&Author::new(1))
                .id()
        })
        .collect();
    let (observations, mut ledgers) = Observations::new(1, 0, 7);
    let ledger = ledgers.pop().unwrap();
    let shape = Shape::Http {
        method: "GET",
        route: "/things/{id}".into(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let handle = |ids: &[_], each: usize| {
        let ((), statements) = runtime.block_on(observed(async {
            for some in ids.chunks(each) {
                reader.contains(some).await.unwrap();
            }
        }));
        let cost = Cost::new(Duration::from_millis(1));
        ledger.record(ledger.id(&shape), &cost, statements.as_deref(), || None);
    };
    // One statement for all of them is nothing to report.
    handle(&ids, 8);
    assert_eq!(observations.snapshot(0).repeats, []);
    handle(&ids, 1);
    let snapshot = observations.snapshot(0);
    let [repeat] = &snapshot.repeats[..] else {
        panic!("{snapshot:?}")
    };
    assert_eq!(repeat.shape, "GET /things/{id}");
    assert!(
        repeat.site.contains("postgres/src/reader.rs:"),
        "{}",
        repeat.site
    );
    assert!(
        repeat.statement.starts_with("SELECT id FROM"),
        "{}",
        repeat.statement
    );
    assert_eq!((repeat.requests, repeat.statements, repeat.most), (1, 8, 8));
    assert!(repeat.saved_ns > 0 && repeat.saved_ns < repeat.total_ns);
    assert_eq!(snapshot.statements[0].calls, 9);
    assert!(snapshot.shapes[0].phases_ns.query > 0);
}
