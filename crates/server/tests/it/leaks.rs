//! Memory after many requests is what it was after some: of pages, events, and clients that hang up in
//! the middle. In a process of its own, as others would take memory meanwhile.
//!
//! A million: `HIKYAKU_LEAK_REQUESTS=1000000 cargo test --release -p hikyaku-server --test it leaks`.

use std::{cell::RefCell, process::Command, sync::Arc};

use hikyaku_event::Event;
use hikyaku_server::{Client, Json, Problem, Request, Server, Verdict, post};
use hikyaku_store::testing::NaiveStore;

use crate::{
    client::{Client as NostrClient, note},
    relay::{Relay, config},
    routes::ask,
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

#[tokio::test]
#[ignore = "a process of the test below"]
async fn memory_stays() {
    let count = std::env::var(REQUESTS).map_or(FEW, |count| count.parse().unwrap());
    let server = Server::new(config(), Arc::new(NaiveStore::new()))
        .plugin(async |_| {
            Ok(Echo {
                last: RefCell::default(),
            })
        })
        .route(post("/echo"), echo)
        .on_event(async |_: &Echo, _: &Client, _: &Event| Verdict::reject("no"));
    let relay = Relay::serve(server);
    requests(&relay, FEW / 4).await;
    let before = resident_bytes();
    requests(&relay, count).await;
    let growth = resident_bytes().saturating_sub(before);
    println!("{count} requests, {growth} bytes more of {before}");
    assert!(growth < GROWTH_MAX, "{growth} bytes after {count} requests");
}

#[test]
fn many_requests_leave_nothing_behind() {
    let said = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "leaks::memory_stays", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(
        said.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&said.stderr)
    );
    println!("{text}");
}
