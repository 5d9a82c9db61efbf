//! Memory after many requests is what it was after some: of pages, events, and clients that hang up in
//! the middle; in the clear, and in HTTP/2 over TLS. In a process of its own, as others would take memory
//! meanwhile.
//!
//! A million: `HIKYAKU_LEAK_REQUESTS=1000000 cargo test --release -p hikyaku-server --test it leaks`.

use std::{cell::RefCell, process::Command, sync::Arc};

use bytes::Bytes;
use hikyaku_event::Event;
use hikyaku_server::{
    Client, Json, NoPlugins, Problem, Request, Server, ServerConfig, Verdict, With, post,
};
use hikyaku_store::testing::NaiveStore;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::{
    client::{Client as NostrClient, note, patiently},
    relay::{Relay, config},
    routes::ask,
    tls::{Pair, encrypted, pair},
    wire::Wire,
};

/// How many requests; set for the process that a test starts.
const REQUESTS: &str = "HIKYAKU_LEAK_REQUESTS";
const FEW: usize = 20_000;
const JSON: &str = "Content-Type: application/json\r\n";
/// Bytes that memory may grow by, whatever the number of requests: less than 100 for each of the few,
/// and the smallest request takes more.
const GROWTH_MAX: usize = 2 << 20;

struct Echo {
    last: RefCell<String>,
}

async fn echo(p: &Echo, request: Request) -> Result<Json<Vec<String>>, Problem> {
    let words: Vec<String> = request.json().await?;
    *p.last.borrow_mut() = words.concat();
    tokio::task::yield_now().await;
    Ok(Json(words))
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages = statm.split(' ').nth(1).unwrap();
    pages.parse::<usize>().unwrap() * 4096
}

async fn requests(relay: &Relay, count: usize) {
    let body = format!("[\"{}\"]", "word".repeat(50));
    let refused = note(1, "refused");
    let mut wire = Wire::connect(relay.address).await;
    let mut client = NostrClient::connect(relay.address).await;
    for n in 0..count {
        match n % 40 {
            0 => {
                // Hangs up with its body on the way, and begins anew.
                let head = "POST /echo HTTP/1.1\r\nHost: r\r\nContent-Length: 999\r\n\r\n[";
                wire.send(head.as_bytes()).await;
                wire = Wire::connect(relay.address).await;
            }
            1 => client = NostrClient::connect(relay.address).await,
            2..6 => assert!(!client.publish(&refused).await.0),
            _ => {
                let answer = ask(&mut wire, "POST", "/echo", JSON, &body).await;
                assert_eq!(answer.body, body);
            }
        }
    }
}

fn server(config: ServerConfig) -> Server<With<Echo, NoPlugins>> {
    Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(async |_| {
            Ok(Echo {
                last: RefCell::default(),
            })
        })
        .route(post("/echo"), echo)
        .on_event(async |_: &Echo, _: &Client, _: &Event| Verdict::reject("no"))
}

/// Has so many requests made, and tells what memory has grown by from some on.
async fn growth(few: usize, mut requests: impl AsyncFnMut(usize)) {
    let count = std::env::var(REQUESTS).map_or(few, |count| count.parse().unwrap());
    requests(few / 4).await;
    let before = resident_bytes();
    requests(count).await;
    let growth = resident_bytes().saturating_sub(before);
    println!("{count} requests, {growth} bytes more of {before}");
    assert!(growth < GROWTH_MAX, "{growth} bytes after {count} requests");
}

#[tokio::test]
#[ignore = "a process of the test below"]
async fn memory_stays() {
    let relay = Relay::serve(server(config()));
    growth(FEW, async |count| requests(&relay, count).await).await;
}

/// Connects in HTTP/2, over TLS.
async fn connect(relay: &Relay, pair: &Pair) -> SendRequest<Full<Bytes>> {
    let stream = pair.connect(relay.address, &["h2"]).await.unwrap();
    // A body that waits for its head's acknowledgement waits for 40 ms.
    stream.get_ref().0.set_nodelay(true).unwrap();
    let connecting = handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = patiently(connecting).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn http_2_requests(relay: &Relay, pair: &Pair, count: usize) {
    let body = format!("[\"{}\"]", "word".repeat(50));
    let mut sender = connect(relay, pair).await;
    for n in 0..count {
        if n % 200 == 199 {
            sender = connect(relay, pair).await;
        }
        let request = hyper::Request::post("https://localhost/echo")
            .header("content-type", "application/json")
            .body(Full::from(body.clone()))
            .unwrap();
        let asking = sender.send_request(request);
        if n % 20 == 0 {
            // Has the stream reset, wherever it is.
            drop(asking);
            continue;
        }
        let answer = patiently(asking).await.unwrap().into_body();
        assert_eq!(patiently(answer.collect()).await.unwrap().to_bytes(), body);
    }
}

#[tokio::test]
#[ignore = "a process of the test below"]
async fn memory_stays_in_http_2() {
    let pair = pair();
    let relay = Relay::serve(server(encrypted(&pair)));
    let ask = async |count| http_2_requests(&relay, &pair, count).await;
    growth(FEW / 4, ask).await;
}

fn in_a_process(test: &str) {
    let said = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(
        said.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&said.stderr)
    );
    assert!(text.contains("1 passed"), "{text}");
    println!("{text}");
}

#[test]
fn many_requests_leave_nothing_behind() {
    in_a_process("leaks::memory_stays");
}

#[test]
fn many_requests_in_http_2_leave_nothing_behind() {
    in_a_process("leaks::memory_stays_in_http_2");
}
