//! A schema of any older version, with events in it, becomes the newest one and answers as before.

use std::{fmt::Write as _, sync::Arc};

use hikyaku_event::{
    Event, Filter,
    testing::{Author, EventBuilder},
};
use hikyaku_postgres::{Backfill, Options, PostgresStore, schema_sql, testing::Cluster};
use hikyaku_store::{
    Outcome, Reader,
    testing::{Answer, Blocking},
};

const NOW: u64 = 10_000;

/// Notes, a replaced profile, a deletion with what it deletes, and one that will expire.
fn history() -> Vec<Arc<Event>> {
    let alice = Author::new(1);
    let mut events: Vec<Arc<Event>> = (0..20)
        .map(|number| {
            let note = EventBuilder::new(1).created_at(100 + number);
            let note = note.tag(["t", &format!("topic {}", number % 3)]);
            Arc::new(note.tag(["expiration", "5000"]).sign(&alice))
        })
        .collect();
    for time in [50, 60] {
        events.push(Arc::new(EventBuilder::new(0).created_at(time).sign(&alice)));
    }
    let deleted = events[7].id().to_hex();
    let deletion = EventBuilder::new(5).created_at(200).tag(["e", &deleted]);
    events.push(Arc::new(deletion.sign(&alice)));
    events
}

fn ask(store: &PostgresStore, filter: &str, now: u64) -> Answer {
    let filter = Filter::parse(filter.as_bytes()).unwrap();
    Blocking(store).all(filter, &Reader::anonymous(), now)
}

/// Returns what there is in a schema, as the catalogue says it.
fn shape(cluster: &Cluster, schema: &str) -> String {
    let columns = format!(
        "SELECT table_name, column_name, data_type, is_nullable, column_default \
         FROM information_schema.columns WHERE table_schema = '{schema}' ORDER BY 1, 2"
    );
    let indexes = format!(
        "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = '{schema}' \
         ORDER BY 1, 2"
    );
    let shape = cluster.sql(&columns) + "\n" + &cluster.sql(&indexes);
    shape.replace(&format!("{schema}."), "")
}

/// Returns the statements that make a schema of this version.
fn sql_of(schema: &str, version: usize) -> String {
    let sql = schema_sql(schema).unwrap();
    match sql.find(&format!("-- Version {}:", version + 1)) {
        Some(end) => format!("{}COMMIT;\n", &sql[..end]),
        None => sql,
    }
}

#[test]
fn every_older_version_with_events_becomes_the_newest() {
    let cluster = Cluster::start(&[]);
    let options = |schema: &str| Options {
        schema: schema.to_owned(),
        // The test does it itself.
        backfill: false,
        ..Options::new(&cluster.url())
    };
    let newest = PostgresStore::open(&options("newest")).unwrap();
    for event in &history() {
        let outcome = Blocking(&newest).put(event, NOW / 10);
        assert!(matches!(outcome, Outcome::Stored(_)), "{outcome:?}");
    }
    let questions = ["{}", r##"{"#t":["topic 1"]}"##, r#"{"kinds":[0]}"#];
    let expected = questions.map(|filter| ask(&newest, filter, NOW / 10).ids());
    assert_eq!(expected.each_ref().map(Vec::len), [21, 6, 1]);
    let newest_shape = shape(&cluster, "newest");
    let versions = schema_sql("x").unwrap().matches("-- Version ").count();
    assert!(versions > 6);

    for version in 1..versions {
        let schema = format!("version_{version}");
        cluster.sql(&sql_of(&schema, version));
        // The rows as a program of that time has left them: those columns that were there.
        let mut copy = String::new();
        for table in ["events", "event_tags", "deletions", "vanishings", "hidings"] {
            let columns = cluster.sql(&format!(
                "SELECT string_agg(column_name, ', ') FROM information_schema.columns \
                 WHERE table_schema = '{schema}' AND table_name = '{table}'"
            ));
            writeln!(
                copy,
                "INSERT INTO {schema}.{table} ({columns}) SELECT {columns} FROM newest.{table};"
            )
            .unwrap();
        }
        cluster.sql(&format!(
            "{copy} SELECT setval('{schema}.position', (SELECT last_value FROM newest.position))"
        ));

        let store = PostgresStore::open(&options(&schema)).unwrap();
        assert_eq!(shape(&cluster, &schema), newest_shape, "{schema}");
        let answers = questions.map(|filter| ask(&store, filter, NOW / 10).ids());
        assert_eq!(answers, expected, "{schema}");
        // The rules go on from what was there.
        for event in &history() {
            let again = Blocking(&store).put(event, NOW / 10);
            assert!(!matches!(again, Outcome::Stored(_)), "{schema}: {event:?}");
        }
        let new = EventBuilder::new(1).created_at(900).tag(["t", "topic 1"]);
        let new = Arc::new(new.sign(&Author::new(2)));
        assert!(matches!(
            Blocking(&store).put(&new, NOW / 10),
            Outcome::Stored(_)
        ));
        assert_eq!(ask(&store, questions[1], NOW / 10).ids()[0], new.id());
        assert_eq!(ask(&store, questions[1], NOW).ids(), [new.id()], "expired");
        drop(store);

        // And the index of tags can be made anew from it.
        let backfill = Backfill::open(&options(&schema)).unwrap();
        backfill.drop_names(&["t"]).unwrap();
        assert!(backfill.run(&false.into(), |_| {}).unwrap());
        backfill.index(&["t"]).unwrap();
        assert!(backfill.run(&false.into(), |_| {}).unwrap());
        let store = PostgresStore::open(&options(&schema)).unwrap();
        assert_eq!(
            ask(&store, questions[1], NOW / 10).ids().len(),
            7,
            "{schema}"
        );
    }
}
