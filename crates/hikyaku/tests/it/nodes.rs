//! Several nodes on one database: what is published at one reaches the subscribers of all, whatever is
//! killed meanwhile, and who is kept out at one is kept out at all.

use std::{
    collections::HashSet,
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use hikyaku_event::{
    Event,
    testing::{Author, EventBuilder},
};
use hikyaku_postgres::testing::Cluster;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::{
    program::{Place, Relay, ended},
    websocket::Client,
};

const NODES: usize = 3;
const TIME: u64 = 1_700_000_000;

/// A node, with a data folder of its own.
struct Node {
    place: Place,
    relay: Relay,
}

fn start(place: &Place, cluster: &Cluster, settings: &[(&str, &str)]) -> Relay {
    start_on(place, &cluster.url(), settings)
}

pub(crate) fn start_on(place: &Place, url: &str, settings: &[(&str, &str)]) -> Relay {
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0", "--store", url]);
    command
        .env("HIKYAKU_TIMEOUTS_CLOSE_SECONDS", "1")
        .env("HIKYAKU_WORKERS", "2")
        .env("HIKYAKU_STORE_CONNECTIONS_PER_WORKER", "2")
        .envs(settings.iter().copied());
    Relay::spawn(command)
}

fn nodes(count: usize, cluster: &Cluster, settings: &[(&str, &str)]) -> Vec<Node> {
    let node = |_| {
        let place = Place::new();
        let relay = start(&place, cluster, settings);
        Node { place, relay }
    };
    (0..count).map(node).collect()
}

/// Connects; `None` if the node is away.
pub(crate) fn connect(address: &str) -> Option<WebSocket<TcpStream>> {
    let stream = TcpStream::connect(address).ok()?;
    Some(client(format!("ws://{address}/"), stream).ok()?.0)
}

fn read(socket: &mut WebSocket<TcpStream>) -> Option<Value> {
    loop {
        match socket.read().ok()? {
            Message::Text(text) => return serde_json::from_str(&text).ok(),
            Message::Close(_) => return None,
            _ => {}
        }
    }
}

/// Publishes; `None` if the node has gone before it answered.
pub(crate) fn publish(socket: &mut WebSocket<TcpStream>, event: &Event) -> Option<bool> {
    let event = str::from_utf8(event.json()).unwrap();
    socket
        .send(Message::text(format!("[\"EVENT\",{event}]")))
        .ok()?;
    loop {
        let answer = read(socket)?;
        if answer[0] == "OK" {
            let text = answer[3].as_str().unwrap();
            let accepted = answer[2].as_bool().unwrap();
            assert!(accepted || text.starts_with("error: "), "{answer}");
            return Some(accepted);
        }
    }
}

/// A subscriber that stays, and whatever it gets, in order.
pub(crate) struct Subscriber(Client);

impl Subscriber {
    pub(crate) fn subscribe(address: &str) -> Self {
        let mut client = Client::connect(address);
        client.send(&json!(["REQ", "all", {"kinds": [1, 20_001]}]));
        assert_eq!(client.next().unwrap()[0], "EOSE");
        Self(client)
    }

    /// Returns the ids of all events up to and including this one.
    pub(crate) fn until(&mut self, last: &Event) -> Vec<String> {
        let last = last.id().to_hex();
        let mut ids = Vec::new();
        while ids.last() != Some(&last) {
            let message = self.0.next().expect("a subscriber that stays");
            assert_eq!(message[0], "EVENT", "{message}");
            ids.push(message[2]["id"].as_str().unwrap().to_owned());
        }
        ids
    }
}

pub(crate) fn note(author: u64, number: u64) -> Event {
    let event = EventBuilder::new(1).created_at(TIME + number);
    event
        .content(&number.to_string())
        .sign(&Author::new(author))
}

/// What publishers share with who kills.
#[derive(Default)]
pub(crate) struct Load {
    pub(crate) stop: AtomicBool,
    accepted: AtomicUsize,
}

impl Load {
    /// Waits until so many more events were answered OK.
    pub(crate) fn wait_for(&self, more: usize) {
        let goal = self.accepted.load(Ordering::Relaxed) + more;
        while self.accepted.load(Ordering::Relaxed) < goal {
            thread::yield_now();
        }
    }

    /// Publishes at a node, wherever it is now, until told to stop; returns what was answered OK.
    pub(crate) fn publish(&self, author: u64, address: &Mutex<String>) -> Vec<String> {
        let mut accepted = Vec::new();
        let mut socket = None;
        for number in 0.. {
            let event = note(author, number);
            // An event is sent until it is accepted, as clients do.
            loop {
                if self.stop.load(Ordering::Relaxed) {
                    return accepted;
                }
                if socket.is_none() {
                    let address = address.lock().unwrap().clone();
                    socket = connect(&address);
                }
                match socket.as_mut().map(|socket| publish(socket, &event)) {
                    Some(Some(true)) => break,
                    Some(Some(false)) => {}
                    Some(None) | None => {
                        socket = None;
                        thread::yield_now();
                    }
                }
            }
            accepted.push(event.id().to_hex());
            self.accepted.fetch_add(1, Ordering::Relaxed);
        }
        accepted
    }
}

#[test]
fn subscribers_of_all_nodes_get_everything_once_whatever_is_killed() {
    let mut cluster = Cluster::start(&[]);
    let mut nodes = nodes(NODES, &cluster, &[]);
    let addresses: Vec<_> = nodes
        .iter()
        .map(|node| Mutex::new(node.relay.address.clone()))
        .collect();
    // The third node will be killed: nobody stays there.
    let mut subscribers: Vec<_> = nodes[..2]
        .iter()
        .flat_map(|node| [(); 2].map(|()| Subscriber::subscribe(&node.relay.address)))
        .collect();

    let load = Load::default();
    let accepted: Vec<String> = thread::scope(|scope| {
        let publishers: Vec<_> = (1..)
            .zip(&addresses)
            .map(|(author, address)| {
                let load = &load;
                scope.spawn(move || load.publish(author, address))
            })
            .collect();
        load.wait_for(50);
        for _ in 0..3 {
            cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'hikyaku%'");
            load.wait_for(50);
        }
        let third = nodes.pop().unwrap();
        third.relay.signal(Signal::KILL);
        third.relay.wait();
        load.wait_for(50);
        let relay = start(&third.place, &cluster, &[]);
        addresses[2].lock().unwrap().clone_from(&relay.address);
        nodes.push(Node {
            place: third.place,
            relay,
        });
        load.wait_for(50);
        cluster.kill();
        cluster.restart();
        load.wait_for(100);
        load.stop.store(true, Ordering::Relaxed);
        publishers
            .into_iter()
            .flat_map(|publisher| publisher.join().unwrap())
            .collect()
    });
    subscribers.push(Subscriber::subscribe_live(&nodes[2].relay.address));

    // What comes last is behind everything else at every node; the second, that the first listens too.
    let lasts = [note(91, 0), note(92, 0)];
    for (node, last) in nodes.iter().zip(&lasts) {
        let mut socket = connect(&node.relay.address).unwrap();
        while publish(&mut socket, last) != Some(true) {}
    }
    let stored = cluster.sql("SELECT encode(id, 'hex') FROM hikyaku.events ORDER BY seq");
    let stored: Vec<&str> = stored.lines().collect();
    let distinct: HashSet<&str> = stored.iter().copied().collect();
    assert_eq!(stored.len(), distinct.len());
    assert!(
        accepted.iter().all(|id| distinct.contains(id.as_str())),
        "an event answered OK is gone"
    );
    let (new, stayed) = subscribers.split_last_mut().unwrap();
    for subscriber in stayed {
        assert_eq!(subscriber.until(&lasts[1]), stored);
    }
    // What reached its node behind its subscription, and that once: perhaps more than the last two.
    let seen = new.until(&lasts[1]);
    assert!(seen.len() >= lasts.len());
    assert!(stored.ends_with(&seen.iter().map(String::as_str).collect::<Vec<_>>()));

    // Ephemeral events of one node keep their order, and come once: a double would come before the last.
    let fleeting = |author: u64| -> Vec<Event> {
        (0..20)
            .map(|number| {
                let event = EventBuilder::new(20_001).created_at(TIME + number);
                event
                    .content(&"x".repeat(20_000))
                    .sign(&Author::new(author))
            })
            .collect()
    };
    for (author, node) in (1..).zip(&nodes) {
        let events = fleeting(author);
        let mut socket = connect(&node.relay.address).unwrap();
        for event in &events {
            assert_eq!(publish(&mut socket, event), Some(true));
        }
        let expected: Vec<_> = events.iter().map(|event| event.id().to_hex()).collect();
        for subscriber in &mut subscribers {
            assert_eq!(subscriber.until(events.last().unwrap()), expected);
        }
    }
    for node in nodes {
        node.relay.stop();
    }
}

impl Subscriber {
    /// Subscribes to what is published from now on.
    fn subscribe_live(address: &str) -> Self {
        let mut client = Client::connect(address);
        client.send(&json!(["REQ", "all", {"kinds": [1, 20_001], "limit": 0}]));
        assert_eq!(client.next().unwrap()[0], "EOSE");
        Self(client)
    }
}

#[test]
fn who_is_banned_at_one_node_is_kept_out_at_all() {
    let cluster = Cluster::start(&[]);
    let nodes = nodes(2, &cluster, &[]);
    let [here, there] = [&nodes[0], &nodes[1]];
    let bad = Author::new(7);
    let key = note(7, 0).pubkey().to_hex();
    let run = |arguments: &[&str]| {
        let url = cluster.url();
        here.place.run(&[arguments, &["--store", &url]].concat())
    };

    let text = run(&["ban", &key, "--reason", "sells \"watches\"", "--for", "30d"]).ok();
    assert!(
        text.starts_with(&format!("{key} is banned for 7")),
        "{text}"
    );
    let mut client = Client::connect(&there.relay.address);
    // The other node hears of it in a moment.
    let refused = (1..100_000)
        .map(|number| client.publish(note(7, number).json()))
        .find(|ok| ok[2] == false)
        .unwrap();
    assert_eq!(refused[3], "blocked: sells \"watches\"");
    assert_eq!(client.publish(note(8, 1).json())[2], true);
    // Who shows that he has the key is sent away.
    let mut client = Client::connect_to_authenticate(&there.relay.address);
    let auth = EventBuilder::new(22_242)
        .created_at(now())
        .tag(["relay", &format!("ws://{}/", there.relay.address)])
        .tag(["challenge", &client.1])
        .sign(&bad);
    client.0.send(&json!([
        "AUTH",
        serde_json::from_slice::<Value>(auth.json()).unwrap()
    ]));
    assert_eq!(
        client.0.goodbye(),
        (1008, "blocked: sells \"watches\"".to_owned())
    );
    run(&["unban", &key]).ok();
    let mut client = Client::connect(&there.relay.address);
    while client.publish(note(7, 0).json())[2] == false {}
    assert!(run(&["unban", &key]).failed(1).contains("is not banned"));

    // By address: who is connected is sent away, and who comes finds the door closed.
    run(&["ban", "127.0.0.0/8", "--reason", "no"]).ok();
    assert_eq!(client.goodbye(), (1008, "blocked: no".to_owned()));
    let mut refused = connect(&there.relay.address).unwrap();
    assert_eq!(read(&mut refused), None);
    let listed = run(&["bans", "--json"]).json();
    assert_eq!(listed["bans"][0]["who"], "127.0.0.0/8");
    run(&["unban", "127.0.0.0/8"]).ok();
    while read(&mut connect(&there.relay.address).unwrap()).is_none() {}
    assert_eq!(run(&["bans"]).ok(), "nobody is banned\n");
    assert!(run(&["ban", "localhost"]).failed(2).contains("public key"));
}

#[test]
fn a_ban_in_the_data_folder_stays_and_is_in_force_at_once() {
    let place = Place::new();
    let key = note(7, 0).pubkey().to_hex();
    place.run(&["ban", &key]).ok();
    let relay = Relay::start(&place);
    let mut client = Client::connect(&relay.address);
    let refused = client.publish(note(7, 0).json());
    assert_eq!(refused[3], "blocked: you are banned from this relay");
    place.run(&["ban", "::1/128"]).ok();
    place.run(&["unban", &key]).ok();
    // Each worker takes the new list in its turn.
    while client.publish(note(7, 0).json())[2] == false {}
    place.run(&["ban", "127.0.0.1", "--reason", "later"]).ok();
    assert_eq!(client.goodbye(), (1008, "blocked: later".to_owned()));
    // Pages neither, whatever they claim to be: each worker in its turn.
    for head in ["GET / HTTP/1.1", "GET /page HTTP/1.1\r\nUpgrade: websocket"] {
        let page = || {
            let mut stream = TcpStream::connect(&relay.address).unwrap();
            let request = format!("{head}\r\nHost: here\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let deadline = Instant::now() + Duration::from_mins(1);
        let refused = loop {
            let answer = page();
            if answer.starts_with("HTTP/1.1 403") {
                break answer;
            }
            assert!(Instant::now() < deadline, "{answer}");
        };
        assert!(refused.contains("blocked: later"), "{refused}");
        assert!(refused.contains("x-request-id: "), "{refused}");
    }
    relay.stop();
    let listed = place.run(&["bans"]).ok();
    assert_eq!(listed, "127.0.0.1/32 is banned: later\n::1/128 is banned\n");
}

#[test]
fn what_was_spent_at_one_node_is_not_there_at_another() {
    const BURST: u64 = 400;
    let burst = BURST.to_string();
    let settings = [
        ("HIKYAKU_UNLIMITED_ADDRESSES", "192.0.2.1"),
        ("HIKYAKU_RATES_EVENTS_PER_KEY", "1"),
        ("HIKYAKU_RATES_EVENTS_PER_KEY_BURST", burst.as_str()),
    ];
    let cluster = Cluster::start(&[]);
    let nodes = nodes(2, &cluster, &settings);
    let mut here = Client::connect(&nodes[0].relay.address);
    let mut there = Subscriber::subscribe(&nodes[1].relay.address);
    let publish_until_refused = |client: &mut Client, first: u64| {
        (first..first + 100_000)
            .find(|number| {
                let ok = client.publish(note(1, *number).json());
                let limited = ok[3].as_str().unwrap().starts_with("rate-limited: ");
                assert!(limited || ok[2] == true, "{ok}");
                limited
            })
            .unwrap()
            - first
    };
    assert!(publish_until_refused(&mut here, 0) >= BURST);
    // What the other node has heard of the events, it has, or will have in a moment, of their price.
    there.until(&note(1, BURST - 1));
    let mut client = Client::connect(&nodes[1].relay.address);
    assert!(publish_until_refused(&mut client, 10_000) < BURST);
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}

#[test]
fn a_node_whose_database_is_away_says_so_and_comes_back() {
    let mut cluster = Cluster::start(&[]);
    let nodes = nodes(1, &cluster, &[]);
    let mut client = Client::connect(&nodes[0].relay.address);
    assert_eq!(client.publish(note(1, 1).json())[2], true);
    cluster.kill();
    client.send(&json!(["REQ", "away", {"kinds": [1]}]));
    let closed = client.next().unwrap();
    assert_eq!(closed[0], "CLOSED");
    let reason = closed[2].as_str().unwrap();
    assert!(reason.starts_with("error: "), "{reason}");
    let refused = client.publish(note(1, 2).json());
    assert_eq!(refused[2], false);
    let reason = refused[3].as_str().unwrap();
    assert!(reason.starts_with("error: "), "{reason}");
    cluster.restart();
    while client.publish(note(1, 2).json())[2] == false {}
    assert_eq!(client.query(&json!({"kinds": [1]})).len(), 2);
}

#[test]
fn a_node_says_when_all_together_may_need_more_connections_than_there_are() {
    // 3 are kept for the administrator; each node may need 2 x 2 + 4.
    let cluster = Cluster::start(&["max_connections = 22"]);
    let nodes = nodes(2, &cluster, &[]);
    for (author, node) in (1..).zip(&nodes) {
        assert!(
            !node.relay.opening.contains("run out"),
            "{}",
            node.relay.opening
        );
        // By now it has a connection, by which it is known.
        let mut client = Client::connect(&node.relay.address);
        assert_eq!(client.publish(note(author, 1).json())[2], true);
    }
    // So says the doctor of another relay, whose role is not told what others do.
    cluster.sql("CREATE ROLE other LOGIN");
    let place = Place::new();
    let mut doctor = place.command(&["doctor", "--json"]);
    doctor
        .env(
            "HIKYAKU_STORE_URL",
            cluster.url().replace("postgres@", "other@"),
        )
        .env("HIKYAKU_WORKERS", "2")
        .env("HIKYAKU_STORE_CONNECTIONS_PER_WORKER", "2");
    let report = ended(doctor).out;
    let told = "2 nodes that run may use 16";
    assert!(report.contains(told), "{report}");
    let third = start(&Place::new(), &cluster, &[]);
    let told = "this node may need 8, 2 other nodes 16";
    assert!(third.opening.contains(told), "{}", third.opening);
}
