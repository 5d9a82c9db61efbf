//! Requests that two servers could read differently: never is a part of one taken for another.

use std::sync::Arc;

use hikyaku_server::{Request, Server, get, post};
use hikyaku_store::testing::NaiveStore;

use crate::{
    relay::{Relay, config},
    wire::Wire,
};

/// What must never be answered: it is the end of another request.
const SMUGGLED: &str = "GET /secret HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n";

fn site() -> Relay {
    let server = Server::new(config(), Arc::new(NaiveStore::new()))
        .plugin(async |_| Ok(()))
        .route(post("/echo"), async |(): &(), request: Request| {
            request
                .bytes()
                .await
                .map(|body| format!("<{}>", body.len()))
        })
        .route(get("/secret"), async |(): &(), _: Request| "the secret");
    Relay::serve(server)
}

async fn send(relay: &Relay, request: &str) -> String {
    Wire::request(relay.address, request).await
}

#[tokio::test]
async fn what_has_two_lengths_has_no_second_request_in_it() {
    let relay = site();
    let length = SMUGGLED.len();
    for headers in [
        // RFC 9112 section 6.3: which length counts must not be a matter of taste.
        format!("Content-Length: {length}\r\nContent-Length: 0\r\n"),
        format!("Content-Length: 0\r\nContent-Length: {length}\r\n"),
        "Content-Length: 0, 5\r\n".to_owned(),
        "Content-Length: +0\r\n".to_owned(),
        "Content-Length: -1\r\n".to_owned(),
        "Content-Length: 0x0\r\n".to_owned(),
        "Content-Length: 18446744073709551616\r\n".to_owned(),
        "Content-Length: \r\n".to_owned(),
        "Content-Length : 0\r\n".to_owned(),
        "Transfer-Encoding : chunked\r\n".to_owned(),
        " Content-Length: 0\r\n".to_owned(),
        "X: y\r\n Content-Length: 0\r\n".to_owned(),
        "X: y\r\n\tTransfer-Encoding: chunked\r\n".to_owned(),
        "Content\u{0}-Length: 0\r\n".to_owned(),
        "X: a\u{0}b\r\n".to_owned(),
        "Transfer-Encoding: identity\r\n".to_owned(),
        "Transfer-Encoding: chunked, identity\r\n".to_owned(),
        "Transfer-Encoding: xchunked\r\n".to_owned(),
    ] {
        let request = format!("POST /echo HTTP/1.1\r\nHost: r\r\n{headers}\r\n{SMUGGLED}");
        let answer = send(&relay, &request).await;
        assert!(!answer.contains("the secret"), "{headers}: {answer}");
        assert!(!answer.starts_with("HTTP/1.1 2"), "{headers}: {answer}");
    }
}

#[tokio::test]
async fn what_names_no_host_or_two_is_refused() {
    let relay = site();
    for (head, is_refused) in [
        ("GET /secret HTTP/1.1\r\n", true),
        ("GET /secret HTTP/1.1\r\nHost: a\r\nHost: b\r\n", true),
        ("GET /secret HTTP/1.1\r\nHost: a\r\nHost: a\r\n", true),
        ("GET /secret HTTP/1.0\r\nHost: a\r\nHost: b\r\n", true),
        ("GET / HTTP/1.1\r\n", true),
        ("GET /secret HTTP/1.1\r\nHost: a\r\n", false),
        ("GET /secret HTTP/1.1\r\nHost:\r\n", false),
        ("GET /secret HTTP/1.0\r\n", false),
    ] {
        let answer = send(&relay, &format!("{head}\r\n{SMUGGLED}")).await;
        let status = if is_refused { " 400 " } else { " 200 " };
        let line = answer.lines().next().unwrap_or_default();
        assert!(line.contains(status), "{head}: {answer}");
        // Nor is anything read that follows it.
        assert!(
            !is_refused || !answer.contains("the secret"),
            "{head}: {answer}"
        );
    }
}

#[tokio::test]
async fn the_chunks_count_where_a_length_stands_beside_them() {
    let relay = site();
    for headers in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        "Content-Length: 300\r\nTransfer-Encoding: chunked\r\n",
    ] {
        // To whoever goes by the length, the second request begins elsewhere.
        let request = format!(
            "POST /echo HTTP/1.1\r\nHost: r\r\nConnection: close\r\n{headers}\r\n0\r\n\r\n{SMUGGLED}"
        );
        let answer = send(&relay, &request).await;
        assert!(!answer.contains("the secret"), "{headers}: {answer}");
    }
}

#[tokio::test]
async fn a_chunk_that_is_none_ends_the_connection() {
    let relay = site();
    for chunks in [
        "g\r\n",
        "-1\r\n",
        "+0\r\n\r\n",
        " 0\r\n\r\n",
        "0x0\r\n\r\n",
        "ffffffffffffffffff\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabc0\r\n\r\n",
        "1\r\na\n0\r\n\r\n",
        "\r\n\r\n",
    ] {
        let request = format!(
            "POST /echo HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}{SMUGGLED}"
        );
        let answer = send(&relay, &request).await;
        assert!(!answer.contains("the secret"), "{chunks:?}: {answer}");
        assert!(!answer.starts_with("HTTP/1.1 2"), "{chunks:?}: {answer}");
    }
}

#[tokio::test]
async fn what_is_read_in_one_way_only_is_answered() {
    let relay = site();
    for (request, answers) in [
        (
            "POST /echo HTTP/1.1\r\nHost: r\r\nContent-Length: 3\r\n\r\nabc",
            "<3>",
        ),
        (
            "POST /echo HTTP/1.1\r\nHost: r\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
            "<3>",
        ),
        (
            "POST /echo HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n\
             3;x=y\r\nabc\r\n002\r\nde\r\n0\r\nTrailer: t\r\n\r\n",
            "<5>",
        ),
    ] {
        let answer = send(&relay, &format!("{request}{SMUGGLED}")).await;
        assert!(answer.contains(answers), "{request}: {answer}");
        // What follows is a request of its own.
        assert!(answer.contains("the secret"), "{request}: {answer}");
    }
}
