//! Names of tags that are switched off and on again while the store is used.

use std::{
    env,
    process::{Child, Command},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use hikyaku_event::{Event, Filter};
use hikyaku_postgres::{
    Backfill, BackfillState, BackfillStatus, Options, Pace, PostgresError, PostgresStore,
    testing::{Cluster, shared},
};
use hikyaku_store::{
    Completeness, CountStep, EventStore, Hider, KeyRange, LimitPolicy, Outcome, Query, Reader,
    StoreError,
    testing::{Answer, Blocking, draft},
};
use tokio::runtime::Builder;
use tokio_postgres::NoTls;

const NOW: u64 = 1_900_000_000;
const WHOLE: Pace = Pace {
    share: 100,
    rate: None,
};

/// Returns an event with tags of the names `t` and `e`, some of them more than once, some long.
fn event(number: u64) -> Arc<Event> {
    let topic = format!("topic {}", number % 50);
    let mut event = draft(1, 1, 1_700_000_000 + number / 3)
        .content(&format!("{number}"))
        .tag(&["e", "of another name"])
        .tag(&["t", &topic]);
    if number.is_multiple_of(10) {
        event = event
            .tag(&["t", &topic])
            .tag(&["t", &format!("'\"\\ é {}", "long ".repeat(20))])
            .tag(&["t"]);
    }
    event.build()
}

fn events(numbers: std::ops::Range<u64>) -> Vec<Arc<Event>> {
    numbers.map(event).collect()
}

fn put(store: &PostgresStore, events: &[Arc<Event>]) {
    for batch in events.chunks(500) {
        let outcomes = Blocking(store).put_all(batch, NOW);
        assert!(outcomes.iter().all(|end| matches!(end, Outcome::Stored(_))));
    }
}

fn ask(store: &PostgresStore, filter: &str) -> Answer {
    let filter = Filter::parse(filter.as_bytes()).unwrap();
    Blocking(store).all(filter, &Reader::operator(), NOW)
}

fn count(store: &PostgresStore, filter: &str) -> CountStep {
    Blocking(store).count_so_far(Query {
        filters: vec![Filter::parse(filter.as_bytes()).unwrap()],
        reader: Reader::operator(),
        limits: LimitPolicy::UNLIMITED,
        now: NOW,
    })
}

/// Returns how many keys there are.
fn keys(store: &PostgresStore, filter: &str) -> Result<usize, StoreError> {
    let filter = Filter::parse(filter.as_bytes()).unwrap();
    let reader = store.reader();
    let keys = reader.keys(&filter, &Reader::operator(), NOW, KeyRange::default());
    keys.collect::<Result<Vec<_>, _>>().map(|keys| keys.len())
}

/// Has it worked, here or in the store, until nothing is left.
fn finish(backfill: &Backfill) -> BackfillStatus {
    while !backfill.run(&AtomicBool::new(false), |_| {}).unwrap() {
        thread::yield_now();
    }
    backfill.status().unwrap()
}

/// Counts the rows of `t` that are missing, and those that are too many.
fn differences(options: &Options) -> (i64, i64) {
    let wanted = "SELECT DISTINCT e.seq, e.age, e.tie, e.kind, e.conditional, tag->>1 AS value \
        FROM {schema}.events e, json_array_elements(convert_from(e.json, 'UTF8')::json->'tags') tag \
        WHERE NOT e.hidden AND tag->>0 = 't' AND tag->>1 IS NOT NULL";
    let there =
        "SELECT seq, age, tie, kind, conditional, value FROM {schema}.event_tags WHERE name = 't'";
    let keys = "SELECT seq, age, tie, kind, conditional, \
        CASE WHEN octet_length(value) <= 64 THEN convert_to(value, 'UTF8') \
        ELSE '\\xff'::bytea || substr(sha256(convert_to(value, 'UTF8')), 2) END AS value";
    let sql = format!(
        "WITH wanted AS ({keys} FROM ({wanted}) w), there AS ({there}) SELECT \
         (SELECT count(*) FROM (SELECT * FROM wanted EXCEPT ALL SELECT * FROM there) m), \
         (SELECT count(*) FROM (SELECT * FROM there EXCEPT ALL SELECT * FROM wanted) m)"
    );
    let sql = sql.replace("{schema}", &options.schema);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&options.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let row = client.query_one(&sql, &[]).await.unwrap();
        (row.get(0), row.get(1))
    })
}

#[test]
fn a_name_is_switched_off_and_on_while_the_store_is_used() {
    let (url, schema) = shared();
    let options = Options {
        schema,
        ..Options::new(&url)
    };
    let store = PostgresStore::open(&options).unwrap();
    let backfill = Backfill::open(&options).unwrap();
    assert_eq!(backfill.status().unwrap().state, BackfillState::Idle);
    put(&store, &events(0..3000));
    assert_eq!(differences(&options), (0, 0));
    let topic = r##"{"#t":["topic 7"]}"##;
    let all = ask(&store, topic);
    assert_eq!(
        (all.events.len(), all.completeness),
        (60, Completeness::Finish)
    );

    backfill.set_pace(WHOLE).unwrap();
    backfill.drop_names(&["t"]).unwrap();
    assert_eq!(ask(&store, topic).completeness, Completeness::Unknown);
    assert!(!finish(&backfill).indexed.contains(&"t".to_owned()));
    put(&store, &events(3000..3100));
    let none = ask(&store, topic);
    assert_eq!(
        (none.events.len(), none.completeness),
        (0, Completeness::Unknown)
    );
    assert_eq!(count(&store, topic), CountStep::AtLeast(0));
    let other = ask(&store, r##"{"#e":["of another name"]}"##);
    assert_eq!(
        (other.events.len(), other.completeness),
        (3100, Completeness::Finish)
    );

    // Batches of a tenth, and a long wait behind each.
    let slow = Pace {
        share: 1,
        rate: Some(300),
    };
    backfill.set_pace(slow).unwrap();
    let status = backfill.index(&["t"]).unwrap();
    assert_eq!(
        (status.state, &*status.filling),
        (BackfillState::Running, &["t".to_owned()][..])
    );
    while backfill.status().unwrap().done == 0 {
        thread::yield_now();
    }
    backfill.pause(true).unwrap();
    let done = backfill.status().unwrap().done;
    assert!((1..3100).contains(&done), "{done}");
    put(&store, &events(3100..3200));
    let some = ask(&store, topic);
    assert_eq!(some.completeness, Completeness::Unknown);
    // The newest are there, whether from the batch or as they came.
    let newest: Vec<_> = (0..3200)
        .filter(|n| n % 50 == 7)
        .map(|n| event(n).id())
        .collect();
    let newest: Vec<_> = newest.into_iter().rev().take(some.events.len()).collect();
    assert!(some.events.len() > 4, "{}", some.events.len());
    assert_eq!(some.ids(), newest);
    let counted = some.events.len() as u64;
    assert_eq!(count(&store, topic), CountStep::AtLeast(counted));
    let whole = r##"{"#e":["of another name"]}"##;
    assert_eq!(count(&store, whole), CountStep::Done(3200));
    assert!(
        matches!(keys(&store, topic), Err(StoreError::Unavailable(_))),
        "a list that would not be whole is none"
    );
    assert!(matches!(
        backfill.index(&["x"]),
        Err(PostgresError::Refused(_))
    ));

    backfill.set_pace(WHOLE).unwrap();
    backfill.pause(false).unwrap();
    let status = finish(&backfill);
    assert!(status.indexed.contains(&"t".to_owned()));
    assert!(status.done >= 3100, "{}", status.done);
    let all = ask(&store, topic);
    assert_eq!(
        (all.events.len(), all.completeness),
        (64, Completeness::Finish)
    );
    assert_eq!(count(&store, topic), CountStep::Done(64));
    assert_eq!(keys(&store, topic).unwrap(), 64);
    assert_eq!(differences(&options), (0, 0));

    backfill.drop_names(&["t"]).unwrap();
    finish(&backfill);
    backfill.set_pace(slow).unwrap();
    backfill.index(&["t"]).unwrap();
    backfill.cancel().unwrap();
    backfill.set_pace(WHOLE).unwrap();
    let status = finish(&backfill);
    assert!(!status.indexed.contains(&"t".to_owned()));
    assert_eq!(
        differences(&options).1,
        0,
        "what a cancelled one did is taken back"
    );
}

#[test]
fn a_longer_name_is_refused_until_it_is_switched_on() {
    let (url, schema) = shared();
    let options = Options {
        schema,
        ..Options::new(&url)
    };
    let store = PostgresStore::open(&options).unwrap();
    let titled = |number: u64| {
        let title = format!("title {}", number % 5);
        let event = draft(1, 1, number).tag(&["title", &title]);
        event.tag(&["client", "a 'quoted\\ one"]).build()
    };
    let titled: Vec<_> = (0..1500).map(titled).collect();
    put(&store, &titled[..1000]);
    let (title, client) = (
        r##"{"#title":["title 3"]}"##,
        r##"{"#client":["a 'quoted\\ one"]}"##,
    );
    assert!(!Blocking(&store).indexes("title"));

    let backfill = Backfill::open(&options).unwrap();
    backfill.set_pace(WHOLE).unwrap();
    backfill.index(&["title"]).unwrap();
    put(&store, &titled[1000..]);
    finish(&backfill);
    let all = ask(&store, title);
    assert_eq!(
        (all.events.len(), all.completeness),
        (300, Completeness::Finish)
    );
    assert_eq!(count(&store, title), CountStep::Done(300));

    // By configuration: whoever starts with it switches it on, once.
    assert!(!Blocking(&store).indexes("client"));
    let configured = Options {
        tag_names: ["title", "client"]
            .map(|name| name.parse().unwrap())
            .to_vec(),
        ..options.clone()
    };
    for _ in 0..2 {
        drop(PostgresStore::open(&configured).unwrap());
        finish(&backfill);
        assert_eq!(ask(&store, client).completeness, Completeness::Finish);
        assert_eq!(count(&store, client), CountStep::Done(1500));
    }
    Blocking(&store).remove(titled[3].id(), NOW);
    assert_eq!(count(&store, title), CountStep::Done(299));

    backfill.drop_names(&["title"]).unwrap();
    assert!(!Blocking(&store).indexes("title"), "at once");
    finish(&backfill);
    assert_eq!(count(&store, client), CountStep::Done(1499));
}

#[test]
fn names_that_can_not_be_are_refused() {
    let (url, schema) = shared();
    let options = Options {
        schema,
        ..Options::new(&url)
    };
    let backfill = Backfill::open(&options).unwrap();
    let refused = |result: Result<BackfillStatus, PostgresError>| {
        assert!(
            matches!(result, Err(PostgresError::Refused(_))),
            "{result:?}"
        );
    };
    refused(backfill.index(&[""]));
    refused(backfill.index(&["a\nb"]));
    refused(backfill.index(&["x".repeat(65)]));
    refused(backfill.drop_names(&["e", "p"]));
    for (share, rate) in [(0, None), (101, None), (50, Some(0))] {
        refused(backfill.set_pace(Pace { share, rate }));
    }
    let status = backfill.index(&["t", "Z"]).unwrap();
    assert_eq!(
        status.state,
        BackfillState::Idle,
        "they are indexed already"
    );
}

/// Returns a schema of its own, whose store leaves backfills to the test.
fn alone() -> Options {
    let (url, schema) = shared();
    Options {
        schema,
        backfill: false,
        ..Options::new(&url)
    }
}

#[test]
fn what_comes_behind_the_cursor_has_its_rows_once() {
    let options = alone();
    let store = PostgresStore::open(&options).unwrap();
    put(&store, &events(1000..3000));
    let backfill = Backfill::open(&options).unwrap();
    backfill.set_pace(WHOLE).unwrap();
    backfill.drop_names(&["t"]).unwrap();
    finish(&backfill);
    backfill.index(&["t"]).unwrap();
    // Older than all that is there: indexed as they come, and met by the backfill later.
    put(&store, &events(0..1000));
    finish(&backfill);
    assert_eq!(differences(&options), (0, 0));
}

#[test]
fn an_event_with_many_tags_has_a_batch_of_its_own() {
    let options = alone();
    let store = PostgresStore::open(&options).unwrap();
    let many = |number: u64| {
        let tags = (0..5000).map(|tag| format!("{number} {tag}"));
        tags.fold(draft(1, 1, number), |draft, value| {
            draft.tag(&["t", &value])
        })
        .build()
    };
    put(&store, &(1..=3).map(many).collect::<Vec<_>>());
    let backfill = Backfill::open(&options).unwrap();
    backfill.set_pace(WHOLE).unwrap();
    backfill.drop_names(&["t"]).unwrap();
    finish(&backfill);
    backfill.index(&["t"]).unwrap();
    let mut done = Vec::new();
    let ended = backfill.run(&AtomicBool::new(false), |status| done.push(status.done));
    assert!(ended.unwrap());
    done.dedup();
    assert_eq!(done, [0, 1, 2, 3]);
    assert_eq!(differences(&options), (0, 0));
}

#[test]
fn a_damaged_event_is_not_the_end_of_it() {
    let cluster = Cluster::start(&[]);
    let options = Options {
        backfill: false,
        ..Options::new(&cluster.url())
    };
    let store = PostgresStore::open(&options).unwrap();
    put(&store, &events(0..2500));
    let backfill = Backfill::open(&options).unwrap();
    backfill.set_pace(WHOLE).unwrap();
    backfill.drop_names(&["t"]).unwrap();
    finish(&backfill);
    cluster.sql("UPDATE hikyaku.events SET json = '{}' WHERE seq IN (3, 1200)");
    backfill.index(&["t"]).unwrap();
    assert_eq!(finish(&backfill).filling, Vec::<String>::new());
    assert_eq!(differences(&options), (0, 0));
}

#[test]
fn names_that_are_not_equally_far_are_each_filled_whole() {
    let cluster = Cluster::start(&[]);
    let options = Options {
        backfill: false,
        ..Options::new(&cluster.url())
    };
    let store = PostgresStore::open(&options).unwrap();
    put(&store, &events(0..2500));
    let backfill = Backfill::open(&options).unwrap();
    backfill.set_pace(WHOLE).unwrap();
    backfill.drop_names(&["t", "e"]).unwrap();
    finish(&backfill);
    backfill.index(&["e"]).unwrap();
    let stop = AtomicBool::new(false);
    let one_batch = |status: &BackfillStatus| stop.store(status.done > 0, Ordering::Relaxed);
    assert!(!backfill.run(&stop, one_batch).unwrap());
    // As two who switch names on at once could leave it.
    cluster.sql("INSERT INTO hikyaku.tag_names (name, filled) VALUES ('t', false)");
    finish(&backfill);
    assert_eq!(differences(&options), (0, 0));
    let e = ask(&store, r##"{"#e":["of another name"]}"##);
    assert_eq!(
        (e.events.len(), e.completeness),
        (2500, Completeness::Finish)
    );
}

#[test]
fn of_names_that_are_switched_on_at_once_none_is_filled_in_part() {
    let options = alone();
    let store = PostgresStore::open(&options).unwrap();
    let both = |number: u64| {
        let event = draft(1, 1, number).tag(&["one", "x"]);
        event.tag(&["two", "x"]).build()
    };
    put(&store, &(1..=100).map(both).collect::<Vec<_>>());
    let backfill = Backfill::open(&options).unwrap();
    backfill.set_pace(WHOLE).unwrap();
    for _ in 0..20 {
        let accepted = thread::scope(|scope| {
            let switch_on = |name: &'static str| {
                let options = options.clone();
                scope.spawn(move || Backfill::open(&options).unwrap().index(&[name]).is_ok())
            };
            let both = ["one", "two"].map(switch_on);
            both.map(|one| one.join().unwrap())
        });
        assert_eq!(accepted.iter().filter(|one| **one).count(), 1);
        finish(&backfill);
        let name = if accepted[0] { "one" } else { "two" };
        let filter = format!(r##"{{"#{name}":["x"]}}"##);
        assert_eq!(count(&store, &filter), CountStep::Done(100));
        backfill.drop_names(&[name]).unwrap();
        finish(&backfill);
    }
}

#[test]
fn a_configured_name_waits_for_its_turn_and_comes_back() {
    let (url, schema) = shared();
    let options = Options {
        schema,
        ..Options::new(&url)
    };
    let store = PostgresStore::open(&options).unwrap();
    let titled = |number| draft(1, 1, number).tag(&["title", "x"]).build();
    put(&store, &(1..=100).map(titled).collect::<Vec<_>>());
    drop(store);
    let backfill = Backfill::open(&options).unwrap();
    backfill.set_pace(WHOLE).unwrap();
    backfill.index(&["client"]).unwrap();
    backfill.pause(true).unwrap();
    let configured = Options {
        tag_names: vec!["title".parse().unwrap()],
        ..options
    };
    let store = PostgresStore::open(&configured).unwrap();
    assert!(
        !Blocking(&store).indexes("title"),
        "another one is under way"
    );
    backfill.pause(false).unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    let comes = || {
        while !backfill
            .status()
            .unwrap()
            .indexed
            .contains(&"title".to_owned())
        {
            assert!(Instant::now() < deadline, "{:?}", backfill.status());
        }
        let title = r##"{"#title":["x"]}"##;
        assert_eq!(count(&store, title), CountStep::Done(100));
    };
    comes();
    backfill.drop_names(&["title"]).unwrap();
    comes();
}

const PLACE: &str = "HIKYAKU_TEST_BACKFILL";

/// The process in the test below that is killed.
#[test]
#[ignore = "a process of its own, started by another test"]
fn the_process_that_is_killed() {
    let Ok(url) = env::var(PLACE) else { return };
    let backfill = Backfill::open(&Options::new(&url)).unwrap();
    while let Ok(false) = backfill.run(&AtomicBool::new(false), |_| {}) {}
}

fn process(url: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "backfill::the_process_that_is_killed",
            "--ignored",
        ])
        .env(PLACE, url)
        .spawn()
        .unwrap()
}

#[test]
fn no_kill_of_either_side_leaves_a_gap_or_a_double() {
    let mut cluster = Cluster::start(&[]);
    let options = Options {
        backfill: false,
        ..Options::new(&cluster.url())
    };
    let store = PostgresStore::open(&options).unwrap();
    let mut stored = events(0..8000);
    put(&store, &stored);
    let backfill = Backfill::open(&options).unwrap();
    backfill.set_pace(WHOLE).unwrap();
    backfill.drop_names(&["t"]).unwrap();
    finish(&backfill);
    backfill
        .set_pace(Pace {
            share: 40,
            rate: None,
        })
        .unwrap();
    backfill.index(&["t"]).unwrap();
    let mut rounds = 0;
    loop {
        let before = backfill.status().unwrap();
        if before.state == BackfillState::Idle {
            break;
        }
        let mut child = process(&options.url);
        // The store is used meanwhile: events come, go, are hidden and shown again, old and new.
        let mut turn = rounds * 100;
        loop {
            let status = backfill.status().unwrap();
            if status.state == BackfillState::Idle || status.done > before.done {
                break;
            }
            let number = 8000 + stored.len() as u64;
            stored.push(event(number));
            put(&store, &stored[stored.len() - 1..]);
            let pick = |step: usize| stored[(turn * step) % stored.len()].id();
            let asked = Blocking(&store);
            asked.remove(pick(37), NOW);
            asked.hide(pick(53), Hider(1), NOW);
            asked.unhide(pick(53 * 2), Hider(1), NOW);
            turn += 1;
        }
        if rounds % 3 == 1 {
            cluster.kill();
            child.kill().unwrap();
            cluster.restart();
        } else {
            child.kill().unwrap();
        }
        child.wait().unwrap();
        rounds += 1;
    }
    assert!(rounds >= 4, "it was killed {rounds} times on its way");
    assert_eq!(differences(&options), (0, 0));
    let answer = ask(&store, r##"{"#t":["topic 7"]}"##);
    assert_eq!(answer.completeness, Completeness::Finish);
}
