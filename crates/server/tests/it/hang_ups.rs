//! Clients that hang up in the middle of everything, over TLS and HTTP/2: what was done for them ends, and
//! nobody else notices.

use std::{
    net::Shutdown,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{SinkExt, StreamExt};
use hikyaku_server::{Body, Client, Problem, Request, Server, get, post};
use hikyaku_store::testing::NaiveStore;
use http_body::Frame;
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Bytes, client::conn::http2::SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
};
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::Message;

use crate::{
    client::patiently,
    relay::Relay,
    tls::{Pair, encrypted, pair},
    wire::Wire,
};

type Tell = UnboundedSender<(&'static str, bool)>;
type Told = UnboundedReceiver<(&'static str, bool)>;

/// Tells when it is made and when it is dropped.
struct Presence {
    name: &'static str,
    told: Tell,
}

impl Presence {
    fn new(name: &'static str, told: &Tell) -> Self {
        // Who listens may have ended.
        let _ = told.send((name, true));
        Self {
            name,
            told: told.clone(),
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let _ = self.told.send((self.name, false));
    }
}

/// An answer without an end.
struct Endless {
    _presence: Presence,
}

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = Frame::data(Bytes::from_static(&[b'x'; 16_384]));
        Poll::Ready(Some(Ok(frame)))
    }
}

/// A body of which only the beginning comes.
struct Half(Option<Bytes>);

impl http_body::Body for Half {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.0.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None => Poll::Pending,
        }
    }
}

fn site(pair: &Pair) -> (Relay, Told) {
    let (sender, told) = unbounded_channel();
    let server = Server::new(encrypted(pair), Arc::new(NaiveStore::new()))
        .plugin(async move |_| Ok(sender))
        .route(get("/wait"), async |told: &Tell, _: Request| -> String {
            let _presence = Presence::new("/wait", told);
            std::future::pending().await
        })
        .route(post("/read"), async |told: &Tell, request: Request| {
            let _presence = Presence::new("/read", told);
            let body = request.bytes().await?;
            Ok::<_, Problem>(body.len().to_string())
        })
        .route(get("/endless"), async |told: &Tell, _: Request| {
            Body::new(Endless {
                _presence: Presence::new("/endless", told),
            })
        })
        .route(get("/fine"), async |_: &Tell, _: Request| "fine")
        .on_open(async |told: &Tell, _: &Client| {
            let _ = told.send(("websocket", true));
        })
        .on_close(async |told: &Tell, _: &Client| {
            let _ = told.send(("websocket", false));
        });
    (Relay::serve(server), told)
}

async fn next(told: &mut Told) -> (&'static str, bool) {
    patiently(told.recv()).await.unwrap()
}

#[tokio::test]
async fn over_tls_nothing_goes_on_for_who_has_gone() {
    let pair = pair();
    let (relay, mut told) = site(&pair);
    // In the middle of the handshake, and of a request's head.
    for beginning in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01"] {
        Wire::connect(relay.address).await.send(beginning).await;
    }
    let mut stream = pair.connect(relay.address, &[]).await.unwrap();
    stream.write_all(b"GET /wait HTTP/1.1\r\nHo").await.unwrap();
    drop(stream);
    for (request, name) in [
        ("GET /wait HTTP/1.1\r\nHost: r\r\n\r\n", "/wait"),
        (
            "POST /read HTTP/1.1\r\nHost: r\r\nContent-Length: 9\r\n\r\nhalf",
            "/read",
        ),
        (
            "POST /read HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
            "/read",
        ),
        ("GET /endless HTTP/1.1\r\nHost: r\r\n\r\n", "/endless"),
    ] {
        let mut stream = pair.connect(relay.address, &[]).await.unwrap();
        patiently(stream.write_all(request.as_bytes()))
            .await
            .unwrap();
        assert_eq!(next(&mut told).await, (name, true));
        if name == "/endless" {
            let mut some = vec![0; 100_000];
            patiently(stream.read_exact(&mut some)).await.unwrap();
        }
        drop(stream);
        assert_eq!(next(&mut told).await, (name, false));
    }
    let mut stream = pair.connect(relay.address, &[]).await.unwrap();
    let request = b"GET /fine HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n";
    patiently(stream.write_all(request)).await.unwrap();
    let mut answer = Vec::new();
    patiently(stream.read_to_end(&mut answer)).await.unwrap();
    assert!(answer.ends_with(b"fine"));
}

#[tokio::test]
async fn a_websocket_over_tls_that_is_cut_is_closed() {
    let pair = pair();
    let (relay, mut told) = site(&pair);
    let stream = pair.connect(relay.address, &["http/1.1"]).await.unwrap();
    let connecting = tokio_tungstenite::client_async("wss://localhost/", stream);
    let (mut socket, _) = patiently(Box::pin(connecting)).await.unwrap();
    assert_eq!(next(&mut told).await, ("websocket", true));
    assert!(patiently(socket.next()).await.unwrap().is_ok());
    let request = Message::text("[\"REQ\",\"a\",{}]");
    patiently(socket.send(request)).await.unwrap();
    // In the middle of a frame.
    let stream = socket.get_mut();
    patiently(stream.write_all(&[0x81, 0xfe, 0x10, 0x00, 1, 2]))
        .await
        .unwrap();
    patiently(stream.flush()).await.unwrap();
    drop(socket);
    assert_eq!(next(&mut told).await, ("websocket", false));
}

type Sender = SendRequest<BoxBody<Bytes, std::convert::Infallible>>;

async fn http_2(pair: &Pair, relay: &Relay) -> (Sender, JoinHandle<()>) {
    http_2_over(pair.connect(relay.address, &["h2"]).await.unwrap()).await
}

async fn http_2_over(stream: TlsStream<TcpStream>) -> (Sender, JoinHandle<()>) {
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.unwrap();
    let connection = tokio::spawn(async move {
        let _ = connection.await;
    });
    (sender, connection)
}

fn request(path: &str) -> hyper::Request<BoxBody<Bytes, std::convert::Infallible>> {
    let (method, body) = match path {
        "/read" => ("POST", Half(Some(Bytes::from_static(b"half"))).boxed()),
        _ => ("GET", Full::new(Bytes::new()).boxed()),
    };
    hyper::Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}"))
        .body(body)
        .unwrap()
}

#[tokio::test]
async fn a_request_of_http_2_that_is_taken_back_ends_alone() {
    let pair = pair();
    let (relay, mut told) = site(&pair);
    let (mut sender, connection) = http_2(&pair, &relay).await;
    for path in ["/wait", "/read"] {
        let asked = tokio::spawn(sender.send_request(request(path)));
        assert_eq!(next(&mut told).await, (path, true));
        asked.abort();
        assert_eq!(next(&mut told).await, (path, false));
    }
    let mut response = patiently(sender.send_request(request("/endless")))
        .await
        .unwrap();
    assert_eq!(next(&mut told).await, ("/endless", true));
    let frame = patiently(response.body_mut().frame()).await.unwrap();
    assert!(frame.is_ok());
    drop(response);
    assert_eq!(next(&mut told).await, ("/endless", false));
    let response = patiently(sender.send_request(request("/fine")))
        .await
        .unwrap();
    let body = patiently(response.into_body().collect()).await.unwrap();
    assert_eq!(body.to_bytes(), "fine");
    connection.abort();
}

#[tokio::test]
async fn all_requests_of_a_cut_connection_of_http_2_end() {
    let pair = pair();
    let (relay, mut told) = site(&pair);
    let stream = pair.connect(relay.address, &["h2"]).await.unwrap();
    let socket = SockRef::from(stream.get_ref().0).try_clone().unwrap();
    let (mut sender, connection) = http_2_over(stream).await;
    let mut asked = Vec::new();
    for path in ["/wait", "/read", "/endless"] {
        asked.push(tokio::spawn(sender.send_request(request(path))));
        assert_eq!(next(&mut told).await, (path, true));
    }
    socket.shutdown(Shutdown::Both).unwrap();
    let mut gone = [
        next(&mut told).await,
        next(&mut told).await,
        next(&mut told).await,
    ];
    gone.sort_unstable();
    assert_eq!(
        gone,
        [("/endless", false), ("/read", false), ("/wait", false)]
    );
    connection.abort();
    // A new one is served.
    let (mut sender, connection) = http_2(&pair, &relay).await;
    let response = patiently(sender.send_request(request("/fine")))
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    drop(response);
    connection.abort();
}
