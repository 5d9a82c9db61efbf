//! Plugins' routes: paths, parameters, bodies, refusals, and services of others.

use std::{cell::Cell, net::SocketAddr, sync::Arc};

use hikyaku_server::{
    Body, ClientAddress, Html, Json, Problem, Request, Response, Server, ServerError, get, post,
    put,
};
use hikyaku_store::testing::NaiveStore;
use serde_json::{Value, json};

use crate::{
    relay::{Relay, config},
    wire::{HANDSHAKE, Wire},
};

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Sends a request on a connection of its own, which stays open.
pub(crate) async fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> (Wire, Answer) {
    let mut wire = Wire::connect(address).await;
    let answer = ask(&mut wire, method, path, headers, body).await;
    (wire, answer)
}

/// Sends a request on a connection.
pub(crate) async fn ask(
    wire: &mut Wire,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Answer {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: r\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    wire.send(request.as_bytes()).await;
    receive(wire, method == "HEAD").await
}

pub(crate) async fn receive(wire: &mut Wire, head_only: bool) -> Answer {
    let head = wire.receive_head().await.to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.trim().parse().unwrap());
    let body = wire
        .receive_exactly(if head_only { 0 } else { length })
        .await;
    Answer {
        status,
        head,
        body: String::from_utf8(body).unwrap(),
    }
}

#[derive(Default)]
struct Things {
    asked: Cell<u32>,
}

#[derive(serde::Deserialize)]
struct Page {
    from: u32,
    #[serde(default)]
    word: Vec<String>,
}

#[derive(serde::Deserialize)]
struct Thing {
    name: String,
}

fn server() -> Server<hikyaku_server::With<Things, hikyaku_server::NoPlugins>> {
    let mut config = config();
    config.body_bytes_max = 100;
    Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(|_| async { Ok(Things::default()) })
        .route(
            get("/things/{id}"),
            async |p: &Things, request: Request| -> Result<String, Problem> {
                p.asked.set(p.asked.get() + 1);
                let id: u32 = request.param("id")?;
                if id == 404 {
                    return Err(Problem::not_found("there is no such thing"));
                }
                if id == 500 {
                    Err(std::io::Error::other("a secret of ours"))?;
                }
                Ok(format!("thing {id}"))
            },
        )
        .route(
            get("/things"),
            async |_: &Things, request: Request| -> Result<String, Problem> {
                let page: Page = request.query()?;
                Ok(format!("{} {}", page.from, page.word.join("+")))
            },
        )
        .route(
            post("/things"),
            async |_: &Things, request: Request| -> Result<Json<Value>, Problem> {
                let thing: Thing = request.json().await?;
                Ok(Json(json!({"made": thing.name})))
            },
        )
        .route(put("/raw"), async |_: &Things, request: Request| {
            request.bytes().await.map(|bytes| bytes.len().to_string())
        })
        .route(get("/html"), async |_: &Things, _| Html("<p>hello"))
        .route(get("/own"), async |_: &Things, _| -> Response {
            let mut response = Response::new(Body::from("tea"));
            *response.status_mut() = http::StatusCode::IM_A_TEAPOT;
            response
        })
}

#[tokio::test]
async fn requests_find_their_handlers_on_one_connection() {
    let relay = Relay::serve(server());
    let mut wire = Wire::connect(relay.address).await;
    let json = "Content-Type: application/json\r\n";
    let long = format!("{{\"name\":\"{}\"}}", "x".repeat(200));
    for (method, path, headers, body, status, expected) in [
        ("GET", "/things/7", "", "", 200, "thing 7"),
        ("HEAD", "/things/7", "", "", 200, ""),
        (
            "GET",
            "/things?from=3&word=a&word=b%20c",
            "",
            "",
            200,
            "3 a+b c",
        ),
        (
            "POST",
            "/things",
            json,
            r#"{"name":"a"}"#,
            200,
            r#"{"made":"a"}"#,
        ),
        ("PUT", "/raw", "", "12345", 200, "5"),
        ("GET", "/html", "", "", 200, "<p>hello"),
        ("GET", "/own", "", "", 418, "tea"),
        (
            "GET",
            "/things/seven",
            "",
            "",
            400,
            "`seven` in the path is no id: invalid digit",
        ),
        (
            "GET",
            "/things?from=x",
            "",
            "",
            400,
            "behind the `?` are wrong: ",
        ),
        ("GET", "/things", "", "", 400, "missing field `from`"),
        (
            "POST",
            "/things",
            json,
            r#"{"name":}"#,
            400,
            "expected value at line 1 column 9",
        ),
        (
            "POST",
            "/things",
            json,
            r#"{"size":1}"#,
            400,
            "missing field `name`",
        ),
        (
            "POST",
            "/things",
            "",
            r#"{"name":"a"}"#,
            415,
            "content-type: application/json",
        ),
        ("GET", "/things/404", "", "", 404, "there is no such thing"),
        (
            "GET",
            "/things/500",
            "",
            "",
            500,
            "its operator can read why",
        ),
        (
            "DELETE",
            "/things",
            "",
            "",
            405,
            "use one of GET, POST, HEAD, OPTIONS",
        ),
        ("OPTIONS", "/things", "", "", 204, ""),
        ("GET", "/nothing", "", "", 404, ""),
    ] {
        let answer = ask(&mut wire, method, path, headers, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert!(
            answer.body.contains(expected),
            "{method} {path}: {answer:?}"
        );
        assert!(!answer.body.contains("secret"), "{answer:?}");
    }
    // What says that it is too long is refused unread, and the connection with it.
    let answer = ask(&mut wire, "POST", "/things", json, &long).await;
    assert_eq!(answer.status, 413, "{answer:?}");
}

#[tokio::test]
async fn a_body_that_does_not_say_its_length_is_bounded_too() {
    let relay = Relay::serve(server());
    let mut wire = Wire::connect(relay.address).await;
    let chunk = "x".repeat(0x80);
    let request = format!(
        "PUT /raw HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n80\r\n{chunk}\r\n0\r\n\r\n"
    );
    wire.send(request.as_bytes()).await;
    let answer = receive(&mut wire, false).await;
    assert_eq!(answer.status, 413, "{answer:?}");
}

#[tokio::test]
async fn requests_may_be_sent_ahead() {
    let relay = Relay::serve(server());
    let mut wire = Wire::connect(relay.address).await;
    let requests = (0..20)
        .map(|id| format!("GET /things/{id} HTTP/1.1\r\nHost: r\r\n\r\n"))
        .collect::<Vec<_>>()
        .concat();
    wire.send(requests.as_bytes()).await;
    for id in 0..20 {
        let answer = receive(&mut wire, false).await;
        assert_eq!(answer.body, format!("thing {id}"));
    }
}

#[tokio::test]
async fn a_request_that_two_readers_could_read_differently_is_refused() {
    let relay = Relay::serve(server());
    let smuggled = "GET /things/9 HTTP/1.1\r\nHost: r\r\n\r\n";
    for head in [
        "PUT /raw HTTP/1.1\r\nHost: r\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n",
        "PUT /raw HTTP/1.1\r\nHost: r\r\nContent-Length: +0\r\n\r\n",
        "PUT /raw HTTP/1.1\r\nHost: r\r\nContent-Length: 0x0\r\n\r\n",
        "PUT /raw HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "PUT /raw HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
        "PUT /raw HTTP/1.1\r\nHost : r\r\nContent-Length: 0\r\n\r\n",
        "PUT /raw HTTP/1.1\r\nHost: r\r\nContent-Length\n: 0\r\n\r\n",
    ] {
        let request = format!("{head}{smuggled}");
        let answer = Wire::request(relay.address, &request).await;
        assert!(!answer.contains("thing 9"), "{head}: {answer}");
        assert!(!answer.contains(" 200 "), "{head}: {answer}");
    }
}

#[tokio::test]
async fn the_relay_stays_at_its_address() {
    let relay = Relay::serve(server().route(get("/"), async |_: &Things, _| "my page"));
    let (_, answer) = request(relay.address, "GET", "/", "Accept: text/html\r\n", "").await;
    assert_eq!(answer.body, "my page");
    let accept = "Accept: application/nostr+json\r\n";
    let (_, answer) = request(relay.address, "GET", "/", accept, "").await;
    assert!(answer.body.contains("supported_nips"), "{answer:?}");
    let (_, answer) = request(relay.address, "OPTIONS", "/", "", "").await;
    assert!(answer.head.contains("access-control-allow-origin: *"));
    let mut wire = Wire::connect(relay.address).await;
    wire.send(format!("{HANDSHAKE}\r\n").as_bytes()).await;
    assert!(wire.receive_head().await.starts_with("HTTP/1.1 101 "));
}

#[tokio::test]
async fn a_router_of_somebody_elses_is_mounted() {
    use axum::{Router, extract::Path, routing};

    let router = Router::new()
        .route("/", routing::get(async || "its root"))
        .route(
            "/hello/{name}",
            routing::get(async |Path(name): Path<String>| format!("hello {name}")),
        )
        .route(
            "/me",
            routing::get(async |request: axum::extract::Request| {
                let address = request.extensions().get::<ClientAddress>();
                format!("{}", address.unwrap().0)
            }),
        )
        .route("/echo", routing::post(async |body: String| body));
    let relay = Relay::serve(server().mount("/app", router));
    for (method, path, body, status, expected) in [
        ("GET", "/app", "", 200, "its root"),
        ("GET", "/app/", "", 200, "its root"),
        ("GET", "/app/hello/you", "", 200, "hello you"),
        ("GET", "/app/me", "", 200, "127.0.0.1"),
        ("POST", "/app/echo", "said", 200, "said"),
        ("GET", "/app/nothing", "", 404, ""),
        ("GET", "/things/1", "", 200, "thing 1"),
    ] {
        let (_, answer) = request(relay.address, method, path, "", body).await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (status, expected),
            "{path}"
        );
    }
}

#[test]
fn a_route_that_would_never_be_reached_is_refused() {
    let refused = server()
        .route(get("/things/{other}"), async |_: &Things, _| "")
        .bind();
    let Err(ServerError::Route { route, .. }) = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(route, "GET /things/{other}");
}

#[test]
fn two_plugins_that_answer_the_same_are_both_named() {
    struct Others;
    let refused = server()
        .plugin(async |_| Ok(Others))
        .route(get("/things/{id}"), async |_: &Others, _| "")
        .bind();
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the route GET /things/{id} can't be served: both Things and Others answer it"
    );
}
