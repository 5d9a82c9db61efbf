//! How many events a second a write-policy script of strfry's decides about: pipelined, as this relay
//! asks it, and one at a time, as strfry does.
//!
//! `cargo run --release -p hikyaku-policies --example script_cost [EVENTS]`. Both ask the same program
//! about the same events: pipelined through a running relay with 32 clients, so that signature checks
//! and sockets are in the time; one at a time through a bare pipe, which is more than any relay could
//! do so. Once with a script that answers at once, and once with one that looks something up for a
//! millisecond first, many at the same time if it is asked so.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a broken assumption shall panic"
)]

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    num::NonZeroUsize,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use hikyaku_event::{
    Event,
    testing::{Author, EventBuilder},
};
use hikyaku_policies::{Policies, PolicyConfig};
use hikyaku_server::{Server, ServerConfig};
use hikyaku_store::testing::NaiveStore;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

const CLIENTS: usize = 32;
const ROUNDS: usize = 3;

/// Answers each line at once.
const AT_ONCE: &str = r#"
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"id": request["event"]["id"], "action": "accept"}), flush=True)
"#;

/// Looks something up first, as one that asks a database or another server does.
const LOOKING_UP: &str = r#"
import asyncio, json, sys
async def answer(line):
    request = json.loads(line)
    await asyncio.sleep(0.001)
    print(json.dumps({"id": request["event"]["id"], "action": "accept"}), flush=True)
async def main():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks = set()
    while line := await reader.readline():
        task = asyncio.create_task(answer(line))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
asyncio.run(main())
"#;

/// Makes events that nobody listens to: checked and asked about, and kept nowhere.
fn events(count: usize, first: usize) -> Vec<Event> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let author = Author::new(1);
    let event = |n: usize| {
        let draft = EventBuilder::new(20_001).created_at(now.as_secs());
        draft.content(&(first + n).to_string()).sign(&author)
    };
    (0..count).map(event).collect()
}

fn text(event: &Event) -> &str {
    std::str::from_utf8(event.json()).unwrap()
}

/// Asks about one event after the other; returns events a second.
fn one_at_a_time(script: &str, events: &[Event]) -> f64 {
    let mut program = Command::new("python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = program.stdin.take().unwrap();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut line = String::new();
    let mut ask = |event: &Event| {
        let request = format!(
            "{{\"type\":\"new\",\"event\":{},\"receivedAt\":1700000000,\
            \"sourceType\":\"IP4\",\"sourceInfo\":\"192.0.2.7\"}}\n",
            text(event)
        );
        input.write_all(request.as_bytes()).unwrap();
        line.clear();
        output.read_line(&mut line).unwrap();
        assert!(line.contains("accept"), "{line}");
    };
    ask(&events[0]);
    let begun = Instant::now();
    events.iter().for_each(&mut ask);
    let rate = events.len() as f64 / begun.elapsed().as_secs_f64();
    drop(input);
    program.wait().unwrap();
    rate
}

fn connect(address: SocketAddr) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    client(format!("ws://{address}/"), stream).unwrap().0
}

/// Sends events, and waits until all are answered.
fn publish(socket: &mut WebSocket<TcpStream>, events: &[Event]) {
    for event in events {
        let message = format!("[\"EVENT\",{}]", text(event));
        socket.write(Message::text(message)).unwrap();
    }
    socket.flush().unwrap();
    let mut answered = 0;
    while answered < events.len() {
        if let Message::Text(text) = socket.read().unwrap()
            && text.starts_with("[\"OK\"")
        {
            // It was let in, and nobody listens.
            assert!(text.contains("mute: "), "{text}");
            answered += 1;
        }
    }
}

/// Has many clients publish to a relay that asks the script; returns events a second.
fn pipelined(script: &str, events: &[Event]) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script.py");
    std::fs::write(&path, script).unwrap();
    let mut config = ServerConfig::new(([127, 0, 0, 1], 0).into());
    config.workers = NonZeroUsize::new(2);
    let policies = PolicyConfig {
        script: Some(format!("python3 {}", path.display())),
        ..PolicyConfig::default()
    };
    let policies = Policies::new(policies).unwrap();
    let server = Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(|worker| policies.on_worker(worker))
        .on_event(Policies::on_event)
        .bind()
        .unwrap();
    let address = server.address();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = thread::spawn(move || {
        server.run(async {
            let _ = stopped.await;
        })
    });
    let (first, events) = events.split_at(1);
    publish(&mut connect(address), first);
    let mut sockets: Vec<_> = (0..CLIENTS).map(|_| connect(address)).collect();
    let parts = events.chunks(events.len().div_ceil(CLIENTS));
    let begun = Instant::now();
    thread::scope(|scope| {
        for (socket, events) in sockets.iter_mut().zip(parts) {
            scope.spawn(move || publish(socket, events));
        }
    });
    let rate = events.len() as f64 / begun.elapsed().as_secs_f64();
    drop(sockets);
    drop(stop);
    serving.join().unwrap().unwrap();
    rate
}

fn main() {
    let count: usize = std::env::args()
        .nth(1)
        .map_or(20_000, |n| n.parse().unwrap());
    for (name, script, count) in [
        ("answers at once", AT_ONCE, count),
        ("looks up for 1 ms", LOOKING_UP, count / 2),
    ] {
        for round in 0..ROUNDS {
            let events = events(count, round * count);
            // One at a time takes long: fewer of them will do.
            let alone = one_at_a_time(script, &events[..count / 5]);
            let together = pipelined(script, &events);
            let ratio = together / alone;
            println!(
                "{name}: {alone:.0}/s one at a time, {together:.0}/s pipelined: {ratio:.1} times"
            );
        }
    }
}
