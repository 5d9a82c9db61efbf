//! Servers that follow each other: live, after interruptions, in a pair, in a chain.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
};

use hikyaku_table_server::{Source, TableServer, TableServerConfig, TableServerError};
use hikyaku_tables::{Logging, NamedTable, Tables, TablesOptions};
use hikyaku_vfs::{Disk, RealDisk};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::running::loopback;

/// The tables of every server.
const TABLES: [&str; 2] = [
    "seen=seen.hash?durability=none",
    "names=names.ordered?durability=none",
];

/// A server with a folder of its own.
struct Node {
    address: SocketAddr,
    tables: Arc<Tables>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Node {
    fn start(folder: &Path, server: u32, source: Option<SocketAddr>) -> Self {
        Self::start_with(folder, server, source, loopback(), |_| {})
    }

    fn start_with(
        folder: &Path,
        server: u32,
        source: Option<SocketAddr>,
        config: TableServerConfig,
        change: impl FnOnce(&mut TablesOptions),
    ) -> Self {
        let named: Vec<NamedTable> = TABLES.iter().map(|text| text.parse().unwrap()).collect();
        let disk: Disk = Arc::new(RealDisk);
        let mut options = TablesOptions::new(server);
        options.logging = Logging::Sync;
        change(&mut options);
        let tables = Arc::new(Tables::open(&disk, folder, &named, &options).unwrap());
        let follow = source.map(|address| Source {
            host: address.ip().to_string(),
            port: address.port(),
            token: config.token.clone(),
            since_us: 0,
        });
        let config = TableServerConfig { follow, ..config };
        let server = TableServer::bind_set(config, Arc::clone(&tables)).unwrap();
        let address = server.address().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            server
                .run(async {
                    let _ = stopped.await;
                })
                .unwrap();
        };
        Self {
            address,
            tables,
            stop: Some(stop),
            thread: Some(thread::spawn(run)),
        }
    }

    /// Returns all that is in the tables.
    fn records(&self) -> BTreeMap<(String, Vec<u8>), Vec<u8>> {
        let mut records = BTreeMap::new();
        for (named, table) in self.tables.iter() {
            for key in table.keys_after(None, usize::MAX).unwrap() {
                let mut value = Vec::new();
                assert!(table.get(&key, 0, &mut value).unwrap().is_some());
                records.insert((named.name.clone(), key), value);
            }
        }
        records
    }

    /// Waits until a record is there, or gone, as it is here by way of the wire.
    fn wait_for(&self, key: &str, value: Option<&[u8]>) {
        let mut client = Client::to(self.address);
        while client.get(key).as_deref() != value {
            thread::yield_now();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || thread::panicking());
        }
    }
}

/// A client of the binary protocol.
struct Client(TcpStream);

impl Client {
    fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    /// Connects and shows the token.
    fn with_token(address: SocketAddr) -> Self {
        let mut client = Self::to(address);
        client.0.write_all(b"set t 0 0 6\r\nsecret\r\n").unwrap();
        let mut answer = [0; 8];
        client.0.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"STORED\r\n");
        client
    }

    /// Has the server follow another one; returns whether it does.
    fn set_master(&mut self, host: &str, port: u16) -> bool {
        let mut request = vec![0xc8, 0x78];
        request.extend_from_slice(&(host.len() as u32).to_be_bytes());
        request.extend_from_slice(&u32::from(port).to_be_bytes());
        request.extend_from_slice(&[0; 12]);
        request.extend_from_slice(host.as_bytes());
        self.0.write_all(&request).unwrap();
        let mut answer = [9];
        self.0.read_exact(&mut answer).unwrap();
        answer == [0]
    }

    /// Asks, and returns whether it was done.
    fn ask(&mut self, command: u8, strings: &[&str]) -> bool {
        let mut request = vec![0xc8, command];
        for string in strings {
            request.extend_from_slice(&(string.len() as u32).to_be_bytes());
        }
        request.extend_from_slice(strings.concat().as_bytes());
        self.0.write_all(&request).unwrap();
        let mut answer = [9];
        self.0.read_exact(&mut answer).unwrap();
        answer == [0]
    }

    fn put(&mut self, key: &str, value: &str) {
        assert!(self.ask(0x10, &[key, value]), "{key}");
    }

    fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        if !self.ask(0x30, &[key]) {
            return None;
        }
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut value = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut value).unwrap();
        Some(value)
    }

    fn stat(&mut self) -> String {
        assert!(self.ask(0x88, &[]));
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut text = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }
}

/// Waits until a server says why it does not follow.
fn error_of(mut client: Client) -> String {
    loop {
        let stat = client.stat();
        if let Some((_, said)) = stat.split_once("merror\t") {
            return said.lines().next().unwrap().to_owned();
        }
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Changes both tables in every way.
fn change(client: &mut Client, round: u32) {
    for number in 1..=50 {
        client.put(&number.to_string(), &format!("{round}:{number}"));
        client.put(&format!("names:{}", number * round), "name");
        assert!(client.ask(0x12, &[&(number + 100).to_string(), "+"]));
    }
    for number in 1..=10 {
        client.ask(0x20, &[&(number + round).to_string()]);
        client.ask(0x20, &[&format!("names:{}", number + round)]);
    }
    client.put(&(1000 + round).to_string(), "end");
}

#[test]
fn a_replica_follows_live_and_goes_on_where_it_stopped() {
    let (one, two) = (folder(), folder());
    let source = Node::start(one.path(), 1, None);
    let mut client = Client::to(source.address);
    change(&mut client, 1);
    let replica = Node::start(two.path(), 2, Some(source.address));
    replica.wait_for("1001", Some(b"end"));
    assert_eq!(source.records(), replica.records());
    change(&mut client, 2);
    replica.wait_for("1002", Some(b"end"));
    assert_eq!(source.records(), replica.records());
    drop(replica);
    change(&mut client, 3);
    let replica = Node::start(two.path(), 2, Some(source.address));
    replica.wait_for("1003", Some(b"end"));
    assert_eq!(source.records(), replica.records());
    // All is gone there too.
    assert!(client.ask(0x72, &[]));
    replica.wait_for("1003", None);
    assert_eq!(source.records(), replica.records());
}

#[test]
fn a_pair_and_a_chain_do_not_loop() {
    let folders = [folder(), folder(), folder()];
    let one = Node::start(folders[0].path(), 1, None);
    let two = Node::start(folders[1].path(), 2, Some(one.address));
    let mut client = Client::to(one.address);
    // The first follows the second from now on: a pair.
    let host = two.address.ip().to_string();
    assert!(client.set_master(&host, two.address.port()));
    let three = Node::start(folders[2].path(), 3, Some(two.address));
    client.put("1", "of one");
    Client::to(two.address).put("2", "of two");
    for node in [&one, &two, &three] {
        node.wait_for("1", Some(b"of one"));
        node.wait_for("2", Some(b"of two"));
    }
    change(&mut client, 1);
    for node in [&two, &three] {
        node.wait_for("1001", Some(b"end"));
        assert_eq!(node.records(), one.records());
    }
    // Each update is in each log once: 171 changes, the removals of what is there, two puts; and a
    // few notes of how far the others were followed.
    let lengths = [&one, &two, &three].map(|node| node.tables.log().unwrap().position().0);
    let changes = lengths[0];
    assert!(
        lengths.iter().all(|length| length.abs_diff(changes) < 100),
        "{lengths:?}"
    );
    let stat = Client::to(two.address).stat();
    assert!(
        stat.contains(&format!("mport\t{}\n", one.address.port())),
        "{stat}"
    );
    assert!(!stat.contains("merror"), "{stat}");
}

#[test]
fn who_is_too_far_behind_is_told_to_begin_with_a_copy() {
    let (one, two, copy) = (folder(), folder(), folder());
    let forgetful = |options: &mut TablesOptions| {
        options.log.file_bytes_max = 4096;
        options.log.retain_bytes = 1;
        options.checkpoint_bytes = 4096;
    };
    let source = Node::start_with(one.path(), 1, None, loopback(), forgetful);
    let mut client = Client::to(source.address);
    let mut round = 0;
    while source.tables.log().unwrap().first_position().0 == 0 {
        round += 1;
        change(&mut client, round);
        source.tables.checkpoint().unwrap();
    }
    let replica = Node::start(two.path(), 2, Some(source.address));
    let said = error_of(Client::to(replica.address));
    assert!(said.contains("full copy"), "{said}");
    source.tables.copy(&copy.path().join("tables")).unwrap();
    client.put("5", "since");
    let replica = Node::start(&copy.path().join("tables"), 3, Some(source.address));
    replica.wait_for("5", Some(b"since"));
    assert_eq!(source.records(), replica.records());
}

#[test]
fn a_follower_shows_the_token_and_another_number() {
    let config = || TableServerConfig {
        token: Some("secret".to_owned()),
        ..loopback()
    };
    let (one, two) = (folder(), folder());
    let source = Node::start_with(one.path(), 1, None, config(), |_| {});
    source.tables.get("seen").unwrap();
    let replica = Node::start_with(two.path(), 2, Some(source.address), config(), |_| {});
    let put = hikyaku_tables::Update::new(b"7", hikyaku_tables::Change::Put(b"x"));
    let stamp = hikyaku_tables::Stamp {
        at_us: 1,
        origin: 1,
    };
    source
        .tables
        .get("seen")
        .unwrap()
        .update(&put, stamp)
        .unwrap();
    while replica.records() != source.records() {
        thread::yield_now();
    }
    let three = folder();
    let twin = Node::start_with(three.path(), 1, Some(source.address), config(), |_| {});
    let said = error_of(Client::with_token(twin.address));
    assert!(said.contains("a number of its own"), "{said}");
    // A client that names the source names its token too.
    let four = folder();
    let told = Node::start_with(four.path(), 4, None, config(), |_| {});
    let host = format!("secret@{}", source.address.ip());
    assert!(Client::with_token(told.address).set_master(&host, source.address.port()));
    while told.records() != source.records() {
        thread::yield_now();
    }
    let five = folder();
    let unlogged = |options: &mut TablesOptions| options.logging = Logging::None;
    let unlogged = Node::start_with(five.path(), 5, None, config(), unlogged);
    let mut client = Client::with_token(unlogged.address);
    assert!(!client.set_master(&host, source.address.port()));
}

#[test]
fn whom_a_client_has_it_follow_is_followed_after_a_restart_too_until_nobody_is() {
    let (one, two) = (folder(), folder());
    let source = Node::start(one.path(), 1, None);
    let mut writer = Client::to(source.address);
    let start = |source| Node::start(two.path(), 2, source);
    let (host, port) = (source.address.ip().to_string(), source.address.port());
    let replica = start(None);
    assert!(Client::to(replica.address).set_master(&host, port));
    writer.put("1", "one");
    replica.wait_for("1", Some(b"one"));
    drop(replica);
    writer.put("2", "two");
    let replica = start(None);
    replica.wait_for("2", Some(b"two"));
    // Nobody, and so it stays.
    assert!(Client::to(replica.address).set_master("", 0));
    drop(replica);
    let replica = start(None);
    assert!(!Client::to(replica.address).stat().contains("mhost"));
    // Whom the start names counts, and nothing that was kept comes back after it.
    assert!(Client::to(replica.address).set_master("nowhere.invalid", 1));
    assert!(!Client::to(replica.address).set_master("no where", 1));
    drop(replica);
    let replica = start(Some(source.address));
    writer.put("3", "three");
    replica.wait_for("3", Some(b"three"));
    drop(replica);
    let replica = start(None);
    assert!(!Client::to(replica.address).stat().contains("mhost"));
    drop(replica);
    // Damage is told, and is no reason to follow nobody.
    std::fs::write(two.path().join("followed"), b"HIKYUFOL and more").unwrap();
    let named: Vec<NamedTable> = TABLES.iter().map(|text| text.parse().unwrap()).collect();
    let mut options = TablesOptions::new(2);
    options.logging = Logging::Sync;
    let disk: Disk = Arc::new(RealDisk);
    let tables = Tables::open(&disk, two.path(), &named, &options).unwrap();
    let refused = TableServer::bind_set(loopback(), Arc::new(tables));
    assert!(matches!(refused, Err(TableServerError::Followed(_))));
}

#[test]
fn the_original_hears_its_own_messages() {
    let one = folder();
    let source = Node::start(one.path(), 1, None);
    let mut client = Client::to(source.address);
    client.put("7", "seven");
    client.put("names:n", "not of the default table");
    assert!(client.ask(0x20, &["7"]));
    let mut slave = TcpStream::connect(source.address).unwrap();
    let request = [
        &[0xc8, 0xa0][..],
        &1_u64.to_be_bytes(),
        &9_u32.to_be_bytes(),
    ];
    slave.write_all(&request.concat()).unwrap();
    let mut heard = vec![0; 4 + 17 + 17 + 17 + 8];
    slave.read_exact(&mut heard).unwrap();
    assert_eq!(heard[..4], 1_u32.to_be_bytes());
    let (put, out) = heard[4..].split_at(17 + 17);
    assert_eq!(
        (put[0], &put[9..17]),
        (0xc9, &[0, 0, 0, 1, 0, 0, 0, 17][..])
    );
    assert_eq!(&put[17..], b"\xc8\x10\0\0\0\x01\0\0\0\x057seven\0");
    assert_eq!(out[0], 0xc9);
    assert_eq!(&out[17..], b"\xc8\x20\0\0\0\x017\0");
}
