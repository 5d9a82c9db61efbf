//! What the server does for an answer: which indexes it reads, and how much of them. The plans are those
//! of the statements as the store sends them, logged by `auto_explain`; buffers are pages of 8 kB touched.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hikyaku_event::{
    Event, Filter, Kind, PublicKey, TagCondition, TagName,
    testing::{Author, EventBuilder},
};
use hikyaku_postgres::{Options, PostgresStore, testing::Cluster};
use hikyaku_store::{
    EventStore, LimitPolicy, Query, Reader, Write,
    testing::{Blocking, block_on},
};
use serde_json::Value;

const NOW: u64 = 2_000_000;
/// Events of the small store; the large one has ten times as many.
const SMALL: u64 = 2_500;
const AUTHORS: u64 = 60;
/// Who wrote but a few events, long ago.
const RARE: u64 = 1_000;
/// Of which there are but a few events, likewise.
const RARE_KIND: u16 = 30;

struct Loaded {
    cluster: Cluster,
    small: PostgresStore,
    large: PostgresStore,
}

/// Two stores, vacuumed.
fn loaded() -> &'static Loaded {
    static LOADED: OnceLock<Loaded> = OnceLock::new();
    LOADED.get_or_init(|| {
        let cluster = Cluster::start(&[
            "shared_buffers = 256MB",
            "session_preload_libraries = 'auto_explain'",
            "auto_explain.log_min_duration = 0",
            "auto_explain.log_analyze = on",
            "auto_explain.log_buffers = on",
            "auto_explain.log_format = json",
            "autovacuum = off",
        ]);
        let open = |schema: &str, events| {
            let options = Options {
                schema: schema.to_owned(),
                ..Options::new(&cluster.url())
            };
            let store = PostgresStore::open(&options).unwrap();
            fill(&store, events);
            for table in ["events", "event_tags"] {
                cluster.sql(&format!("VACUUM ANALYZE {schema}.{table}"));
            }
            store
        };
        let (small, large) = (open("small", SMALL), open("large", SMALL * 10));
        Loaded {
            cluster,
            small,
            large,
        }
    })
}

fn fill(store: &PostgresStore, count: u64) {
    let authors: Vec<_> = (0..AUTHORS).map(Author::new).collect();
    let write = |event| Write::Event {
        event: Arc::new(event),
        vanish: false,
    };
    let mut writes: Vec<Write> = old().map(write).collect();
    for n in 0..count {
        writes.push(write(event(n, count, &authors)));
    }
    for batch in writes.chunks(1_000) {
        block_on(store.write(batch.to_vec(), NOW)).unwrap();
    }
}

/// A few events that are the same in both stores, older than all others.
fn old() -> impl Iterator<Item = Event> {
    let note = |n: u64, kind: u16, author: u64| {
        let event = EventBuilder::new(kind).created_at(n).tag(["t", "popular"]);
        event.content(&n.to_string()).sign(&Author::new(author))
    };
    let rare_author = (0..5).map(move |n| note(n, 1, RARE));
    rare_author.chain((5..10).map(move |n| note(n, RARE_KIND, n)))
}

fn event(n: u64, count: u64, authors: &[Author]) -> Event {
    let mut event = EventBuilder::new([1, 1, 1, 7, 6][(n % 5) as usize])
        // The newest are of the same times in both stores.
        .created_at(NOW - (count - n))
        .content(&n.to_string());
    if n % 5 < 2 {
        event = event.tag(["t", "popular"]);
    }
    // Two tags of a tenth each, never on the same event.
    if n % 10 == 3 {
        event = event.tag(["t", "odd"]);
    }
    if n % 10 == 4 {
        event = event.tag(["l", "even"]);
    }
    event = event.tag(["e", &format!("{:064x}", n % (count / 10))]);
    event = event.tag(["p", &authors[(n * 7 % AUTHORS) as usize].pubkey().to_hex()]);
    event.sign(&authors[(n * n % AUTHORS) as usize])
}

/// Who may ask: the log is one for all tests.
static TURN: Mutex<()> = Mutex::new(());

/// What a question cost.
struct Cost {
    buffers: u64,
    answers: usize,
}

/// Asks, and reads what the server did for it. No plan may scan a table or an index, or sort.
fn ask(loaded: &Loaded, store: &PostgresStore, filters: &[Filter], cap: u32) -> Cost {
    let query = Query {
        filters: filters.to_vec(),
        reader: Reader::anonymous(),
        limits: LimitPolicy {
            default: cap,
            max: cap,
        },
        now: NOW,
    };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // Once, so that the connection has its statements and the server's caches are filled.
    Blocking(store).query(query.clone());
    let before = loaded.cluster.log().len();
    let answers = Blocking(store).query(query).events.len();
    let log = loaded.cluster.log();
    let plans = plans(&log[before..]);
    assert!(!plans.is_empty(), "nothing was logged");
    let mut buffers = 0;
    for plan in &plans {
        assert_no_scan(&plan["Plan"], &plan["Query Text"]);
        let number = |name: &str| plan["Plan"][name].as_u64().unwrap();
        buffers += number("Shared Hit Blocks") + number("Shared Read Blocks");
    }
    Cost { buffers, answers }
}

fn plans(log: &str) -> Vec<Value> {
    let mut plans = Vec::new();
    for text in log.split("plan:\n").skip(1) {
        let json: String = text
            .lines()
            .take_while(|line| line.starts_with('\t'))
            .map(|line| line.trim_start_matches('\t').to_owned() + "\n")
            .collect();
        let plan: Value =
            serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
        if plan["Query Text"].as_str().unwrap().contains("event") {
            plans.push(plan);
        }
    }
    plans
}

fn assert_no_scan(plan: &Value, sql: &Value) {
    let node = plan["Node Type"].as_str().unwrap();
    let is_scan = ["Seq Scan", "Bitmap Heap Scan", "Sort", "Incremental Sort"].contains(&node);
    // An index without a condition is walked from one end to the other.
    let walks_index = node.starts_with("Index") && plan["Index Cond"].is_null();
    assert!(!is_scan && !walks_index, "{sql}: {plan:#}");
    for child in plan["Plans"].as_array().into_iter().flatten() {
        assert_no_scan(child, sql);
    }
}

fn key(author: u64) -> PublicKey {
    Author::new(author).pubkey()
}

fn follows() -> Vec<PublicKey> {
    (0..AUTHORS / 2).map(key).collect()
}

fn tagged<'a>(letter: u8, values: impl IntoIterator<Item = &'a str>) -> Filter {
    Filter {
        tags: vec![TagCondition {
            name: TagName::of_letter(letter),
            values: values.into_iter().map(str::to_owned).collect(),
        }],
        ..Filter::default()
    }
}

fn hex(n: u64) -> String {
    format!("{n:064x}")
}

/// Shapes whose answer is the same size in both stores, with the streams that each must look into.
fn shapes() -> Vec<(&'static str, Vec<Filter>, u64)> {
    let kinds = |kinds: &[u16]| Some(kinds.iter().map(|kind| Kind(*kind)).collect());
    let limit = |filter: Filter| Filter {
        limit: Some(50),
        ..filter.sorted()
    };
    let many: Vec<_> = (0..76).map(hex).collect();
    let people: Vec<_> = (0..AUTHORS).map(|n| key(n).to_hex()).collect();
    let story = |kind| Filter {
        kinds: kinds(&[kind]),
        ..tagged(b'e', many.iter().map(String::as_str))
    };
    let all = Filter::default;
    let authors = |authors: Vec<PublicKey>| Filter {
        authors: Some(authors),
        ..all()
    };
    let until = NOW - 1_000;
    vec![
        ("newest", vec![limit(all())], 1),
        (
            "window",
            vec![limit(Filter {
                until: Some(until),
                since: Some(until - 200),
                ..all()
            })],
            1,
        ),
        (
            "kind",
            vec![limit(Filter {
                kinds: kinds(&[7]),
                ..all()
            })],
            1,
        ),
        (
            "kinds",
            vec![limit(Filter {
                kinds: kinds(&[1, 6, 7]),
                ..all()
            })],
            3,
        ),
        ("author", vec![limit(authors(vec![key(1)]))], 1),
        (
            "follows",
            vec![limit(Filter {
                kinds: kinds(&[1]),
                ..authors(follows())
            })],
            30,
        ),
        ("follows of all kinds", vec![limit(authors(follows()))], 30),
        ("hashtag", vec![limit(tagged(b't', ["popular"]))], 1),
        (
            "notifications",
            vec![limit(Filter {
                kinds: kinds(&[1, 6, 7]),
                ..tagged(b'p', [people[1].as_str()])
            })],
            1,
        ),
        (
            "many tags",
            vec![limit(tagged(b'p', people.iter().map(String::as_str)))],
            60,
        ),
        ("the story", vec![limit(story(1)), limit(story(7))], 152),
        (
            "hashtag within follows",
            vec![limit(Filter {
                authors: Some(follows()),
                ..tagged(b't', ["popular"])
            })],
            31,
        ),
        (
            "rare author, popular tag",
            vec![limit(Filter {
                authors: Some(vec![key(RARE)]),
                ..tagged(b't', ["popular"])
            })],
            2,
        ),
        (
            "rare kind, popular tag",
            vec![limit(Filter {
                kinds: kinds(&[RARE_KIND]),
                ..tagged(b't', ["popular"])
            })],
            2,
        ),
        (
            "nobody's kind, popular tag",
            vec![limit(Filter {
                kinds: kinds(&[22_222]),
                ..tagged(b't', ["popular"])
            })],
            2,
        ),
        (
            "rare author, kind and popular tag",
            vec![limit(Filter {
                authors: Some(vec![key(RARE)]),
                kinds: kinds(&[1]),
                ..tagged(b't', ["popular"])
            })],
            2,
        ),
        (
            "popular tag in a window",
            vec![limit(Filter {
                until: Some(until),
                since: Some(until - 200),
                ..tagged(b't', ["popular"])
            })],
            1,
        ),
        (
            "ids",
            vec![limit(Filter {
                ids: Some(old().map(|event| event.id()).collect()),
                ..all()
            })],
            10,
        ),
        (
            "nobody's tag",
            vec![limit(tagged(b't', ["no such tag"]))],
            1,
        ),
    ]
}

#[test]
fn the_cost_of_an_answer_does_not_grow_with_the_store() {
    let loaded = loaded();
    for (name, filters, streams) in shapes() {
        let small = ask(loaded, &loaded.small, &filters, 500);
        let large = ask(loaded, &loaded.large, &filters, 500);
        println!(
            "{name}: {} events for {} buffers, {} for {}",
            small.answers, small.buffers, large.answers, large.buffers
        );
        assert!(large.answers >= small.answers, "{name}");
        // A way down each stream's tree, some entries of each, and the events themselves.
        let most = 24 * streams + 10 * (large.answers as u64 + 5);
        assert!(
            large.buffers <= most,
            "{name}: {} of {most} buffers",
            large.buffers
        );
        let grown = 2 * small.buffers + 40;
        assert!(
            large.buffers <= grown || small.answers < large.answers,
            "{name}: {} buffers, {} in a tenth of the store",
            large.buffers,
            small.buffers
        );
    }
}

#[test]
fn a_conjunction_costs_at_most_its_rarest_field_in_the_window() {
    let loaded = loaded();
    // Both tags are on a tenth of all events, and never on one: everything in the window is looked at.
    let both = Filter {
        tags: vec![
            TagCondition {
                name: TagName::of_letter(b'l'),
                values: vec!["even".to_owned()],
            },
            TagCondition {
                name: TagName::of_letter(b't'),
                values: vec!["odd".to_owned()],
            },
        ],
        limit: Some(50),
        ..Filter::default()
    };
    for (store, events) in [(&loaded.small, SMALL), (&loaded.large, SMALL * 10)] {
        let cost = ask(loaded, store, std::slice::from_ref(&both), 500);
        assert_eq!(cost.answers, 0);
        let matches = events / 10;
        println!(
            "{matches} matches of the rarest for {} buffers",
            cost.buffers
        );
        assert!(
            cost.buffers <= 6 * matches + 100,
            "{} buffers",
            cost.buffers
        );
    }
    // In a window of the same size, the same in both.
    let window = Filter {
        since: Some(NOW - 500),
        ..both
    };
    let costs = [&loaded.small, &loaded.large]
        .map(|store| ask(loaded, store, std::slice::from_ref(&window), 500).buffers);
    println!("in a window of 50 matches: {costs:?} buffers");
    assert!(costs[1] <= 2 * costs[0] + 40, "{costs:?}");
}
