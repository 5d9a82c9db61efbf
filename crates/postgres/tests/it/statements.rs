//! Statements are told to the request that makes them, with the line they are from, and are prepared
//! once.

use std::{
    task::{Context, Poll, Waker},
    time::Duration,
};

use hikyaku_event::{
    Filter,
    testing::{Author, EventBuilder},
};
use hikyaku_observe::{Cost, Observations, Shape, observed};
use hikyaku_postgres::{
    Options, PostgresStore,
    testing::{Cluster, shared},
};
use hikyaku_store::{
    Budget, EventStore, LimitPolicy, Query, QueryCursor, QueryStep, Reader, StoreError,
    testing::block_on,
};

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

fn query(filter: &str) -> Query {
    Query {
        filters: vec![Filter::parse(filter.as_bytes()).unwrap()],
        reader: Reader::anonymous(),
        limits: LimitPolicy::UNLIMITED,
        now: 1_000,
    }
}

/// Asks to the end.
fn end(mut cursor: Box<dyn QueryCursor>) -> Result<(), StoreError> {
    loop {
        let mut budget = Budget::new(1_000);
        let step = std::future::poll_fn(|cx| cursor.poll_next(cx, &mut budget));
        if let QueryStep::End(_) = block_on(step)? {
            return Ok(());
        }
    }
}

#[test]
fn queries_that_are_refused_or_given_up_leave_no_statements_behind() {
    let cluster = Cluster::start(&["log_min_duration_statement = 0"]);
    let options = Options {
        connections_per_worker: 1,
        ..Options::new(&cluster.url())
    };
    let store = PostgresStore::open(&options).unwrap();
    let reader = store.reader();
    let any = r#"{"kinds":[1],"limit":1}"#;
    end(reader.query(query(any))).unwrap();
    // What the server was asked to keep for good has a name.
    let prepared = || {
        let log = cluster.log();
        let parsed = log.lines().filter(|line| line.contains("  parse s"));
        parsed.filter(|line| line.contains("event_tags")).count()
    };
    for _ in 0..20 {
        let refused = end(reader.query(query(r##"{"#title":["x"]}"##)));
        assert!(matches!(refused, Err(StoreError::Unsupported(_))));
        end(reader.query(query(any))).unwrap();
    }
    let after_refused = prepared();
    for _ in 0..20 {
        let mut given_up = reader.query(query(r##"{"#t":["x"],"#e":["y"]}"##));
        let mut cx = Context::from_waker(Waker::noop());
        // As far as it comes without waiting for the server; on a busy machine that may be its end.
        let polled = given_up.poll_next(&mut cx, &mut Budget::new(1_000));
        assert!(!matches!(polled, Poll::Ready(Err(_))), "{polled:?}");
        drop(given_up);
        end(reader.query(query(any))).unwrap();
    }
    let after_given_up = prepared();
    // The writer has statements of its own with this table.
    assert!(after_refused < 10, "{after_refused}");
    assert!(after_given_up < after_refused + 10, "{after_given_up}");
}
