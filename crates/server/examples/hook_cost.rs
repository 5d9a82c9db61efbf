//! What plugins cost: a hook that accepts, for each event, and a route that answers with a string,
//! for each request beside a bare hyper server.
//!
//! `cargo run --release -p hikyaku-server --example hook_cost -- events`
//! `cargo run --release -p hikyaku-server --example hook_cost -- requests [CONNECTIONS [REQUESTS
//! [PER_CONNECTION]]]`
//!
//! `events` publishes the same events to a relay without plugins and to one with many hooks that accept,
//! in turns. `requests` sends requests (100,000 a round) on so many connections (64), which are kept, or
//! opened anew after so many requests each. Times are the CPU time of the worker's thread. For
//! instructions instead: `valgrind --tool=callgrind --separate-threads=yes` with one round
//! (`ROUNDS=1`).

#![allow(clippy::expect_used, reason = "a broken assumption shall panic")]

use std::{
    convert::Infallible,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    num::NonZeroUsize,
    sync::Arc,
    thread,
    time::Duration,
};

use bytes::Bytes;
use hikyaku_event::{
    Event,
    testing::{Author, EventBuilder},
};
use hikyaku_server::{Client, NoPlugins, PluginList, Request, Server, ServerConfig, Verdict, get};
use hikyaku_store::testing::NaiveStore;
use http_body_util::Full;
use tokio::sync::oneshot;

const EVENTS: usize = 10_000;
/// So many that their cost stands out against a signature's.
const HOOKS: usize = 21;

struct Accepting;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let mut number = |default| {
        let text = arguments.next();
        text.map_or(default, |text| text.parse().expect("a number"))
    };
    match &*what {
        "events" => events(),
        "requests" => requests(Load {
            connections: number(64),
            requests: number(100_000),
            per_connection: number(usize::MAX),
        }),
        _ => eprintln!("hook_cost events | requests [CONNECTIONS [REQUESTS [PER_CONNECTION]]]"),
    }
}

fn rounds() -> usize {
    let text = std::env::var("ROUNDS").ok();
    text.map_or(7, |text| text.parse().expect("a number"))
}

/// Publishes ephemeral events nobody listens to: all checks, no store.
fn events() {
    let author = Author::new(1);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let events: Vec<Vec<u8>> = (0..EVENTS)
        .map(|number| {
            let event = EventBuilder::new(20_001)
                .created_at(now)
                .content(&number.to_string())
                .sign(&author);
            let mut message = b"[\"EVENT\",".to_vec();
            message.extend_from_slice(event.json());
            message.push(b']');
            masked(&message)
        })
        .collect();
    let events = events.concat();
    let bare = serve(server());
    let mut many = server().plugin(async |_| Ok(Accepting));
    for _ in 0..HOOKS {
        many = many.on_event(async |_: &Accepting, _: &Client, _: &Event| Verdict::Accept);
    }
    let hooked = serve(many);
    let mut differences = Vec::new();
    for _ in 0..rounds() {
        let without = publish(bare, &events);
        let with = publish(hooked, &events);
        println!("event: {without:.3} us without, {with:.3} us with {HOOKS} hooks that accept");
        differences.push((with - without) / HOOKS as f64);
    }
    println!(
        "a hook that accepts costs {:.3} us (median)",
        median(&mut differences)
    );
}

/// Returns microseconds of the worker's CPU for each event.
fn publish(relay: Relay, events: &[u8]) -> f64 {
    let mut stream = connect(relay.address);
    stream
        .write_all(
            b"GET / HTTP/1.1\r\nHost: r\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        .expect("a handshake");
    let before = worker_cpu(relay.thread);
    let mut writing = stream.try_clone().expect("a second handle");
    let bytes = events.to_vec();
    let writer = thread::spawn(move || writing.write_all(&bytes).expect("events are taken"));
    let mut buffer = vec![0; 1 << 16];
    let mut answered = 0;
    let mut last = Vec::new();
    while answered < EVENTS {
        let length = stream.read(&mut buffer).expect("answers");
        last.extend_from_slice(buffer.get(..length).unwrap_or_default());
        answered += last
            .windows(5)
            .filter(|window| window == b"[\"OK\"")
            .count();
        let keep = last.len().saturating_sub(4);
        last.drain(..keep);
    }
    writer.join().expect("all written");
    let cpu = worker_cpu(relay.thread).saturating_sub(before);
    cpu.as_secs_f64() * 1e6 / EVENTS as f64
}

/// Frames a client's message of 126 bytes or more. A mask of zeros is a mask.
fn masked(message: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81, 0xfe];
    frame.extend_from_slice(&(message.len() as u16).to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(message);
    frame
}

/// Asks a bare hyper server and a route of ours, in turns.
fn requests(load: Load) {
    let bare = bare_hyper();
    let ours = serve(server().plugin(async |_| Ok(Accepting)).route(
        get("/hello"),
        async |_: &Accepting, _: Request| "Hello, World!",
    ));
    let mut ratios = Vec::new();
    for _ in 0..rounds() {
        let theirs = load.cpu_us(bare);
        let mine = load.cpu_us(ours);
        println!("request: {theirs:.2} us bare hyper, {mine:.2} us through a plugin's route");
        ratios.push(mine / theirs);
    }
    println!(
        "a request costs {:.3} times bare hyper (median)",
        median(&mut ratios)
    );
}

/// What a server is asked.
#[derive(Clone, Copy)]
struct Load {
    connections: usize,
    requests: usize,
    /// Requests until a connection is opened anew.
    per_connection: usize,
}

impl Load {
    /// Returns microseconds of the worker's CPU for each request.
    fn cpu_us(self, server: Relay) -> f64 {
        let connect = || connect(server.address);
        let mut streams: Vec<_> = (0..self.connections).map(|_| connect()).collect();
        let request = b"GET /hello HTTP/1.1\r\nHost: r\r\n\r\n";
        let mut buffer = vec![0; 4096];
        let before = worker_cpu(server.thread);
        let rounds = self.requests / self.connections;
        for round in 1..=rounds {
            for stream in &mut streams {
                stream.write_all(request).expect("a request");
            }
            for stream in &mut streams {
                let length = stream.read(&mut buffer).expect("an answer");
                assert!(length > 0, "the connection lasts");
                if round % self.per_connection == 0 {
                    *stream = connect();
                }
            }
        }
        let cpu = worker_cpu(server.thread).saturating_sub(before);
        cpu.as_secs_f64() * 1e6 / (rounds * self.connections) as f64
    }
}

/// A server on a thread whose CPU time can be read.
#[derive(Clone, Copy)]
struct Relay {
    address: SocketAddr,
    /// The number of its worker's thread.
    thread: u32,
}

fn server() -> Server<NoPlugins> {
    let mut config = ServerConfig::new(([127, 0, 0, 1], 0).into());
    config.workers = NonZeroUsize::new(1);
    config.publications_in_flight_max = 256;
    Server::new(config, Arc::new(NaiveStore::new()))
}

fn serve<P: PluginList>(server: Server<P>) -> Relay {
    let before = threads();
    let bound = server.bind().expect("an address");
    let address = bound.address();
    thread::spawn(move || bound.run(std::future::pending()));
    // Who answers has started.
    let mut stream = connect(address);
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: r\r\n\r\n")
        .expect("a request");
    let mut byte = [0];
    stream.read_exact(&mut byte).expect("an answer");
    let worker = threads()
        .into_iter()
        .filter(|thread| !before.contains(thread))
        .find(|thread| name_of(*thread) == "worker-0")
        .expect("a worker");
    Relay {
        address,
        thread: worker,
    }
}

/// Serves the same string with hyper alone, on one thread, with what our server sets on sockets.
fn bare_hyper() -> Relay {
    let (told, tells) = oneshot::channel();
    let before = threads();
    thread::Builder::new()
        .name("bare".into())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
                    .await
                    .expect("an address");
                told.send(listener.local_addr().expect("an address"))
                    .expect("somebody waits");
                loop {
                    let (stream, _) = listener.accept().await.expect("a connection");
                    stream.set_nodelay(true).expect("a socket");
                    tokio::task::spawn_local(
                        hyper::server::conn::http1::Builder::new()
                            .timer(hyper_util::rt::TokioTimer::new())
                            .header_read_timeout(Duration::from_secs(10))
                            .serve_connection(
                                hyper_util::rt::TokioIo::new(stream),
                                hyper::service::service_fn(
                                    |_: http::Request<hyper::body::Incoming>| async {
                                        let mut response = http::Response::new(Full::new(
                                            Bytes::from_static(b"Hello, World!"),
                                        ));
                                        response.headers_mut().insert(
                                            http::header::CONTENT_TYPE,
                                            http::HeaderValue::from_static(
                                                "text/plain; charset=utf-8",
                                            ),
                                        );
                                        Ok::<_, Infallible>(response)
                                    },
                                ),
                            ),
                    );
                }
            });
        })
        .expect("a thread");
    let address = tells.blocking_recv().expect("an address");
    let worker = threads()
        .into_iter()
        .filter(|thread| !before.contains(thread))
        .find(|thread| name_of(*thread) == "bare")
        .expect("a thread");
    Relay {
        address,
        thread: worker,
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_nodelay(true).expect("a socket");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a socket");
    stream
}

fn threads() -> Vec<u32> {
    std::fs::read_dir("/proc/self/task")
        .expect("Linux")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

fn name_of(thread: u32) -> String {
    std::fs::read_to_string(format!("/proc/self/task/{thread}/comm"))
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Returns the CPU time that a thread has had.
fn worker_cpu(thread: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"))
        .expect("Linux counts its threads' time");
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.expect("a number"))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
