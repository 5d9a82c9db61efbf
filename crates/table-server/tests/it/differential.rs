//! The same commands to memcached (Debian's package) and to us, and the same answers.

use std::{
    collections::HashMap,
    fs::Permissions,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestRunner},
};

use crate::running::{Running, loopback};

/// memcached, for as long as a test lasts.
struct Memcached {
    child: Child,
    port: u16,
}

impl Memcached {
    fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        // memcached writes it as another user, if it is started as root.
        std::fs::set_permissions(place.path(), Permissions::from_mode(0o777)).unwrap();
        // It chooses a free port itself and tells it: a port chosen for it could be another
        // server's by then.
        let told = place.path().join("port");
        let child = Command::new("memcached")
            .args(["-l", "127.0.0.1", "-U", "0", "-u", "nobody", "-t", "1"])
            .args(["-p", "-1"])
            .env("MEMCACHED_PORT_FILENAME", &told)
            .stdout(Stdio::null())
            .spawn()
            .expect("memcached is installed: scripts/prerequisites.sh memcached:memcached");
        let mut memcached = Self { child, port: 0 };
        let started = Instant::now();
        loop {
            // A line, with its end: "TCP INET: 12345".
            let line = std::fs::read_to_string(&told).unwrap_or_default();
            if let Some(port) = line
                .strip_suffix('\n')
                .and_then(|line| line.rsplit(' ').next())
            {
                memcached.port = port.parse().unwrap();
                return memcached;
            }
            assert!(
                started.elapsed() < Duration::from_secs(30),
                "memcached does not start"
            );
            std::thread::yield_now();
        }
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A client that tells where the answers to what it sent have ended, by a last command.
struct Client {
    stream: BufReader<TcpStream>,
    /// The unique numbers that this server has given for each key, in the order in which they were
    /// seen.
    uniques: HashMap<String, Vec<u64>>,
    /// The last unique number seen of each key.
    last: HashMap<String, u64>,
}

impl Client {
    fn connect(address: impl std::net::ToSocketAddrs) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Self {
            stream: BufReader::new(stream),
            uniques: HashMap::new(),
            last: HashMap::new(),
        }
    }

    /// Sends commands, in which `@KEY@` stands for the key's last unique number; returns the
    /// answers' lines, in which unique numbers are replaced by the order of their appearance.
    fn ask(&mut self, commands: &str) -> Vec<String> {
        let mut request = String::new();
        for (index, part) in commands.split('@').enumerate() {
            if index % 2 == 0 {
                request += part;
            } else {
                // A number that no record has, if the key has none.
                request += &self
                    .last
                    .get(part)
                    .map_or(u64::MAX, |&unique| unique)
                    .to_string();
            }
        }
        request += "mn\r\n";
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(
                self.stream.read_line(&mut line).unwrap() > 0,
                "closed after {commands:?}"
            );
            if line == "MN\r\n" {
                without_padding(&mut lines);
                return lines;
            }
            // A second may have passed for one and not for the other.
            lines.push(self.canonical(&line).replace(" t9999", " t10000"));
        }
    }

    fn canonical(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let (key, unique) = match words.as_slice() {
            ["VALUE", key, _, _, unique] => (*key, unique.trim_end()),
            ["HD" | "VA", ..] => {
                let find = |flag| {
                    words
                        .iter()
                        .skip(1)
                        .find_map(|word| word.strip_prefix(flag))
                };
                match (find('k'), find('c')) {
                    (Some(key), Some(unique)) => (key.trim_end(), unique.trim_end()),
                    _ => return line.to_owned(),
                }
            }
            _ => return line.to_owned(),
        };
        let number: u64 = unique.parse().unwrap();
        let seen = self.uniques.entry(key.to_owned()).or_default();
        let known = seen.iter().position(|&seen| seen == number);
        let place = known.unwrap_or_else(|| {
            seen.push(number);
            seen.len() - 1
        });
        self.last.insert(key.to_owned(), number);
        let at = line.rfind(unique).unwrap();
        format!("{}#{place}{}", &line[..at], &line[at + unique.len()..])
    }
}

/// Cuts the spaces that may or may not (so the protocol's text) be behind a number that has become
/// shorter: memcached has them unless somebody reads the record.
fn without_padding(lines: &mut [String]) {
    for index in 1..lines.len() {
        let data = lines[index].strip_suffix("\r\n").unwrap();
        let number = data.trim_end_matches(' ');
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let (long, short) = (data.len(), number.len());
        lines[index] = format!("{number}\r\n");
        let place = if lines[index - 1].starts_with("VA ") {
            1
        } else {
            3
        };
        let words = lines[index - 1].split(' ').enumerate().map(|(at, word)| {
            let end = word.len() - word.trim_end().len();
            match &word[..word.len() - end] {
                word if word == long.to_string() && at == place => short.to_string(),
                word if word == format!("s{long}") => format!("s{short}"),
                word => word.to_owned(),
            }
        });
        lines[index - 1] = words.collect::<Vec<_>>().join(" ");
    }
}

/// Few, so that they meet.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("c"), Just("counter")].prop_map(str::to_owned)
}

/// Nothing is appended to what is counted: memcached takes `9 x` for a number, and keeps the mark of
/// a stale record when it counts in place.
fn text_key() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("c")].prop_map(str::to_owned)
}

fn number_key() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just("counter"), 1 => Just("nothing")].prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{0,12}",
        (0_u64..30).prop_map(|number| number.to_string()),
        Just(u64::MAX.to_string()),
        Just("x\r\nget a\r\n".to_owned()),
    ]
}

/// A value of what is counted: memcached reads on behind one that is blank.
fn number_value() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => "[a-z]{1,12}",
        3 => (0_u64..30).prop_map(|number| number.to_string()),
        1 => Just(u64::MAX.to_string()),
    ]
}

fn noreply() -> impl Strategy<Value = &'static str> {
    prop_oneof![3 => Just(""), 1 => Just(" noreply")]
}

/// Times that do not pass during a test.
fn expiry() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => Just("0"), 2 => Just("10000"), 1 => Just("-1"), 1 => Just("1000000000")]
}

fn classic() -> BoxedStrategy<String> {
    let store = (
        prop_oneof![
            (
                prop_oneof![Just("set"), Just("add"), Just("replace")],
                number_key(),
                number_value()
            ),
            (
                prop_oneof![
                    Just("set"),
                    Just("add"),
                    Just("replace"),
                    Just("append"),
                    Just("prepend")
                ],
                text_key(),
                value()
            ),
        ],
        0_u32..3,
        expiry(),
        noreply(),
    )
        .prop_map(|((command, key, value), flags, expiry, noreply)| {
            let length = value.len();
            format!("{command} {key} {flags} {expiry} {length}{noreply}\r\n{value}\r\n")
        });
    let cas = (text_key(), value(), noreply()).prop_map(|(key, value, noreply)| {
        let length = value.len();
        format!("gets {key}\r\ncas {key} 7 0 {length} @{key}@{noreply}\r\n{value}\r\n")
    });
    let read = (
        prop_oneof![
            Just("get".to_owned()),
            Just("gets".to_owned()),
            expiry().prop_map(|expiry| format!("gat {expiry}")),
            expiry().prop_map(|expiry| format!("gats {expiry}")),
        ],
        vec(key(), 0..4),
    )
        .prop_map(|(command, keys)| format!("{command} {}\r\n", keys.join(" ")));
    let count = (
        prop_oneof![Just("incr"), Just("decr")],
        number_key(),
        prop_oneof![Just(1), Just(7), Just(u64::MAX)],
        noreply(),
    )
        .prop_map(|(command, key, by, noreply)| format!("{command} {key} {by}{noreply}\r\n"));
    let touch = (key(), expiry(), noreply())
        .prop_map(|(key, expiry, noreply)| format!("touch {key} {expiry}{noreply}\r\n"));
    let delete = (key(), prop_oneof![Just(""), Just(" 0")], noreply())
        .prop_map(|(key, hold, noreply)| format!("delete {key}{hold}{noreply}\r\n"));
    prop_oneof![6 => store, 2 => cas, 4 => read, 3 => count, 2 => touch, 2 => delete].boxed()
}

fn meta() -> BoxedStrategy<String> {
    let of = |flags: &'static [&'static str]| {
        proptest::sample::subsequence(flags, 0..flags.len())
            .prop_shuffle()
            .prop_map(|flags| flags.concat())
    };
    let get = (
        of(&[" v", " s", " f", " t", " k", " O12", " q", " Lx", " Py"]),
        prop_oneof![
            (key(), Just(" k c")),
            // Of a number the size may differ by what is behind it.
            (
                text_key(),
                prop_oneof![Just(""), Just(" T10000"), Just(" N10000"), Just(" R20000")]
            ),
        ],
    )
        .prop_map(|(flags, (key, change))| {
            if change == " k c" {
                return format!("mg {key} v k c\r\n");
            }
            format!("mg {key}{change}{flags}\r\n")
        });
    let set = (
        text_key(),
        value(),
        of(&[" F5", " T10000", " O34", " q", " k"]),
        prop_oneof![
            Just(""),
            Just(" MS"),
            Just(" ME"),
            Just(" MA"),
            Just(" MP"),
            Just(" MR"),
            Just(" MX"),
            Just(" C@"),
            Just(" I C@")
        ],
    )
        .prop_map(|(key, value, flags, mode)| {
            let length = value.len();
            let mode = mode.replace('@', &format!("@{key}@"));
            format!("gets {key}\r\nms {key} {length}{flags}{mode}\r\n{value}\r\n")
        });
    let delete = (
        text_key(),
        of(&[" q", " k", " O5"]),
        prop_oneof![2 => Just(""), 1 => Just(" C@"), 1 => Just(" I"), 1 => Just(" I T10000")],
    )
        .prop_map(|(key, flags, how)| {
            let how = how.replace('@', &format!("@{key}@"));
            format!("gets {key}\r\nmd {key}{flags}{how}\r\n")
        });
    let arithmetic = (
        number_key(),
        of(&[" v", " t", " k", " O6", " D3", " q"]),
        prop_oneof![
            Just(""),
            Just(" MI"),
            Just(" MD"),
            Just(" M+"),
            Just(" M-"),
            Just(" MX")
        ],
        prop_oneof![2 => Just(""), 1 => Just(" N0"), 1 => Just(" N10000 J13"), 1 => Just(" C@")],
    )
        .prop_map(|(key, flags, mode, how)| {
            let how = how.replace('@', &format!("@{key}@"));
            format!("gets {key}\r\nma {key}{how}{mode}{flags}\r\n")
        });
    prop_oneof![4 => get, 4 => set, 2 => delete, 3 => arithmetic].boxed()
}

/// What is no command, or not quite.
fn wrong() -> BoxedStrategy<String> {
    prop_oneof![
        Just("get\r\n"),
        Just("\r\n"),
        Just("   \r\n"),
        Just(" get a\r\n"),
        Just("GET a\r\n"),
        Just("set a 0 0 3\r\nabcdef\r\n"),
        Just("set a 0 0 3 noreply\r\nabcdef\r\n"),
        Just("set a 0 0 5\r\nabc\r\nabc\r\n"),
        Just("set a x 0 3\r\nabc\r\n"),
        Just("set a -1 0 3\r\nabc\r\n"),
        Just("set a 0 0 -3\r\nabc\r\n"),
        Just("set a 0 0 3 b c\r\nabc\r\n"),
        Just("set a 0 0 2147483647\r\n"),
        Just("set a 0 0 99999999999999999999\r\n"),
        Just("set a 0 0\r\n"),
        Just("set a 0 0 noreply\r\n"),
        Just("cas a 0 0 1\r\n1\r\n"),
        Just("cas a 0 0 1 x\r\n1\r\n"),
        Just("cas a 0 0 1 x noreply\r\n1\r\n"),
        Just("add a 0 0 2\nxx\r\n"),
        Just("gat x a\r\n"),
        Just("gat 10\r\n"),
        Just("incr a\r\n"),
        Just("incr a x\r\n"),
        Just("incr a -1\r\n"),
        Just("incr a 18446744073709551616\r\n"),
        Just("decr a x noreply\r\n"),
        Just("touch a\r\n"),
        Just("touch a x\r\n"),
        Just("delete\r\n"),
        Just("delete a 5\r\n"),
        Just("delete a 0 noreply x\r\n"),
        Just("verbosity\r\n"),
        Just("verbosity x\r\n"),
        Just("verbosity 0\r\n"),
        Just("verbosity 0 noreply\r\n"),
        Just("flush_all x\r\n"),
        Just("flush_all 0\r\n"),
        Just("flush_all\r\n"),
        Just("flush_all noreply\r\n"),
        Just("flush_all 0 noreply\r\n"),
        Just("flush_all 1 2 3\r\n"),
        Just("stats nonsense\r\n"),
        Just("stats reset\r\n"),
        Just("mg\r\n"),
        Just("mg a !\r\n"),
        Just("mg a v v\r\n"),
        Just("mg Y! b\r\n"),
        Just("ms a\r\n"),
        Just("ms a x\r\n"),
        Just("ms a 2 M\r\nxx\r\n"),
        Just("ms a 2 Mxx\r\nxx\r\n"),
        Just("ms a 2 !\r\nxx\r\n"),
        Just("ms a 2 k k\r\nxx\r\n"),
        Just("ms a 2 q\r\nxxxx\r\n"),
        Just("ms a 2 Cx\r\nxx\r\n"),
        Just("ms YWI= 1 b k\r\n1\r\n"),
        Just("ma a Dx\r\n"),
        Just("ma\r\n"),
        Just("md\r\n"),
        Just("me\r\n"),
        Just("me missing\r\n"),
        Just("m\r\n"),
        Just("mx a\r\n"),
    ]
    .prop_map(str::to_owned)
    .boxed()
}

/// Asks both the same, from the same beginning.
fn compare(cases: u32, commands: &BoxedStrategy<String>) {
    let peer = Memcached::start();
    let ours = Running::start(loopback());
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    let streams = vec(commands.clone(), 1..40);
    let result = runner.run(&streams, |commands| {
        let mut theirs = Client::connect(("127.0.0.1", peer.port));
        let mut our = Client::connect(ours.address.unwrap());
        theirs.ask("flush_all\r\n");
        our.ask("flush_all\r\n");
        for command in &commands {
            // A number that the first answer tells is needed for the second command.
            let (first, second) = match command.split_once("\r\n") {
                Some((first, second)) if second.contains('@') => (format!("{first}\r\n"), second),
                _ => (command.clone(), ""),
            };
            for part in [&first, second] {
                prop_assert_eq!(
                    our.ask(part),
                    theirs.ask(part),
                    "{:?} of {:?}",
                    part,
                    commands
                );
            }
        }
        Ok(())
    });
    result.unwrap();
}

#[test]
fn classic_commands_are_answered_as_memcached_does() {
    compare(400, &classic());
}

#[test]
fn meta_commands_are_answered_as_memcached_does() {
    compare(400, &prop_oneof![3 => meta(), 1 => classic()].boxed());
}

#[test]
fn what_is_wrong_is_answered_as_memcached_does() {
    compare(
        300,
        &prop_oneof![2 => wrong(), 1 => classic(), 1 => meta()].boxed(),
    );
}

#[test]
fn long_keys_and_large_values_are_answered_as_memcached_does() {
    let peer = Memcached::start();
    let ours = Running::start(loopback());
    let mut theirs = Client::connect(("127.0.0.1", peer.port));
    let mut our = Client::connect(ours.address.unwrap());
    let (longest, longer) = ("k".repeat(250), "k".repeat(251));
    let large = "v".repeat(1_000_000);
    let larger = "v".repeat(1_048_577);
    for command in [
        format!("set {longest} 0 0 1\r\n1\r\nget {longest}\r\n"),
        format!("set {longer} 0 0 1\r\n1\r\n"),
        // Alone: memcached drops what it has not yet sent.
        format!("get {longest} {longer}\r\n"),
        format!("delete {longer}\r\nincr {longer} 1\r\ntouch {longer} 0\r\n"),
        format!(
            "mg {longer} v\r\nms {longer} 1\r\n1\r\nmd {longer}\r\nma {longer}\r\nme {longer}\r\n"
        ),
        format!("set large 0 0 1000000\r\n{large}\r\nget large\r\n"),
        format!("set new 0 0 1048577\r\n{larger}\r\nget new\r\n"),
        format!("set new 0 0 1048577 noreply\r\n{larger}\r\nget new\r\n"),
        format!("ms new 1048577 q\r\n{larger}\r\nmg new v\r\n"),
        format!("get {}\r\n", "large ".repeat(30)),
        format!("get {}\r\n", "nothing ".repeat(20_000)),
    ] {
        let (our, theirs) = (our.ask(&command), theirs.ask(&command));
        for (our, theirs) in our.iter().zip(&theirs) {
            assert!(our == theirs, "{our:.100} {theirs:.100} {command:.100}");
        }
        assert_eq!(our.len(), theirs.len(), "{command:.100}");
    }
}

#[test]
fn quit_ends_the_conversation() {
    let ours = Running::start(loopback());
    let mut our = ours.connect();
    our.write_all(b"version\r\nquit\r\nversion\r\n").unwrap();
    let mut heard = String::new();
    our.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, format!("VERSION {}\r\n", env!("CARGO_PKG_VERSION")));
}
