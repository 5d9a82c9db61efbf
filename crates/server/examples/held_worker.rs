//! What a handler that computes does to the others on its worker, and what `blocking` takes away of that.
//!
//! `cargo run --release -p hikyaku-server --features testing --example held_worker`
//!
//! One worker; eight connections ask for a string, one request at a time each, while another one asks for
//! what takes 20 ms of computing, again and again. Printed are the quantiles of the eight's answers, in turns:
//! nobody computes, the handler computes, the handler has it computed off the worker.

#![allow(clippy::expect_used, reason = "a broken assumption shall panic")]

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use hikyaku_server::{Request, Server, ServerConfig, blocking, get};
use hikyaku_store::testing::NaiveStore;

const COMPUTING: Duration = Duration::from_millis(20);
const CLIENTS: usize = 8;
const ROUND: Duration = Duration::from_secs(4);
const ROUNDS: usize = 3;

struct Site;

fn compute() -> String {
    let begun = Instant::now();
    let mut turns: u64 = 0;
    while begun.elapsed() < COMPUTING {
        turns = std::hint::black_box(turns + 1);
    }
    turns.to_string()
}

fn main() {
    let mut config = ServerConfig::new(([127, 0, 0, 1], 0).into());
    config.workers = NonZeroUsize::new(1);
    let server = Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(async |_| Ok(Site))
        .route(get("/string"), async |_: &Site, _: Request| "a string")
        .route(get("/here"), async |_: &Site, _: Request| compute())
        .route(get("/off"), async |_: &Site, _: Request| {
            blocking(compute).await
        })
        .bind()
        .expect("an address");
    let address = server.address();
    thread::spawn(move || server.run(std::future::pending()));
    for _ in 0..ROUNDS {
        for (name, path) in [
            ("nobody computes", None),
            ("on the worker", Some("/here")),
            ("by `blocking`", Some("/off")),
        ] {
            round(address, name, path);
        }
    }
}

fn round(address: SocketAddr, name: &str, path: Option<&'static str>) {
    let over = Arc::new(AtomicBool::new(false));
    let start = |path: &'static str| {
        let over = Arc::clone(&over);
        thread::spawn(move || ask(address, path, &over))
    };
    let computing = path.map(start);
    let clients: Vec<_> = (0..CLIENTS).map(|_| start("/string")).collect();
    thread::sleep(ROUND);
    over.store(true, Relaxed);
    let mut times: Vec<Duration> = (clients.into_iter())
        .flat_map(|client| client.join().expect("answers"))
        .collect();
    let computed = computing.map_or(0, |client| client.join().expect("answers").len());
    times.sort_unstable();
    let ms = |of_thousand: usize| {
        let place = times.len() * of_thousand / 1000;
        let time = times.get(place.min(times.len() - 1));
        time.map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    println!(
        "{name:16} p50 {:7.3} ms  p99 {:7.3} ms  longest {:7.3} ms  {:7} answers, {computed} computed",
        ms(500),
        ms(990),
        ms(1000),
        times.len(),
    );
}

/// Asks one thing after the other until it is over; returns how long each answer took.
fn ask(address: SocketAddr, path: &str, over: &AtomicBool) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_nodelay(true).expect("a socket");
    let request = format!("GET {path} HTTP/1.1\r\nHost: r\r\n\r\n");
    let mut buffer = [0; 4096];
    let mut times = Vec::new();
    while !over.load(Relaxed) {
        let asked = Instant::now();
        stream.write_all(request.as_bytes()).expect("a request");
        let length = stream.read(&mut buffer).expect("an answer");
        assert!(length > 0, "the connection lasts");
        times.push(asked.elapsed());
    }
    times
}
