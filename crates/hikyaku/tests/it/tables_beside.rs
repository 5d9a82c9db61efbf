//! Tables that the relay serves on an address of their own.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

use hikyaku_postgres::testing::free_port;

use crate::{
    program::{Place, Relay},
    websocket::Client,
};

/// Returns a place where two tables are to be served, and the port.
fn two_tables() -> (Place, u16) {
    let (place, port) = (Place::new(), free_port());
    place.write(
        "hikyaku.toml",
        format!(
            "[tables]\nopen = [\"seen=seen.fixed?width=16\", \"names=names.hash\"]\n\
             listen = \"127.0.0.1:{port}\"\n"
        ),
    );
    (place, port)
}

/// Sends one command of memcached's text protocol; returns the first line of the answer.
fn ask(stream: &mut BufReader<TcpStream>, command: &str) -> String {
    stream.get_mut().write_all(command.as_bytes()).unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    line
}

#[test]
fn the_relay_serves_tables_beside_itself_and_keeps_them() {
    let (place, port) = two_tables();
    let connect = || BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
    let relay = Relay::start(&place);
    Client::connect(&relay.address);
    let mut stream = connect();
    assert_eq!(ask(&mut stream, "set 7 0 0 5\r\nhello\r\n"), "STORED\r\n");
    assert_eq!(ask(&mut stream, "set names:a 0 0 1\r\nb\r\n"), "STORED\r\n");
    relay.stop();
    let relay = Relay::start(&place);
    let mut stream = connect();
    assert_eq!(ask(&mut stream, "get 7\r\n"), "VALUE 7 0 5\r\n");
    let mut stream = connect();
    assert_eq!(ask(&mut stream, "get names:a\r\n"), "VALUE names:a 0 1\r\n");
    relay.stop();
}

#[test]
fn what_their_clients_ask_is_told_with_the_requests_of_the_relay() {
    let (place, port) = two_tables();
    let relay = Relay::start(&place);
    Client::connect(&relay.address);
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
    let sent = "set 7 0 0 5 noreply\r\nhello\r\nset 8 0 0 5 noreply\r\nhello\r\nget 7 8\r\n";
    assert_eq!(ask(&mut stream, sent), "VALUE 7 0 5\r\n");
    for _ in 0..4 {
        stream.read_line(&mut String::new()).unwrap();
    }
    assert_eq!(ask(&mut stream, "set names:a 0 0 1\r\nb\r\n"), "STORED\r\n");
    assert_eq!(ask(&mut stream, "ms names:a 1 MQ\r\nc\r\n"), "HD\r\n");
    assert_eq!(ask(&mut stream, "whatever\r\n"), "ERROR\r\n");
    // What was answered before is taken down when this is.
    assert!(ask(&mut stream, "version\r\n").starts_with("VERSION"));
    let report = place.run(&["slow", "--json"]).json();
    let shape = |name: &str| {
        let mut shapes = report["shapes"].as_array().unwrap().iter();
        let found = shapes.find(|shape| shape["shape"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {report:#}"))
    };
    let set = shape("TABLE seen set");
    assert_eq!((&set["calls"], &set["bytes"]), (&2.into(), &56.into()));
    assert_eq!(set["example"], "set 7 0 0 5 noreply (and 1 more at once)");
    assert!(set["p50_us"].as_f64() > Some(0.0), "{set:#}");
    assert_eq!(shape("TABLE seen get")["calls"], 1);
    for name in ["TABLE names set", "TABLE names rotate"] {
        let waited = shape(name);
        assert_eq!(waited["calls"], 1, "{name}");
        assert!(
            waited["phases"]["write_us"].as_f64() > Some(0.0),
            "{waited:#}"
        );
    }
    assert_eq!(shape("TABLE names set")["example"], "set names:a 0 0 1");
    assert_eq!(shape("TABLE (refused)")["calls"], 1);
    assert_eq!(shape("GET / (WebSocket)")["calls"], 1);
    assert!(!report.to_string().contains("hello"));
    relay.stop();
}

#[test]
fn tables_on_a_public_address_need_a_token() {
    let place = Place::new();
    place.write(
        "hikyaku.toml",
        "[tables]\nopen = [\"seen=seen.fixed?width=16\"]\nlisten = \"0.0.0.0:0\"\n",
    );
    let said = place.run(&["serve", "--listen", "127.0.0.1:0"]).failed(1);
    assert!(said.contains("token"), "{said}");
}

#[test]
fn a_table_that_is_none_is_refused_with_its_line() {
    let place = Place::new();
    place.write("hikyaku.toml", "[tables]\nopen = [\"seen.fixed\"]\n");
    let said = place.run(&["serve"]).failed(2);
    assert!(said.contains("NAME=TABLE") && said.contains(":2"), "{said}");
}

#[test]
fn tables_beside_the_relay_are_copied_followed_and_limited_as_those_alone() {
    let (source, source_port) = two_tables();
    let (follower, port) = (Place::new(), free_port());
    follower.write(
        "hikyaku.toml",
        format!(
            "[tables]\nopen = [\"seen=seen.fixed?width=16\", \"names=names.hash\"]\n\
             listen = \"127.0.0.1:{port}\"\nserver_id = 2\nvalue_bytes_max = 10\n\
             follow = \"127.0.0.1:{source_port}\"\ncopies = \"kept\"\n"
        ),
    );
    std::fs::create_dir(follower.path().join("kept")).unwrap();
    let relays = [Relay::start(&source), Relay::start(&follower)];
    let connect = |port| BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
    let mut stream = connect(source_port);
    assert_eq!(ask(&mut stream, "set 7 0 0 5\r\nhello\r\n"), "STORED\r\n");
    let mut asker = connect(port);
    while ask(&mut asker, "mg 7 s\r\n") != "HD s5\r\n" {
        std::thread::yield_now();
    }
    let refused = ask(&mut asker, "set names:a 0 0 11\r\n01234567890\r\n");
    assert!(
        refused.starts_with("SERVER_ERROR object too large"),
        "{refused}"
    );
    let mut binary = TcpStream::connect(("127.0.0.1", port)).unwrap();
    binary.write_all(b"\xc8\x73\0\0\0\x01c").unwrap();
    let mut done = [9];
    std::io::Read::read_exact(&mut binary, &mut done).unwrap();
    assert_eq!(done, [0]);
    assert!(follower.path().join("kept/c").exists());
    let folder = source.data().join("tables");
    let copy = [
        "tables",
        "copy",
        "--folder",
        folder.to_str().unwrap(),
        "copied",
    ];
    let said = source.run(&copy).ok();
    assert!(said.contains("up to position"), "{said}");
    for relay in relays {
        relay.stop();
    }
}

#[test]
fn a_key_of_the_tables_that_is_wrong_is_refused() {
    for (key, told) in [
        ("log_file_bytes = 5", "65536"),
        ("follow = \"nowhere\"", "HOST:PORT"),
        ("follow = \"127.0.0.1:1\"\nlog = \"none\"", "update log"),
    ] {
        let place = Place::new();
        let table = "[tables]\nopen = [\"seen=seen.fixed?width=16\"]\n";
        place.write("hikyaku.toml", format!("{table}{key}\n"));
        let said = place.run(&["serve", "--listen", "127.0.0.1:0"]).failed(2);
        assert!(said.contains(told), "{key}: {said}");
    }
}
