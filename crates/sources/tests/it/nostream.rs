//! nostream's database.

use std::{collections::BTreeSet, time::Duration};

use hikyaku_event::testing::{Author, EventBuilder};
use hikyaku_postgres::testing::Cluster;
use hikyaku_sources::{Rows, Source, SourceError, nostream::Nostream, testing::NostreamDatabase};

use crate::{Given, hard, ids, notes, read_all, read_some, refusal};

fn open(address: &str) -> Nostream {
    Nostream::connect(address, None, None).unwrap()
}

#[test]
fn nostreams_database_is_read_as_nostream_serves_it() {
    // Whatever does not stay in memory is in the log.
    let cluster = Cluster::start(&["work_mem = 64kB", "log_temp_files = 0"]);
    events_are_rebuilt_from_their_columns(&database(&cluster, "columns"));
    deleted_replaced_and_expiring_rows_are_told_apart(&database(&cluster, "states"));
    a_page_costs_what_is_in_it(&cluster);
    what_came_lately_is_read_alone(&database(&cluster, "lately"));
    pages_follow_each_other_without_gap_or_double(&database(&cluster, "pages"));
    a_lost_connection_is_no_end(&database(&cluster, "lost"));
    what_is_not_nostreams_is_refused(&cluster);
}

/// Makes a database, and returns its address.
fn database(cluster: &Cluster, name: &str) -> String {
    cluster.sql(&format!("CREATE DATABASE {name}"));
    let url = cluster.url();
    let (server, _) = url.rsplit_once('/').unwrap();
    format!("{server}/{name}")
}

fn events_are_rebuilt_from_their_columns(address: &str) {
    let relay = NostreamDatabase::create(address);
    let mut events = hard();
    events.push(
        EventBuilder::new(1)
            .created_at(1_600_000_100)
            .sign(&Author::new(3)),
    );
    relay.add(&events);
    let without_tags = events.last().unwrap().id();
    relay.run(&format!(
        "update events set event_tags = null where event_id = '\\x{without_tags}'"
    ));
    let mut source = open(address);
    assert_eq!(source.total(), None, "nobody has counted yet");
    let expected = Given {
        ids: ids(&events),
        ..Given::default()
    };
    assert_eq!(read_all(&mut source).unwrap(), expected);
    relay.run("analyze events");
    assert_eq!(open(address).total(), Some(6));
    // As in the time before deletions were kept.
    relay.run("alter table events drop column deleted_at");
    assert_eq!(read_all(&mut open(address)).unwrap(), expected);
}

fn deleted_replaced_and_expiring_rows_are_told_apart(address: &str) {
    let relay = NostreamDatabase::create(address);
    let alice = Author::new(1);
    let notes = notes(3);
    relay.add(&notes);
    relay.delete(&notes[1]);
    let profile = |at| EventBuilder::new(0).created_at(at).sign(&alice);
    let page = |at| {
        EventBuilder::new(30_023)
            .created_at(at)
            .tag(["d", "page"])
            .sign(&alice)
    };
    for at in [1_800_000_000, 1_800_000_002, 1_800_000_001] {
        relay.add_replacing(&profile(at));
        relay.add_replacing(&page(at));
    }
    let expiring = EventBuilder::new(1)
        .created_at(1_900_000_000)
        .tag(["expiration", "1900000001"])
        .sign(&alice);
    relay.add([&expiring]);
    let given = read_all(&mut open(address)).unwrap();
    let expected = ids([
        &notes[0],
        &notes[2],
        &profile(1_800_000_002),
        &page(1_800_000_002),
        &expiring,
    ]);
    assert_eq!(given.left_out, 1);
    assert_eq!(
        given.ids.iter().collect::<BTreeSet<_>>(),
        expected.iter().collect::<BTreeSet<_>>()
    );
}

fn what_came_lately_is_read_alone(address: &str) {
    let relay = NostreamDatabase::create(address);
    let alice = Author::new(1);
    let within = |seconds| {
        let within = Some(Duration::from_secs(seconds));
        let mut source = Nostream::connect(address, None, within).unwrap();
        assert_eq!(source.total(), None);
        read_all(&mut source).unwrap().ids
    };
    assert!(within(60).is_empty(), "there is nothing at all");
    let notes = notes(4);
    let profile = |at| EventBuilder::new(0).created_at(at).sign(&alice);
    relay.add(&notes[..2]);
    relay.add_replacing(&profile(1));
    relay.run("update events set first_seen = first_seen - interval '3 hours'");
    relay.add(&notes[2..3]);
    relay.run("update events set first_seen = first_seen - interval '1 hour'");
    // In the row of its older version, which was seen before.
    relay.add_replacing(&profile(2));
    relay.add(&notes[3..]);
    let sorted = |mut ids: Vec<_>| {
        ids.sort_unstable();
        ids
    };
    let lately = [&profile(2), &notes[3]];
    assert_eq!(sorted(within(60)), sorted(ids(lately)));
    let lately = [&profile(2), &notes[2], &notes[3]];
    assert_eq!(sorted(within(2 * 3600)), sorted(ids(lately)));
    assert_eq!(within(5 * 3600).len(), 5);
    relay.run("alter table events drop column first_seen");
    let refused = refusal(Nostream::connect(address, None, Some(Duration::ZERO)));
    assert!(refused.to_string().contains("read it whole"), "{refused}");
}

fn a_page_costs_what_is_in_it(cluster: &Cluster) {
    let address = database(cluster, "ordered");
    let relay = NostreamDatabase::create(&address);
    relay.run(
        "alter table events disable trigger all; \
         insert into events (event_id, event_pubkey, event_created_at, event_kind, event_tags, \
         event_content, event_signature) \
         select sha256(n::text::bytea), '\\x00', n, 1, '[]', n::text, '\\x00' \
         from generate_series(1, 25000) n",
    );
    relay.run("vacuum analyze events");
    let before = cluster.log().len();
    let mut source = open(&address);
    let mut lines = 0;
    loop {
        let mut rows = Rows::default();
        source.read(&mut rows).unwrap();
        match rows.lines().count() {
            0 => break,
            more => lines += more,
        }
    }
    assert_eq!(lines, 25_000);
    let log = cluster.log();
    assert!(
        !log[before..].contains("temporary file"),
        "it sorts what is left of the table: {log}"
    );
}

fn pages_follow_each_other_without_gap_or_double(address: &str) {
    let relay = NostreamDatabase::create(address);
    // Two and a half pages, thousands of rows with each time.
    relay.run(
        "alter table events disable trigger all; \
         insert into events (event_id, event_pubkey, event_created_at, event_kind, event_tags, \
         event_content, event_signature) \
         select sha256(n::text::bytea), '\\x00', n % 7, 1, '[]', n::text, '\\x00' \
         from generate_series(1, 25000) n",
    );
    let mut source = open(address);
    let mut seen = BTreeSet::new();
    let mut lines = 0;
    loop {
        let mut rows = Rows::default();
        source.read(&mut rows).unwrap();
        let before = lines;
        for line in rows.lines() {
            lines += 1;
            assert!(seen.insert(line.to_vec()), "it comes twice");
        }
        if lines == before {
            break;
        }
    }
    assert_eq!(lines, 25_000);
    relay.add(&notes(1));
    assert!(
        read_some(&mut source, &mut Given::default()).unwrap(),
        "what is later comes too"
    );
}

fn a_lost_connection_is_no_end(address: &str) {
    let relay = NostreamDatabase::create(address);
    relay.add(&notes(3));
    let mut source = open(address);
    relay.run(
        "select pg_terminate_backend(pid) from pg_stat_activity \
         where application_name = 'hikyaku import'",
    );
    let error = read_all(&mut source).unwrap_err();
    assert!(
        matches!(&error, SourceError::Lost(text) if text.contains("lost at 127.0.0.1")),
        "{error}"
    );
}

fn what_is_not_nostreams_is_refused(cluster: &Cluster) {
    let connect = |address: &str| refusal(Nostream::connect(address, Some("secret"), None));
    let empty = database(cluster, "empty");
    assert!(matches!(connect(&empty), SourceError::Foreign(text) if text.contains("no table")));
    let absent = empty.replace("empty", "absent");
    assert!(matches!(connect(&absent), SourceError::Unreachable(text) if text.contains("DB_NAME")));
    let other = database(cluster, "other");
    NostreamDatabase::create(&other).run("alter table events drop column event_tags cascade");
    assert!(
        matches!(connect(&other), SourceError::Foreign(text) if text.contains("event_tags is missing"))
    );
    let nobody = "postgres://nobody:secret@127.0.0.1:1/nostr_ts_relay?connect_timeout=5";
    let refused = connect(nobody);
    assert!(
        matches!(&refused, SourceError::Unreachable(text) if text.contains("is the server up"))
    );
    assert!(!refused.to_string().contains("secret"));
    assert!(
        matches!(connect("nonsense"), SourceError::Unreachable(text) if text.contains("is not one"))
    );
}
