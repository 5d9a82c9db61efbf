//! `doctor`: what is wrong is found, and what is well is not called wrong.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use hikyaku_postgres::testing::Cluster;
use serde_json::Value;

use crate::program::{Place, Relay, ended, lines, notes};

/// Runs the doctor with these variables; returns its exit code and report.
fn examine(place: &Place, variables: &[(&str, &str)]) -> (Option<i32>, Value) {
    let mut command = place.command(&["doctor", "--json"]);
    command.envs(variables.iter().copied());
    let ended = ended(command);
    let report = serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:?}"));
    (ended.code, report)
}

/// Returns the first finding of a check.
fn finding<'a>(report: &'a Value, check: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("no {check} in {report:#}"))
}

fn level<'a>(report: &'a Value, check: &str) -> &'a str {
    finding(report, check)["level"].as_str().unwrap()
}

/// Opens a WebSocket as a proxy does that speaks for a client.
fn forwarded(address: &str, client: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET / HTTP/1.1\r\nhost: {address}\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         x-forwarded-for: {client}\r\n\r\n"
    )
    .unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 101");
    stream
}

#[test]
fn a_proxy_that_is_not_trusted_is_named() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let (_, report) = examine(&place, &[]);
    assert_eq!(level(&report, "server"), "ok");
    assert_eq!(level(&report, "proxy"), "ok");
    for check in ["durability", "store", "merges", "connections", "limits"] {
        assert_eq!(level(&report, check), "ok", "{report:#}");
    }
    let sync = finding(&report, "sync")["seen"].as_str().unwrap();
    assert!(sync.contains("write and sync takes"), "{sync}");
    let clients: Vec<_> = (0..25)
        .map(|client| forwarded(&relay.address, &format!("192.0.2.{client}")))
        .collect();
    let (code, report) = examine(&place, &[]);
    assert_eq!((code, level(&report, "proxy")), (Some(1), "bad"));
    let advice = finding(&report, "proxy")["advice"].as_str().unwrap();
    assert!(
        advice.contains("trusted_proxies = [\"127.0.0.1\"]"),
        "{advice}"
    );
    assert_eq!(report["worst"], "bad");
    drop(clients);
    relay.stop();

    // Once it is trusted, its clients are told apart.
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("HIKYAKU_TRUSTED_PROXIES", "127.0.0.1");
    command.env("HIKYAKU_TIMEOUTS_CLOSE_SECONDS", "1");
    let relay = Relay::spawn(command);
    let clients: Vec<_> = (0..25)
        .map(|client| forwarded(&relay.address, &format!("192.0.2.{client}")))
        .collect();
    let (_, report) = examine(&place, &[]);
    assert_eq!(level(&report, "proxy"), "ok", "{report:#}");
    drop(clients);
    relay.stop();
}

#[test]
fn the_public_address_is_asked_as_a_client_asks() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let url = format!("ws://{}", relay.address);
    let (_, report) = examine(&place, &[("HIKYAKU_PUBLIC_URL", &url)]);
    assert_eq!(level(&report, "public address"), "ok", "{report:#}");
    let wrong = format!("{url}/elsewhere");
    let (code, report) = examine(&place, &[("HIKYAKU_PUBLIC_URL", &wrong)]);
    assert_eq!((code, level(&report, "public address")), (Some(1), "bad"));
    let seen = finding(&report, "public address")["seen"].to_string();
    assert!(seen.contains("404"), "{seen}");
    relay.stop();
    let (_, report) = examine(&place, &[("HIKYAKU_PUBLIC_URL", &url)]);
    assert_eq!(level(&report, "public address"), "bad");
    let (_, report) = examine(&place, &[]);
    assert_eq!(level(&report, "public address"), "warn");
}

#[test]
fn a_stopped_relay_is_examined_too() {
    let place = Place::new();
    let (_, report) = examine(&place, &[]);
    assert_eq!(finding(&report, "store")["seen"], "there is none yet");
    assert!(!place.data().exists(), "it changes nothing");
    place.import(&notes(3));
    let interval = [("HIKYAKU_STORE_DURABILITY", "interval")];
    let (_, report) = examine(&place, &interval);
    let server = finding(&report, "server")["seen"].as_str().unwrap();
    assert!(server.starts_with("not running"), "{server}");
    let store = finding(&report, "store")["seen"].as_str().unwrap();
    assert!(store.starts_with("3 events"), "{store}");
    // They are in the log file that is open.
    assert!(!store.contains(" 0 bytes"), "{store}");
    assert_eq!(level(&report, "durability"), "warn");
    let text = place.run(&["doctor"]).out;
    assert!(text.contains("checks,"), "{text}");
    let files = std::fs::read_dir(place.data()).unwrap();
    let left = files.filter(|file| {
        let name = file.as_ref().unwrap().file_name();
        name.to_string_lossy().contains("doctor")
    });
    assert_eq!(left.count(), 0);
    // What can't be written to is no place for a store; root may write everywhere.
    if !rustix::process::geteuid().is_root() {
        std::fs::set_permissions(place.data(), PermissionsExt::from_mode(0o500)).unwrap();
        let (code, report) = examine(&place, &[]);
        assert_eq!((code, level(&report, "sync")), (Some(1), "bad"));
        std::fs::set_permissions(place.data(), PermissionsExt::from_mode(0o700)).unwrap();
    }
}

#[test]
fn a_folder_of_a_table_server_is_not_examined_as_a_relay_s() {
    let place = Place::new();
    let mut server = place
        .command(&[
            "tables",
            "serve",
            "--folder",
            place.data().to_str().unwrap(),
            "--listen",
            "127.0.0.1:0",
            "--open",
            "all=*",
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let ready = lines.find(|line| line.as_ref().unwrap().contains("tables are ready"));
    assert!(ready.is_some());
    thread::spawn(move || lines.for_each(drop));
    let (_, report) = examine(&place, &[]);
    server.kill().unwrap();
    server.wait().unwrap();
    let seen = finding(&report, "server")["seen"].as_str().unwrap();
    assert!(seen.starts_with("a table server is running"), "{seen}");
    let checks: Vec<_> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["check"])
        .collect();
    assert_eq!(checks, ["server", "disk space", "sync", "clock", "memory"]);
}

#[test]
fn a_replica_that_is_none_or_away_is_found() {
    let cluster = Cluster::start(&["wal_level = replica"]);
    let mut replica = cluster.replica(&[]);
    let (url, read) = (cluster.url(), replica.url());
    let place = Place::new();
    let import = place.run_with(&["import", "--store", &url, "--json"], &lines(&notes(10)));
    assert_eq!(import.json()["stored"], 10);
    let look = |read: &str| {
        let (_, report) = examine(
            &place,
            &[
                ("HIKYAKU_STORE_URL", &url),
                ("HIKYAKU_STORE_READ_URL", read),
            ],
        );
        let found = finding(&report, "replica");
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        (text("level"), text("seen"))
    };
    let (level, seen) = look(&read);
    assert_eq!(level, "ok", "{seen}");
    let (level, seen) = look(&url);
    assert_eq!(level, "warn", "{seen}");
    assert!(seen.contains("follows no other server"), "{seen}");
    let other = Cluster::start(&[]);
    let (level, seen) = look(&other.url());
    assert_eq!(level, "bad", "{seen}");
    // One that has carried out all it was sent, and is sent nothing any more.
    replica.sql("ALTER SYSTEM SET primary_conninfo = 'host=127.0.0.1 port=1'");
    replica.sql("SELECT pg_reload_conf()");
    let deadline = Instant::now() + Duration::from_mins(1);
    while replica.sql("SELECT count(*) FROM pg_stat_wal_receiver") != "0" {
        assert!(Instant::now() < deadline, "the replica still receives");
    }
    place.run_with(&["import", "--store", &url, "--json"], &lines(&notes(20)));
    let (level, seen) = look(&read);
    assert_eq!(level, "warn", "{seen}");
    assert!(seen.contains("receives nothing"), "{seen}");
    replica.kill();
    let (level, seen) = look(&read);
    assert_eq!(level, "warn", "{seen}");
    assert!(seen.contains("can't be asked"), "{seen}");
}

#[test]
fn a_dropped_index_and_stale_statistics_are_found() {
    let cluster = Cluster::start(&["autovacuum = off"]);
    let url = cluster.url();
    let place = Place::new();
    let database = [("HIKYAKU_STORE_URL", url.as_str())];
    let (_, report) = examine(&place, &database);
    let indexes = finding(&report, "indexes")["seen"].as_str().unwrap();
    assert!(indexes.contains("no schema"), "{indexes}");
    let none = cluster.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'hikyaku'");
    assert_eq!(none, "0", "it changes nothing");

    let import = place.run_with(&["import", "--store", &url, "--json"], &lines(&notes(2000)));
    assert_eq!(import.json()["stored"], 2000);
    cluster.sql("ANALYZE");
    let (_, report) = examine(&place, &database);
    for check in [
        "database",
        "database clock",
        "database connections",
        "indexes",
        "statistics",
    ] {
        assert_eq!(level(&report, check), "ok", "{report:#}");
    }
    // This cluster never syncs, nor does it clean up.
    assert_eq!(level(&report, "durability"), "bad");
    assert_eq!(level(&report, "autovacuum"), "bad");

    cluster.sql("DROP INDEX hikyaku.events_kind");
    cluster.sql("UPDATE hikyaku.events SET vanish = vanish");
    let (code, report) = examine(&place, &database);
    assert_eq!(code, Some(1));
    assert_eq!(finding(&report, "indexes")["seen"], "missing: events_kind");
    assert_eq!(level(&report, "indexes"), "bad");
    assert_eq!(level(&report, "statistics"), "warn", "{report:#}");
    let advice = finding(&report, "statistics")["advice"].as_str().unwrap();
    assert!(advice.contains("ANALYZE events"), "{advice}");

    cluster.sql("ANALYZE hikyaku.events");
    let schema = place.run(&["postgres", "schema"]).ok();
    let start = schema.find("CREATE INDEX events_kind").unwrap();
    let statement = schema[start..].split(';').next().unwrap();
    cluster.sql(statement);
    let (_, report) = examine(&place, &database);
    assert_eq!(level(&report, "indexes"), "ok");
    assert_eq!(level(&report, "statistics"), "ok");

    let many = [
        database[0],
        ("HIKYAKU_STORE_CONNECTIONS_PER_WORKER", "64"),
        ("HIKYAKU_WORKERS", "64"),
    ];
    let (_, report) = examine(&place, &many);
    assert_eq!(level(&report, "database connections"), "bad");
    let nowhere = [("HIKYAKU_STORE_URL", "postgres://nobody@127.0.0.1:1/none")];
    let (code, report) = examine(&place, &nowhere);
    assert_eq!((code, level(&report, "database")), (Some(1), "bad"));
}

#[test]
fn a_server_that_is_neglected_is_found() {
    let cluster = Cluster::start(&[
        "shared_buffers = 1MB",
        // On, and never there.
        "autovacuum_naptime = 1000000",
        "shared_preload_libraries = 'pg_stat_statements'",
    ]);
    let url = cluster.url();
    let place = Place::new();
    let database = [("HIKYAKU_STORE_URL", url.as_str())];
    let import = place.run_with(&["import", "--store", &url, "--json"], &lines(&notes(2000)));
    assert_eq!(import.json()["stored"], 2000);
    let (_, report) = examine(&place, &database);
    assert_eq!(level(&report, "shared_buffers"), "warn", "{report:#}");
    assert_eq!(level(&report, "autovacuum"), "ok", "{report:#}");
    let slow = finding(&report, "slow statements")["seen"]
        .as_str()
        .unwrap();
    assert!(slow.contains("not installed"), "{slow}");

    cluster.sql("UPDATE hikyaku.events SET vanish = vanish");
    cluster.sql("CREATE EXTENSION pg_stat_statements");
    for _ in 0..5 {
        cluster.sql("SELECT pg_sleep(0.03)");
    }
    let (_, report) = examine(&place, &database);
    // How bad depends on whether the server has counted the imported rows once or twice.
    assert_ne!(level(&report, "autovacuum"), "ok", "{report:#}");
    let seen = finding(&report, "autovacuum")["seen"].as_str().unwrap();
    assert!(seen.starts_with("events has 2,000 dead rows"), "{seen}");
    assert_eq!(level(&report, "slow statements"), "warn", "{report:#}");
    let slow = finding(&report, "slow statements")["seen"]
        .as_str()
        .unwrap();
    assert!(slow.contains("ms at most"), "{slow}");

    cluster.sql("VACUUM hikyaku.events");
    cluster.sql("SELECT pg_stat_statements_reset()");
    let (_, report) = examine(&place, &database);
    assert_eq!(level(&report, "autovacuum"), "ok", "{report:#}");
    assert_eq!(level(&report, "slow statements"), "ok", "{report:#}");
}
