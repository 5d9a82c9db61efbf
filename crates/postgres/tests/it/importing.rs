//! An import, which puts many rows into the tables at once and makes indexes at its end: it must leave
//! the same as publishing one event after the other.

use std::sync::Arc;

use hikyaku_event::{Event, Filter};
use hikyaku_postgres::{
    Options, PostgresStore,
    testing::{Cluster, shared},
};
use hikyaku_store::{
    Outcome, Reader, Write,
    testing::{Blocking, History, block_on, draft},
};
use tokio::runtime::Builder;
use tokio_postgres::NoTls;

const NOW: u64 = 1_000;
/// More than the rows from which on COPY is used, whatever the history refuses.
const FRESH: u64 = 300;

fn options(defer_indexes: bool) -> Options {
    let (url, schema) = shared();
    Options {
        schema,
        defer_indexes,
        ..Options::new(&url)
    }
}

/// Returns events that replace, delete and double each other, among many that do not.
fn events(seed: u64) -> Vec<Arc<Event>> {
    let mut history = History::new(seed);
    let mut events = vec![draft(1, 1, 1).tag(&["expiration", "5"]).build()];
    for number in 0..FRESH {
        let fresh = draft(1, 9, number).content(&format!("{seed} {number}"));
        events.push(
            fresh
                .tag(&["t", "fresh"])
                .tag(&["e", &number.to_string()])
                .build(),
        );
        for write in history.batch() {
            if let Write::Event { event, .. } = write {
                events.push(event);
            }
        }
    }
    events
}

fn write(store: &PostgresStore, events: &[Arc<Event>], vanish: bool) -> Vec<String> {
    let write = |event: &Arc<Event>| Write::Event {
        event: Arc::clone(event),
        vanish,
    };
    let outcomes = Blocking(store).write(events.iter().map(write).collect(), NOW);
    // Numbers may differ: of what came and went in one batch nothing is left.
    let name = |outcome: Outcome| match outcome {
        Outcome::Stored(_) => "stored".to_owned(),
        other => format!("{other:?}"),
    };
    outcomes.into_iter().map(name).collect()
}

fn rows(options: &Options, sql: &str) -> Vec<String> {
    let sql = sql.replace("{schema}", &options.schema);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&options.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let rows = client.query(&sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    })
}

/// Everything that a schema holds, but for the numbers of events.
fn contents(options: &Options) -> Vec<Vec<String>> {
    let of_event = |table: &str| {
        format!(
            "SELECT (to_jsonb(t) - 'seq')::text || encode(e.id, 'hex') \
             FROM {{schema}}.{table} t LEFT JOIN {{schema}}.events e ON e.seq = t.seq ORDER BY 1"
        )
    };
    ["event_tags", "deletions", "vanishings", "hidings"]
        .map(|table| rows(options, &of_event(table)))
        .into_iter()
        .chain([
            rows(
                options,
                "SELECT (to_jsonb(t) - 'seq')::text FROM {schema}.events t ORDER BY 1",
            ),
            indexes(options),
            rows(
                options,
                "SELECT array_to_string(reloptions, ' ') FROM pg_class \
                 WHERE oid = '{schema}.events'::regclass",
            ),
        ])
        .collect()
}

#[test]
fn a_damaged_row_keeps_no_import_from_its_end() {
    let importing = options(true);
    let import = PostgresStore::open(&importing).unwrap();
    let events = events(6);
    write(&import, &events, false);
    let damage = "UPDATE {schema}.events SET json = '{}' WHERE seq = \
        (SELECT min(seq) FROM {schema}.events WHERE kind = 1) RETURNING encode(id, 'hex')";
    assert_eq!(rows(&importing, damage).len(), 1);
    block_on(import.make_indexes()).unwrap();
    let indexed = "SELECT DISTINCT seq::text FROM {schema}.event_tags";
    assert!(rows(&importing, indexed).len() > 250);
}

fn indexes(options: &Options) -> Vec<String> {
    let definitions = "SELECT replace(indexdef, schemaname, '') FROM pg_indexes \
        WHERE schemaname = '{schema}' ORDER BY 1";
    rows(options, definitions)
}

fn everything(store: &PostgresStore) -> Vec<String> {
    let answer = Blocking(store).all(Filter::default(), &Reader::operator(), NOW);
    answer.ids().iter().map(ToString::to_string).collect()
}

#[test]
fn an_import_leaves_the_same_as_publishing_one_by_one() {
    for (seed, vanish) in [(1, false), (2, false), (3, true)] {
        let events = events(seed);
        let (one_by_one, at_once, behind) = (options(false), options(true), options(false));
        let store = PostgresStore::open(&one_by_one).unwrap();
        let outcomes: Vec<_> = events
            .chunks(1)
            .flat_map(|event| write(&store, event, vanish))
            .collect();
        let expected = (contents(&one_by_one), everything(&store));
        assert!(outcomes.iter().filter(|end| *end == "stored").count() > 256);
        assert!(outcomes.iter().any(|end| end.contains("Deleted")));
        assert!(outcomes.iter().any(|end| end.contains("Expired")));
        assert!(outcomes.iter().any(|end| end == "Superseded"));

        // Into an empty schema, in two batches.
        let store = PostgresStore::open(&at_once).unwrap();
        assert!(indexes(&at_once).len() < indexes(&one_by_one).len());
        let (first, second) = events.split_at(events.len() / 2);
        let mut ends = write(&store, first, vanish);
        ends.extend(write(&store, second, vanish));
        assert_eq!(ends, outcomes);
        block_on(store.make_indexes()).unwrap();
        assert_eq!((contents(&at_once), everything(&store)), expected);

        // As a top-up of one that is used.
        let store = PostgresStore::open(&behind).unwrap();
        let (first, second) = events.split_at(20);
        let mut ends = write(&store, first, vanish);
        ends.extend(write(&store, second, vanish));
        assert_eq!(ends, outcomes);
        assert_eq!((contents(&behind), everything(&store)), expected);
    }
}

#[test]
fn who_comes_next_makes_the_indexes_of_an_import_that_was_killed() {
    let importing = options(true);
    let events = events(4);
    let (first, second) = events.split_at(events.len() / 2);
    let import = PostgresStore::open(&importing).unwrap();
    write(&import, first, false);
    drop(import);
    // A program that made rows of tags before their index has left some, whose events are gone.
    let left = "INSERT INTO {schema}.event_tags \
        SELECT age, seq + 1000000, author, tie, kind, conditional, 't', 'x' FROM {schema}.events \
        LIMIT 3 RETURNING name";
    assert_eq!(rows(&importing, left).len(), 3);
    // The next import goes on, and so does nobody else.
    let import = PostgresStore::open(&importing).unwrap();
    let few = indexes(&importing).len();
    let node = Options {
        defer_indexes: false,
        ..importing.clone()
    };
    let other = PostgresStore::open(&node).unwrap();
    assert_eq!(indexes(&importing).len(), few + 5);
    // The one that is under way takes notice.
    write(&import, second, false);
    let reference = options(false);
    let store = PostgresStore::open(&reference).unwrap();
    write(&store, &events, false);
    assert_eq!(contents(&importing), contents(&reference));
    assert_eq!(everything(&other), everything(&store));
}

#[test]
fn a_store_that_somebody_uses_keeps_its_indexes() {
    let cluster = Cluster::start(&[]);
    let node = Options::new(&cluster.url());
    let _open = PostgresStore::open(&node).unwrap();
    let all = indexes(&node).len();
    // The node says that it is there when it listens.
    let listening =
        "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'";
    while rows(&node, listening) == ["0"] {
        std::thread::yield_now();
    }
    let importing = Options {
        defer_indexes: true,
        ..node.clone()
    };
    let _import = PostgresStore::open(&importing).unwrap();
    assert_eq!(indexes(&node).len(), all);
}

#[test]
fn who_does_not_own_the_tables_imports_with_all_indexes() {
    let cluster = Cluster::start(&[]);
    let owner = Options::new(&cluster.url());
    drop(PostgresStore::open(&owner).unwrap());
    cluster.sql(
        "CREATE ROLE guest LOGIN; GRANT USAGE ON SCHEMA hikyaku TO guest; \
         GRANT ALL ON ALL TABLES IN SCHEMA hikyaku TO guest; \
         GRANT ALL ON ALL SEQUENCES IN SCHEMA hikyaku TO guest",
    );
    let all = indexes(&owner).len();
    let guest = Options {
        url: cluster.url().replace("postgres@", "guest@"),
        defer_indexes: true,
        ..owner.clone()
    };
    let import = PostgresStore::open(&guest).unwrap();
    assert_eq!(indexes(&owner).len(), all);
    let events = events(5);
    write(&import, &events, false);
    block_on(import.make_indexes()).unwrap();
    assert!(everything(&import).len() > 256);
}
