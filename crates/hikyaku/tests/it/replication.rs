//! Two real table servers, of which one follows the other, through whatever happens to them.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, ErrorKind, Read, Write, copy},
    net::{Shutdown, TcpListener, TcpStream},
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use hikyaku_postgres::testing::free_port;
use rustix::process::{Pid, Signal, kill_process};

use crate::program::Place;

/// Rounds of updates, each with another interruption in its middle.
const ROUNDS: u64 = 9;
const UPDATES: u64 = 3000;

const SEEN: &str = "seen=seen.fixed?width=16&limit=1m";

/// A file of Tokyo Cabinet's with the records 3, 7 (empty) and 8.
const OLD: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../tables/testdata/debian-narrow.tcf"
);

/// A table server; killed when dropped.
struct Server(Child);

impl Server {
    /// Starts one, and returns it with its address when it is ready.
    fn start(place: &Place, number: u32, listen: &str, follow: Option<&str>) -> (Self, String) {
        let number = number.to_string();
        let mut args = vec![
            "tables",
            "serve",
            "--listen",
            listen,
            "--server-id",
            &number,
        ];
        args.extend(["--open", SEEN, "--log", "async"]);
        args.extend(["--open", "names=names.ordered?durability=none"]);
        args.extend(["--open", "cache=*"]);
        if let Some(follow) = follow {
            args.extend(["--follow", follow]);
        }
        let mut command = place.command(&args);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        let address = loop {
            let line = lines
                .next()
                .unwrap_or_else(|| panic!("not ready: {said}"))
                .unwrap();
            if let Some((_, address)) = line.split_once("tables are ready at ") {
                break address.to_owned();
            }
            said += &line;
        };
        // What else it says is nobody's business here, but must be read.
        thread::spawn(move || lines.for_each(drop));
        (Self(child), address)
    }

    /// Ends it with no chance to finish anything.
    fn kill_nine(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What stands between the two servers, and can be cut.
struct Wire {
    address: String,
    ends: Arc<Mutex<Vec<TcpStream>>>,
}

impl Wire {
    fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let ends: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let all = Arc::clone(&ends);
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                let Ok(far) = TcpStream::connect(&target) else {
                    continue;
                };
                let pairs = [(&near, &far), (&far, &near)];
                for (from, to) in
                    pairs.map(|(a, b)| (a.try_clone().unwrap(), b.try_clone().unwrap()))
                {
                    thread::spawn(move || {
                        let (mut from, mut to) = (from, to);
                        let _ = copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                all.lock().unwrap().extend([near, far]);
            }
        });
        Self { address, ends }
    }

    fn cut(&self) {
        for end in self.ends.lock().unwrap().drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

/// A client of the binary protocol.
struct Client(TcpStream);

impl Client {
    fn to(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    fn send(&mut self, command: u8, numbers: &[u32], strings: &[&[u8]]) -> std::io::Result<()> {
        let mut request = vec![0xc8, command];
        for number in numbers {
            request.extend_from_slice(&number.to_be_bytes());
        }
        request.extend_from_slice(&strings.concat());
        self.0.write_all(&request)
    }

    fn done(&mut self) -> std::io::Result<bool> {
        let mut answer = [9];
        self.0.read_exact(&mut answer)?;
        Ok(answer == [0])
    }

    fn string(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut string = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut string).unwrap();
        string
    }

    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.send(0x30, &[key.len() as u32], &[key]).unwrap();
        self.done().unwrap().then(|| self.string())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        let lengths = [key.len() as u32, value.len() as u32];
        self.send(0x10, &lengths, &[key, value]).unwrap();
        assert!(self.done().unwrap());
    }

    /// Waits until a record is as it should be.
    fn wait_for(&mut self, key: &[u8], value: &[u8]) {
        while self.get(key).as_deref() != Some(value) {
            thread::yield_now();
        }
    }

    /// Returns all records of both tables.
    fn records(&mut self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut keys = Vec::new();
        for pattern in [&b"[min,max]"[..], b"names:"] {
            let numbers = [pattern.len() as u32, u32::MAX];
            self.send(0x58, &numbers, &[pattern]).unwrap();
            assert!(self.done().unwrap());
            let mut count = [0; 4];
            self.0.read_exact(&mut count).unwrap();
            keys.extend((0..u32::from_be_bytes(count)).map(|_| self.string()));
        }
        let found = keys.into_iter().map(|key| {
            let value = self.get(&key).unwrap();
            (key, value)
        });
        found.collect()
    }

    /// Makes the update of a number; an error if the server is gone.
    fn update(&mut self, number: u64) -> std::io::Result<()> {
        // Any mixing function does.
        let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let key = (random % 400 + 1).to_string();
        let key = match random % 3 {
            0 => format!("names:{key}"),
            _ => key,
        };
        let value = number.to_string();
        let lengths = [key.len() as u32, value.len() as u32];
        let strings = [key.as_bytes(), value.as_bytes()];
        match random % 7 {
            0 => self.send(0x20, &lengths[..1], &strings[..1])?,
            1 => self.send(0x13, &[lengths[0], lengths[1], 12], &strings)?,
            2 => return self.send(0x18, &lengths, &strings),
            3 if random % 500 == 3 => self.send(0x72, &[], &[])?,
            _ => self.send(0x10, &lengths, &strings)?,
        }
        self.done().map(drop)
    }
}

#[test]
fn a_replica_ends_with_equal_tables_after_cut_wires_and_kill_nine_of_either() {
    let places = [Place::new(), Place::new()];
    let (mut source, source_at) = Server::start(&places[0], 1, "127.0.0.1:0", None);
    let wire = Wire::to(source_at.clone());
    let follow = Some(wire.address.as_str());
    let (mut replica, replica_at) = Server::start(&places[1], 2, "127.0.0.1:0", follow);
    let mut client = Client::to(&source_at);
    for number in 0..ROUNDS * UPDATES {
        if let Err(error) = client.update(number) {
            panic!("the source is gone: {error}");
        }
        // In the middle of a round, with updates on every part of their way.
        let interruption = number / UPDATES % 3;
        match (number % UPDATES == UPDATES / 2).then_some(interruption) {
            Some(0) => wire.cut(),
            Some(1) => {
                replica.kill_nine();
                replica = Server::start(&places[1], 2, &replica_at, follow).0;
            }
            Some(_) => {
                source.kill_nine();
                let gone = (0..UPDATES)
                    .map(|number| client.update(number))
                    .find_map(Result::err);
                assert_ne!(gone.unwrap().kind(), ErrorKind::WouldBlock);
                source = Server::start(&places[0], 1, &source_at, None).0;
                client = Client::to(&source_at);
            }
            None => {}
        }
    }
    client.put(b"5000", b"end");
    let mut asker = Client::to(&replica_at);
    asker.wait_for(b"5000", b"end");
    let (ours, theirs) = (client.records(), asker.records());
    assert!(ours.len() > 100, "{}", ours.len());
    assert_eq!(ours, theirs);
    drop((source, replica));
}

/// Makes the update of a number to a record that only this side of a pair changes.
fn update_own(client: &mut Client, side: usize, number: u64) {
    let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    let key = (random % 200 + 1 + 1000 * side as u64).to_string();
    let key = match random % 3 {
        0 => format!("names:{key}"),
        _ => key,
    };
    if random.is_multiple_of(7) {
        client
            .send(0x20, &[key.len() as u32], &[key.as_bytes()])
            .unwrap();
        client.done().unwrap();
    } else {
        client.put(key.as_bytes(), number.to_string().as_bytes());
    }
}

#[test]
fn a_pair_ends_with_equal_tables_after_cut_wires_and_kill_nine_of_either() {
    const ROUNDS: u64 = 6;
    const UPDATES: u64 = 400;
    let places = [Place::new(), Place::new()];
    let addresses = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let wires = addresses.clone().map(Wire::to);
    let start = |side: usize| {
        let follow = Some(wires[1 - side].address.as_str());
        Server::start(&places[side], side as u32 + 1, &addresses[side], follow).0
    };
    let mut servers = [0, 1].map(start);
    let mut clients = [0, 1].map(|side: usize| Client::to(&addresses[side]));
    for number in 0..ROUNDS * UPDATES {
        for (side, client) in clients.iter_mut().enumerate() {
            update_own(client, side, number);
        }
        if number % UPDATES != UPDATES / 2 {
            continue;
        }
        match (number / UPDATES % 3) as usize {
            2 => wires.iter().for_each(Wire::cut),
            side => {
                let [one, two] = servers;
                let (killed, other) = if side == 0 { (one, two) } else { (two, one) };
                killed.kill_nine();
                let again = start(side);
                servers = if side == 0 {
                    [again, other]
                } else {
                    [other, again]
                };
                clients[side] = Client::to(&addresses[side]);
            }
        }
    }
    for (client, key) in clients.iter_mut().zip([b"5001", b"5002"]) {
        client.put(key, b"end");
    }
    for client in &mut clients {
        client.wait_for(b"5001", b"end");
        client.wait_for(b"5002", b"end");
    }
    let [ours, theirs] = clients.each_mut().map(Client::records);
    assert!(ours.len() > 200, "{}", ours.len());
    assert_eq!(ours, theirs);
    drop(servers);
}

/// Ends a server as an operator does.
fn stop(mut server: Server) {
    kill_process(Pid::from_child(&server.0), Signal::TERM).unwrap();
    assert!(server.0.wait().unwrap().success());
}

fn import(place: &Place) {
    let import = ["tables", "import", OLD, "--into", SEEN];
    let said = place.run(&import).ok();
    assert!(said.starts_with("3 records"), "{said}");
}

#[test]
fn what_is_imported_is_logged_and_reaches_who_follows() {
    let places = [Place::new(), Place::new()];
    let (source, source_at) = Server::start(&places[0], 1, "127.0.0.1:0", None);
    let (replica, replica_at) = Server::start(&places[1], 2, "127.0.0.1:0", Some(&source_at));
    let (mut client, mut asker) = (Client::to(&source_at), Client::to(&replica_at));
    client.put(b"3", b"old");
    asker.wait_for(b"3", b"old");
    stop(source);
    import(&places[0]);
    let (source, _) = Server::start(&places[0], 1, &source_at, None);
    let mut client = Client::to(&source_at);
    client.put(b"5000", b"end");
    asker.wait_for(b"5000", b"end");
    assert_eq!(client.records(), asker.records());
    assert_eq!(asker.get(b"8").as_deref(), client.get(b"8").as_deref());
    assert!(client.get(b"8").is_some_and(|value| !value.is_empty()));
    drop((source, replica));
}

#[test]
fn what_is_imported_is_not_undone_by_what_the_log_still_has() {
    let place = Place::new();
    let (source, at) = Server::start(&place, 1, "127.0.0.1:0", None);
    let mut client = Client::to(&at);
    client.put(b"3", b"older");
    source.kill_nine();
    // The log's recovery needs to know which table is meant.
    let nameless = ["tables", "import", OLD, "--into", "seen.fixed"];
    let said = place.run(&nameless).failed(2);
    assert!(said.contains("--into NAME=seen.fixed"), "{said}");
    import(&place);
    let (source, _) = Server::start(&place, 1, &at, None);
    let found = Client::to(&at).get(b"3");
    assert!(
        found.is_some() && found.as_deref() != Some(b"older"),
        "{found:?}"
    );
    source.kill_nine();
    let export = ["tables", "export", "--from", SEEN, "new.tcf"];
    let said = place.run(&export).ok();
    assert!(said.starts_with("3 records"), "{said}");
}

#[test]
fn updates_of_another_table_that_wait_in_the_log_are_not_passed_over() {
    let place = Place::new();
    let (source, at) = Server::start(&place, 1, "127.0.0.1:0", None);
    Client::to(&at).put(b"names:a", b"b");
    source.kill_nine();
    let said = place
        .run(&["tables", "import", OLD, "--into", SEEN])
        .failed(2);
    assert!(
        said.contains("the table names") && said.contains("start the server"),
        "{said}"
    );
    let (source, _) = Server::start(&place, 1, &at, None);
    assert_eq!(Client::to(&at).get(b"names:a").as_deref(), Some(&b"b"[..]));
    stop(source);
    import(&place);
}

#[test]
fn a_table_in_memory_is_its_servers_own() {
    let places = [Place::new(), Place::new()];
    let (source, source_at) = Server::start(&places[0], 1, "127.0.0.1:0", None);
    let (replica, replica_at) = Server::start(&places[1], 2, "127.0.0.1:0", Some(&source_at));
    let mut asker = Client::to(&replica_at);
    asker.put(b"cache:k", b"mine");
    let mut client = Client::to(&source_at);
    client.put(b"cache:k", b"theirs");
    client.put(b"1", b"end");
    asker.wait_for(b"1", b"end");
    assert_eq!(asker.get(b"cache:k").as_deref(), Some(&b"mine"[..]));
    source.kill_nine();
    let (source, _) = Server::start(&places[0], 1, &source_at, None);
    assert_eq!(Client::to(&source_at).get(b"cache:k"), None);
    drop((source, replica));
}
