//! `hikyaku tables serve`: its flags, and what its protocols promise through kill -9.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::program::Place;

const FIXED: &str = "seen=seen.fixed?width=16&limit=1m";

/// A table server; killed when dropped.
struct Served {
    child: Child,
    /// Where clients connect, as it says.
    places: String,
    /// What it said before.
    said: String,
}

impl Served {
    fn start(place: &Place, flags: &[&str]) -> Self {
        let mut command = place.command(&[&["tables", "serve"], flags].concat());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        let places = loop {
            let line = lines.next().unwrap_or_else(|| panic!("not ready: {said}"));
            let line = line.unwrap();
            if let Some((_, places)) = line.split_once("tables are ready at ") {
                break places.to_owned();
            }
            said += &line;
        };
        // What else it says is nobody's business here, but must be read.
        thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            places,
            said,
        }
    }

    fn tcp(place: &Place, flags: &[&str]) -> Self {
        Self::start(place, &[&["--listen", "127.0.0.1:0"], flags].concat())
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(&self.places).unwrap();
        // A test that hears nothing fails in the end.
        client
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        client
    }

    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }

    fn kill_nine(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(stream: &mut (impl Read + Write), request: &[u8], answer: &[u8]) {
    stream.write_all(request).unwrap();
    let mut heard = vec![0; answer.len()];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(
        heard.escape_ascii().to_string(),
        answer.escape_ascii().to_string(),
        "to {}",
        request.escape_ascii()
    );
}

/// A request of Tokyo Tyrant's protocol whose numbers are its strings' lengths.
fn tyrant(command: u8, strings: &[&[u8]]) -> Vec<u8> {
    let mut request = vec![0xc8, command];
    for string in strings {
        request.extend_from_slice(&(string.len() as u32).to_be_bytes());
    }
    request.extend_from_slice(&strings.concat());
    request
}

/// The keys of an interval, of which there are so many.
fn keys(stream: &mut TcpStream, interval: &[u8]) -> Vec<Vec<u8>> {
    let mut request = vec![0xc8, 0x58];
    request.extend_from_slice(&(interval.len() as u32).to_be_bytes());
    request.extend_from_slice(&(-1_i32).to_be_bytes());
    request.extend_from_slice(interval);
    say(stream, &request, &[0]);
    let number = |stream: &mut TcpStream| {
        let mut number = [0; 4];
        stream.read_exact(&mut number).unwrap();
        u32::from_be_bytes(number)
    };
    (0..number(stream))
        .map(|_| {
            let mut key = vec![0; number(stream) as usize];
            stream.read_exact(&mut key).unwrap();
            key
        })
        .collect()
}

#[test]
fn what_requests_cost_is_told_by_table_and_command() {
    let place = Place::new();
    let flags = [
        "--open", FIXED, "--open", "lists=*", "--folder", "t", "--log", "sync",
    ];
    let served = Served::tcp(&place, &flags);
    let mut client = served.connect();
    say(&mut client, b"set 1 0 0 1\r\na\r\n", b"STORED\r\n");
    say(&mut client, b"get 1\r\n", b"VALUE 1 0 1\r\na\r\nEND\r\n");
    // Many at once, and others among them.
    let lists = "set lists:m 0 0 1\r\nx\r\n".repeat(301);
    let others = "set 3 0 0 1\r\nb\r\nadd 4 0 0 1\r\nb\r\nset 5 x 0 1\r\n";
    let answers = ["STORED\r\n".repeat(301), "STORED\r\n".repeat(2)].concat();
    let answers = [
        &answers,
        "CLIENT_ERROR bad command line format\r\n",
        &"STORED\r\n".repeat(301),
    ];
    let said = [&lists, others, &lists].concat();
    say(&mut client, said.as_bytes(), answers.concat().as_bytes());
    let mut other = served.connect();
    say(&mut other, &tyrant(0x10, &[b"lists:k", b"secret"]), &[0]);
    say(&mut other, &tyrant(0x18, &[b"2", b"b"]), &[]);
    say(&mut other, &tyrant(0x30, &[b"2"]), b"\0\0\0\0\x01b");
    // What was answered before is taken down when these are.
    say(&mut client, b"mn\r\n", b"MN\r\n");
    say(&mut other, &tyrant(0x80, &[]), &[0, 0, 0, 0, 0, 0, 0, 0, 4]);
    let report = place.run(&["slow", "--data", "t", "--json"]).json();
    let shape = |name: &str| {
        let mut shapes = report["shapes"].as_array().unwrap().iter();
        let found = shapes.find(|shape| shape["shape"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {report:#}"))
    };
    assert_eq!(shape("TABLE seen set")["calls"], 2);
    // Its answer waited for the log.
    let waited = shape("TABLE seen set")["phases"]["wait_us"].as_f64();
    assert!(waited > Some(0.0), "{report:#}");
    // Both protocols' reads of one table are one.
    assert_eq!(shape("TABLE seen get")["calls"], 2);
    assert_eq!(shape("TABLE lists set")["calls"], 602);
    assert_eq!(shape("TABLE seen add")["calls"], 1);
    assert_eq!(shape("TABLE (refused)")["calls"], 1);
    assert_eq!(shape("TABLE seen putnr")["calls"], 1);
    assert_eq!(shape("TABLE lists put")["example"], "put lists:k");
    assert!(!report.to_string().contains("secret"));
    let top = place.run(&["top", "--data", "t", "--count", "1", "--interval", "1"]);
    assert!(top.ok().contains("hikyaku top"));
    let refused = place.run(&["count", "--data", "t", "{}"]).failed(1);
    assert!(refused.contains("no events"), "{refused}");
    served.stop();
    let error = place.run(&["slow", "--data", "t"]).failed(1);
    assert!(error.contains("no server runs"), "{error}");

    place.write("hikyaku.toml", "[metrics]\nrequests = false\n");
    let served = Served::tcp(&place, &["--open", FIXED, "--folder", "t"]);
    say(&mut served.connect(), b"mn\r\n", b"MN\r\n");
    let error = place.run(&["slow", "--data", "t"]).failed(1);
    assert!(error.contains("metrics.requests"), "{error}");
    served.stop();
}

#[test]
fn the_first_table_is_the_default_and_what_is_kept_is_there_after_a_restart() {
    let place = Place::new();
    let flags = [
        "--open",
        FIXED,
        "--open",
        "names=names.hash",
        "--folder",
        "t",
    ];
    let served = Served::tcp(&place, &flags);
    let mut client = served.connect();
    say(&mut client, b"set 7 0 0 5\r\nhello\r\n", b"STORED\r\n");
    say(&mut client, b"set names:a 9 0 1\r\nb\r\n", b"STORED\r\n");
    served.stop();
    assert!(place.path().join("t/seen.fixed").exists());
    let served = Served::tcp(&place, &flags);
    let there = b"VALUE seen:7 0 5\r\nhello\r\nVALUE names:a 9 1\r\nb\r\nEND\r\n";
    say(&mut served.connect(), b"get seen:7 names:a\r\n", there);
    served.stop();
}

#[test]
fn a_public_address_needs_a_token_or_a_unix_socket_instead() {
    let place = Place::new();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let flags = ["tables", "serve", "--open", FIXED, "--listen", address];
        let said = place.run(&flags).failed(2);
        assert!(
            said.contains("not a loopback address") && said.contains("--token"),
            "{said}"
        );
    }
    let flags = [
        "--open",
        FIXED,
        "--listen",
        "0.0.0.0:0",
        "--token",
        "secret",
    ];
    let served = Served::start(&place, &flags);
    let (_, port) = served.places.rsplit_once(':').unwrap();
    let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    say(&mut client, b"set t 0 0 6\r\nsecret\r\n", b"STORED\r\n");
    say(&mut client, b"set 1 0 0 1\r\nx\r\n", b"STORED\r\n");
    served.stop();
}

#[test]
fn a_token_is_asked_of_every_client_over_tcp_and_may_come_from_the_environment() {
    let place = Place::new();
    let served = Served::tcp(&place, &["--open", FIXED, "--token", "secret"]);
    for (wrong, told) in [
        (&b"get 1\r\n"[..], &b"CLIENT_ERROR "[..]),
        (b"set t 0 0 5\r\nwrong\r\n", b"CLIENT_ERROR "),
        (b"\xc8\x30\0\0\0\x011", b"\x01"),
    ] {
        let mut client = served.connect();
        client.write_all(wrong).unwrap();
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).unwrap();
        assert!(heard.starts_with(told), "{}", heard.escape_ascii());
    }
    // Whatever the client speaks afterwards.
    let mut client = served.connect();
    say(&mut client, b"set t 0 0 6\r\nsecret\r\n", b"STORED\r\n");
    say(&mut client, &tyrant(0x10, &[b"1", b"x"]), &[0]);
    served.stop();

    let mut command = place.command(&["tables", "serve", "--open", FIXED, "--listen", "0.0.0.0:0"]);
    command.env("HIKYAKU_TABLES_TOKEN", "secret");
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.contains("tables are ready"), "{line}");
}

#[test]
fn a_unix_socket_needs_no_token_and_no_port() {
    let place = Place::new();
    let flags = [
        "--open",
        FIXED,
        "--unix",
        "tables.sock",
        "--token",
        "secret",
    ];
    let served = Served::start(&place, &flags);
    assert_eq!(served.places, "tables.sock");
    let mut client = UnixStream::connect(place.path().join("tables.sock")).unwrap();
    say(&mut client, b"set 1 0 0 1\r\nx\r\n", b"STORED\r\n");
    served.stop();
    assert!(!place.path().join("tables.sock").exists());
}

#[test]
fn wrong_flags_say_what_is_wrong() {
    let place = Place::new();
    for (flags, told) in [
        (&["--listen", "127.0.0.1:0"][..], "--open"),
        (&["--open", "seen.fixed"], "NAME=TABLE"),
        (&["--open", "seen=seen.fixed?width=0"], "width"),
        (&["--open", "seen=seen.fixed?widht=8"], "widht"),
        (&["--open", "seen=seen.square"], "seen.square"),
        (&["--open", FIXED, "--open", FIXED], "seen"),
        (&["--open", FIXED, "--server-id", "0"], "--server-id"),
        (&["--open", FIXED, "--follow", "nowhere"], "HOST:PORT"),
        (&["--open", FIXED, "--log", "maybe"], "maybe"),
    ] {
        let said = place.run(&[&["tables", "serve"], flags].concat()).failed(2);
        assert!(said.contains(told), "{flags:?}: {said}");
    }
}

#[test]
fn a_width_that_a_file_does_not_have_is_told() {
    let place = Place::new();
    let served = Served::tcp(&place, &["--open", FIXED]);
    let wider = tyrant(0x71, &[b"width=20"]);
    say(&mut served.connect(), &wider, &[0]);
    served.stop();
    let served = Served::tcp(&place, &["--open", FIXED]);
    assert!(
        served.said.contains("width=16") && served.said.contains("has, 20"),
        "{}",
        served.said
    );
    say(
        &mut served.connect(),
        &tyrant(0x10, &[b"1", &[b'x'; 20]]),
        &[0],
    );
    served.stop();
}

#[test]
fn a_limit_of_values_and_connections_is_a_flag() {
    let place = Place::new();
    let flags = [
        "--open",
        "cache=*",
        "--value-bytes-max",
        "10",
        "--connections-max",
        "1",
    ];
    let served = Served::tcp(&place, &flags);
    let mut client = served.connect();
    let refused = b"SERVER_ERROR object too large for cache\r\n";
    say(&mut client, b"set k 0 0 11\r\n01234567890\r\n", refused);
    say(
        &mut client,
        b"set k 0 0 10\r\n0123456789\r\n",
        b"STORED\r\n",
    );
    let mut heard = String::new();
    served.connect().read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "ERROR Too many open connections\r\n");
    served.stop();
}

#[test]
fn counts_and_ranges_are_whole_after_kill_nine_and_optimise_drops_nothing() {
    const RECORDS: u64 = 1000;
    let place = Place::new();
    let flags = ["--open", FIXED];
    let served = Served::tcp(&place, &flags);
    let mut client = served.connect();
    for key in (1..=RECORDS).map(|number| (number * 7).to_string()) {
        say(
            &mut client,
            &tyrant(0x10, &[key.as_bytes(), key.as_bytes()]),
            &[0],
        );
    }
    say(&mut client, &tyrant(0x20, &[b"7"]), &[0]);
    served.kill_nine();
    let count = [&[0][..], &(RECORDS - 1).to_be_bytes()].concat();
    let served = Served::tcp(&place, &flags);
    let mut client = served.connect();
    let check = |client: &mut TcpStream| {
        say(client, &tyrant(0x80, &[]), &count);
        let found = keys(client, b"[min,max]");
        assert_eq!(found.len() as u64, RECORDS - 1);
        assert_eq!(found.first().unwrap(), b"14");
        assert_eq!(found.last().unwrap(), b"7000");
        assert_eq!(keys(client, b"(14,28]"), [&b"21"[..], b"28"]);
        say(client, &tyrant(0x30, &[b"max"]), b"\0\0\0\0\x047000");
    };
    check(&mut client);
    say(&mut client, &tyrant(0x71, &[b"width=20"]), &[0]);
    check(&mut client);
    served.kill_nine();
    let served = Served::tcp(&place, &["--open", "seen=seen.fixed?width=20&limit=1m"]);
    check(&mut served.connect());
    served.stop();
}

#[test]
fn a_value_is_whole_to_its_last_byte_after_kill_nine() {
    let place = Place::new();
    // One value over the other, all of one byte, while the server is killed.
    for round in 0..5 {
        let served = Served::tcp(&place, &["--open", FIXED]);
        let mut writer = served.connect();
        let requests: Vec<u8> = (0..4000_u32)
            .flat_map(|number| {
                let value = [b'a' + (number % 26) as u8; 16];
                let key = (number % 3 + 1).to_string();
                tyrant(0x18, &[key.as_bytes(), &value])
            })
            .collect();
        let writing = thread::spawn(move || while writer.write_all(&requests).is_ok() {});
        let mut reader = served.connect();
        while !matches!(value(&mut reader, round % 3 + 1), Some(value) if value.len() == 16) {}
        served.kill_nine();
        writing.join().unwrap();
        let served = Served::tcp(&place, &["--open", FIXED]);
        let mut reader = served.connect();
        for key in 1..=3 {
            let value = value(&mut reader, key).unwrap();
            assert_eq!(value.len(), 16);
            let text = value.escape_ascii().to_string();
            assert!(value.iter().all(|byte| *byte == value[0]), "{text}");
        }
        served.stop();
    }
}

fn value(stream: &mut TcpStream, key: u32) -> Option<Vec<u8>> {
    let request = tyrant(0x30, &[key.to_string().as_bytes()]);
    stream.write_all(&request).unwrap();
    let mut code = [9];
    stream.read_exact(&mut code).unwrap();
    if code != [0] {
        return None;
    }
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut value = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut value).unwrap();
    Some(value)
}

#[test]
fn copies_and_restores_are_made_where_the_operator_says() {
    let place = Place::new();
    let flags = ["--open", FIXED, "--log", "sync"];
    let folders = ["--copies", "copies", "--restores", "tables"];
    std::fs::create_dir(place.path().join("copies")).unwrap();
    let served = Served::tcp(&place, &[&flags[..], &folders].concat());
    let mut client = served.connect();
    say(&mut client, &tyrant(0x10, &[b"1", b"kept"]), &[0]);
    say(&mut client, &tyrant(0x73, &[b"seen.fixed"]), &[0]);
    served.stop();
    // The copy alone is a table again.
    let copy = ["--folder", "copies", "--open", FIXED];
    let served = Served::tcp(&place, &copy);
    say(
        &mut served.connect(),
        b"get 1\r\n",
        b"VALUE 1 0 4\r\nkept\r\nEND\r\n",
    );
    served.stop();
    // A new table becomes what the log of the old one has.
    let new = ["--folder", "new", "--open", FIXED, "--restores", "tables"];
    let served = Served::tcp(&place, &new);
    let restore = [b"\xc8\x74\0\0\0\x07", &[0; 12][..], b"updates"].concat();
    let mut client = served.connect();
    say(&mut client, &restore, &[0]);
    say(&mut client, &tyrant(0x30, &[b"1"]), b"\0\0\0\0\x04kept");
    served.stop();
}

#[test]
fn a_running_server_is_copied_and_the_copy_follows_from_there() {
    let place = Place::new();
    let logged = [
        "--log",
        "async",
        "--log-file-bytes",
        "65536",
        "--log-bytes",
        "1000",
    ];
    let source = [
        &["--open", FIXED, "--open", "names=names.hash"][..],
        &logged,
    ]
    .concat();
    let served = Served::tcp(&place, &source);
    let mut client = served.connect();
    say(&mut client, &tyrant(0x10, &[b"7", b"before"]), &[0]);
    say(&mut client, &tyrant(0x10, &[b"names:n", b"before"]), &[0]);
    let said = place.run(&["tables", "copy", "copied"]).ok();
    assert!(said.contains("up to position 2 of the log"), "{said}");
    let again = place.run(&["tables", "copy", "copied"]).failed(1);
    assert!(again.contains("copied"), "{again}");
    say(&mut client, &tyrant(0x10, &[b"8", b"since"]), &[0]);
    let follower = [
        "--folder",
        "copied",
        "--server-id",
        "2",
        "--follow",
        &served.places,
    ];
    let follower = Served::tcp(&place, &[&source[..], &follower].concat());
    let mut asker = follower.connect();
    while {
        asker.write_all(&tyrant(0x30, &[b"8"])).unwrap();
        let mut code = [9];
        asker.read_exact(&mut code).unwrap();
        code == [1]
    } {
        thread::yield_now();
    }
    let mut rest = [0; 9];
    asker.read_exact(&mut rest).unwrap();
    assert_eq!(&rest, b"\0\0\0\x05since");
    for key in [&b"7"[..], b"names:n"] {
        let found = [&b"\0\0\0\0\x06"[..], b"before"].concat();
        say(&mut asker, &tyrant(0x30, &[key]), &found);
    }
    follower.stop();
    served.stop();
    // Nobody is asked now.
    let nameless = place.run(&["tables", "copy", "other"]).failed(2);
    assert!(nameless.contains("--open"), "{nameless}");
    let open = [
        "tables",
        "copy",
        "--open",
        FIXED,
        "--open",
        "names=names.hash",
        "other",
    ];
    let said = place.run(&open).ok();
    assert!(
        said.contains("other has the tables") || said.contains("/other has"),
        "{said}"
    );
}

#[test]
fn who_follows_needs_a_log() {
    let place = Place::new();
    let flags = [
        "tables",
        "serve",
        "--open",
        FIXED,
        "--follow",
        "127.0.0.1:1",
    ];
    let said = place.run(&flags).failed(2);
    assert!(said.contains("--log"), "{said}");
}
