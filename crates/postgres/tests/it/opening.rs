//! Opening a store, or being told why not.

use hikyaku_postgres::{Options, PostgresError, PostgresStore, schema_sql, testing::shared};
use hikyaku_store::EventStore;

fn refusal(options: &Options) -> String {
    match PostgresStore::open(options) {
        Err(PostgresError::Refused(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_can_not_work_is_said() {
    let (url, schema) = shared();
    let tls = Options::new(&format!("{url}?sslmode=often"));
    assert!(refusal(&tls).contains("verify-full"));
    assert!(refusal(&Options::new("postgres://:::")).contains("address"));
    let name = Options {
        schema: "a b".to_owned(),
        ..Options::new(&url)
    };
    assert!(refusal(&name).contains("schema's name"));
    let nowhere = Options {
        schema,
        ..Options::new(
            &url.replace("/postgres", "/nowhere")
                .replace("nowhere@", "postgres@"),
        )
    };
    assert!(refusal(&nowhere).contains("does not exist"));
}

#[test]
fn more_connections_than_the_server_has_are_refused() {
    let (url, schema) = shared();
    let options = Options {
        schema,
        workers: 100,
        ..Options::new(&url)
    };
    assert!(refusal(&options).contains("404 connections"));
}

#[test]
fn an_unreachable_server_is_unavailable() {
    let options = Options::new("postgres://postgres@127.0.0.1:1/postgres");
    let error = PostgresStore::open(&options).unwrap_err();
    assert!(matches!(error, PostgresError::Unavailable(_)), "{error}");
}

#[test]
fn a_store_is_found_again_where_it_was_left() {
    let (url, schema) = shared();
    let options = Options {
        schema,
        ..Options::new(&url)
    };
    let event = hikyaku_store::testing::draft(1, 1, 100).build();
    let store = PostgresStore::open(&options).unwrap();
    hikyaku_store::testing::Blocking(&store).put(&event, 1_000);
    drop(store);
    let store = PostgresStore::open(&options).unwrap();
    let blocking = hikyaku_store::testing::Blocking(&store as &dyn EventStore);
    assert_eq!(blocking.contains(&[event.id()]), [true]);
    let everything = blocking.all(
        hikyaku_event::Filter::default(),
        &hikyaku_store::Reader::anonymous(),
        1_000,
    );
    assert_eq!(everything.ids(), [event.id()]);
}

#[test]
fn the_printed_schema_is_that_of_every_version() {
    let sql = schema_sql("relay").unwrap();
    assert!(sql.contains("CREATE TABLE \"relay\".event_tags"));
    assert!(!sql.contains("{schema}"));
}

#[test]
fn what_the_store_does_is_counted() {
    let (url, schema) = shared();
    let options = Options {
        schema,
        ..Options::new(&url)
    };
    let store = PostgresStore::open(&options).unwrap();
    let asked = hikyaku_store::testing::Blocking(&store);
    for number in 0..3 {
        let event = hikyaku_store::testing::draft(1, 1, number).build();
        asked.put(&event, 1_000);
    }
    let filter = hikyaku_event::Filter::default();
    asked.all(filter, &hikyaku_store::Reader::anonymous(), 1_000);
    // The listener tells how far the backfill is once it listens.
    while store.meters().backfill.is_none() {
        std::thread::yield_now();
    }
    let meters = store.meters();
    assert_eq!((meters.batches, meters.events_written), (3, 3));
    assert_eq!((meters.failures, meters.feed_lag), (0, 0));
    // The writer's, the listener's, and a reader's that is idle now.
    assert!(meters.connections >= 3, "{meters:?}");
    assert_eq!(meters.reads_under_way, 0);
    assert!(meters.statements > 20, "{meters:?}");
    assert_eq!(meters.backfill.unwrap().done, 0);
}
