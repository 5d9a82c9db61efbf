//! TLS: wss, HTTP/2, certificates that are replaced, and clients that do something else.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures_util::{SinkExt, StreamExt};
use hikyaku_server::{Request, Server, ServerConfig, Tls, get, post};
use hikyaku_store::testing::NaiveStore;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::CertificateDer},
};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    client::{note, patiently},
    relay::{Relay, config},
    wire::Wire,
};

pub(crate) struct Pair {
    certificate: String,
    key: String,
    der: CertificateDer<'static>,
}

pub(crate) fn pair() -> Pair {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    Pair {
        certificate: made.cert.pem(),
        key: made.signing_key.serialize_pem(),
        der: made.cert.der().clone(),
    }
}

impl Pair {
    fn tls(&self) -> Tls {
        Tls::new(self.certificate.as_bytes(), self.key.as_bytes()).unwrap()
    }

    /// Connects as somebody who trusts this certificate alone.
    pub(crate) async fn connect(
        &self,
        address: SocketAddr,
        protocols: &[&str],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().into())
            .collect();
        let stream = TcpStream::connect(address).await.unwrap();
        let name = "localhost".try_into().unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        patiently(connecting).await
    }
}

pub(crate) fn encrypted(pair: &Pair) -> ServerConfig {
    ServerConfig {
        tls: Some(pair.tls()),
        ..config()
    }
}

fn site(config: ServerConfig) -> Relay {
    let server = Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(async |_| Ok(()))
        .route(get("/hello/{name}"), async |(): &(), request: Request| {
            request.param::<String>("name")
        })
        .route(post("/length"), async |(): &(), request: Request| {
            request.bytes().await.map(|body| body.len().to_string())
        });
    Relay::serve(server)
}

#[tokio::test]
async fn a_websocket_is_served_encrypted() {
    let pair = pair();
    let relay = Relay::with(encrypted(&pair), Arc::new(NaiveStore::new()));
    let stream = pair.connect(relay.address, &["http/1.1"]).await.unwrap();
    let connecting = tokio_tungstenite::client_async("wss://localhost/", stream);
    let (mut socket, _) = patiently(Box::pin(connecting)).await.unwrap();
    let mut next = async || patiently(socket.next()).await.unwrap().unwrap();
    assert!(next().await.to_text().unwrap().starts_with("[\"AUTH\""));
    // More than what lies between us and the system, many times over.
    let events: Vec<_> = (0..8).map(|n| note(n, &"x".repeat(100_000))).collect();
    for event in &events {
        let json = std::str::from_utf8(event.json()).unwrap();
        let text = format!("[\"EVENT\",{json}]");
        patiently(socket.send(Message::text(text))).await.unwrap();
        let answer = patiently(socket.next()).await.unwrap().unwrap();
        let answer = answer.to_text().unwrap();
        assert!(
            answer.starts_with("[\"OK\"") && answer.contains("true"),
            "{answer}"
        );
    }
    patiently(socket.send(Message::text("[\"REQ\",\"a\",{}]")))
        .await
        .unwrap();
    let mut received = 0;
    loop {
        let message = patiently(socket.next()).await.unwrap().unwrap();
        let text = message.to_text().unwrap();
        if text.starts_with("[\"EOSE\"") {
            break;
        }
        assert!(text.len() > 100_000);
        received += 1;
    }
    assert_eq!(received, events.len());
    patiently(socket.close(None)).await.unwrap();
}

#[tokio::test]
async fn who_asks_and_never_takes_is_closed_though_it_says_that_it_is_there() {
    let pair = pair();
    let mut config = encrypted(&pair);
    config.http_timeout = Duration::from_secs(1);
    // Time is counted in parts of it.
    config.close_timeout = Duration::from_millis(80);
    let relay = site(config);
    let stream = pair.connect(relay.address, &["h2"]).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(hyper_util::rt::TokioTimer::new())
        .initial_stream_window_size(0)
        .keep_alive_interval(Duration::from_millis(50))
        .keep_alive_while_idle(true)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let mut connection = tokio::spawn(connection);
    let request = hyper::Request::get("https://localhost/hello/you").body(Full::new(Bytes::new()));
    let answer = patiently(sender.send_request(request.unwrap()))
        .await
        .unwrap();
    patiently(&mut connection).await.unwrap().unwrap_err();
    drop(answer);
}

#[tokio::test]
async fn http_2_is_spoken_with_who_can() {
    let pair = pair();
    let relay = site(encrypted(&pair));
    let stream = pair
        .connect(relay.address, &["h2", "http/1.1"])
        .await
        .unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let ask = |method: &str, path: String, body: Bytes| {
        let request = hyper::Request::builder()
            .method(method)
            .uri(format!("https://localhost{path}"))
            .body(Full::new(body))
            .unwrap();
        let mut sender = sender.clone();
        async move {
            let response = patiently(sender.send_request(request)).await.unwrap();
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            (status, String::from_utf8(body.into()).unwrap())
        }
    };
    // All on one connection, at the same time.
    let all = futures_util::future::join_all(
        (0..50).map(|n| ask("GET", format!("/hello/{n}"), Bytes::new())),
    );
    for (n, answer) in patiently(all).await.into_iter().enumerate() {
        assert_eq!(answer, (200, n.to_string()));
    }
    // A head tells the length of the body that it has not.
    let head = hyper::Request::head("https://localhost/hello/you").body(Full::new(Bytes::new()));
    let head = patiently(sender.clone().send_request(head.unwrap()))
        .await
        .unwrap();
    assert_eq!(head.status().as_u16(), 200);
    assert_eq!(head.headers()["content-length"], "3");
    let body = patiently(head.into_body().collect())
        .await
        .unwrap()
        .to_bytes();
    assert!(body.is_empty());
    let body = Bytes::from(vec![b'x'; 300_000]);
    let answer = ask("POST", "/length".to_owned(), body).await;
    assert_eq!(answer, (200, "300000".to_owned()));
    let too_much = Bytes::from(vec![b'x'; 2_000_000]);
    assert_eq!(ask("POST", "/length".to_owned(), too_much).await.0, 413);
    assert_eq!(ask("GET", "/".to_owned(), Bytes::new()).await.0, 200);
    assert_eq!(ask("GET", "/nothing".to_owned(), Bytes::new()).await.0, 404);
    // The server would wait for it at the end.
    connection.abort();
    assert!(connection.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn a_shutdown_ends_http_2_in_order() {
    let pair = pair();
    let relay = site(encrypted(&pair));
    let stream = pair.connect(relay.address, &["h2"]).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let request = hyper::Request::get("https://localhost/hello/x")
        .body(Full::new(Bytes::new()))
        .unwrap();
    let response = patiently(sender.send_request(request)).await.unwrap();
    assert_eq!(response.status(), 200);
    drop(response);
    let joined = tokio::task::spawn_blocking(move || relay.join());
    patiently(connection).await.unwrap().unwrap();
    patiently(joined).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_new_certificate_is_shown_without_a_restart() {
    let (first, second) = (pair(), pair());
    let config = encrypted(&first);
    let tls = config.tls.clone().unwrap();
    let relay = Relay::with(config, Arc::new(NaiveStore::new()));
    let mut open = first.connect(relay.address, &[]).await.unwrap();
    assert!(second.connect(relay.address, &[]).await.is_err());
    let (certificate, key) = (second.certificate.as_bytes(), second.key.as_bytes());
    assert!(tls.replace(certificate, first.key.as_bytes()).is_err());
    assert!(first.connect(relay.address, &[]).await.is_ok());
    tls.replace(certificate, key).unwrap();
    assert!(second.connect(relay.address, &[]).await.is_ok());
    assert!(first.connect(relay.address, &[]).await.is_err());
    // Who was connected stays so.
    let request = b"GET / HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n";
    patiently(open.write_all(request)).await.unwrap();
    let mut answer = Vec::new();
    patiently(open.read_to_end(&mut answer)).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
}

#[tokio::test]
async fn who_speaks_no_tls_is_told() {
    let relay = Relay::with(encrypted(&pair()), Arc::new(NaiveStore::new()));
    let answer = Wire::request(relay.address, "GET / HTTP/1.1\r\nHost: r\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("https"), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains(&format!("content-length: {}", body.len())),
        "{answer}"
    );
}

#[tokio::test]
async fn who_dawdles_over_the_handshake_is_cut_off() {
    let mut config = encrypted(&pair());
    config.header_timeout = Duration::from_millis(50);
    let relay = Relay::with(config, Arc::new(NaiveStore::new()));
    for beginning in [&b""[..], b"\x16\x03\x01"] {
        let mut wire = Wire::connect(relay.address).await;
        wire.send(beginning).await;
        let mut rest = Vec::new();
        // Cut, one way or the other.
        let _ = patiently(wire.stream.read_to_end(&mut rest)).await;
    }
}
