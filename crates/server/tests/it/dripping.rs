//! Clients that send or take a byte now and then: each is ended by the limit that is there for it, and who
//! has a reason to wait is not.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hikyaku_server::{Body, NoPlugins, Problem, Request, Server, ServerConfig, With, get, post};
use hikyaku_store::testing::NaiveStore;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
};

use crate::{
    client::patiently,
    relay::{Relay, config},
    routes::ask,
    wire::Wire,
};

struct Site;

fn server(config: ServerConfig) -> Server<With<Site, NoPlugins>> {
    Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(async |_| Ok(Site))
        .route(get("/fine"), async |_: &Site, _: Request| "fine")
}

async fn length(_: &Site, request: Request) -> Result<String, Problem> {
    Ok(request.bytes().await?.len().to_string())
}

/// Sends a byte after the other until there is an answer, and returns it.
async fn drip(wire: &mut Wire) -> String {
    let (mut reading, mut writing) = wire.stream.split();
    let mut answer = vec![0; 4096];
    let dripping = async {
        while writing.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        std::future::pending::<()>().await;
    };
    let read = tokio::select! {
        read = patiently(reading.read(&mut answer)) => read.unwrap_or(0),
        () = dripping => 0,
    };
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

#[tokio::test]
async fn a_body_that_drips_has_the_time_of_its_handler() {
    let mut config = config();
    config.handler_timeout = Duration::from_millis(100);
    let long = post("/long").timeout(Duration::from_mins(1));
    let relay = Relay::serve(
        server(config)
            .route(post("/length"), length)
            .route(long, length),
    );
    let mut wire = Wire::connect(relay.address).await;
    wire.send(b"POST /length HTTP/1.1\r\nHost: r\r\nContent-Length: 1000000\r\n\r\n")
        .await;
    let answer = drip(&mut wire).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    // Another may have more time.
    let mut wire = Wire::connect(relay.address).await;
    wire.send(b"POST /long HTTP/1.1\r\nHost: r\r\nContent-Length: 50\r\n\r\n")
        .await;
    let answer = drip(&mut wire).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn a_route_has_limits_of_its_own() {
    let mut config = config();
    config.body_bytes_max = 10;
    let relay = Relay::serve(
        server(config)
            .route(post("/small"), length)
            .route(post("/large").body_bytes_max(1000), length)
            .route(
                get("/slow").timeout(Duration::from_millis(20)),
                async |_: &Site, _: Request| std::future::pending::<&str>().await,
            ),
    );
    let mut wire = Wire::connect(relay.address).await;
    for (path, bytes, status) in [
        ("/small", 10, 200),
        ("/large", 1000, 200),
        ("/large", 1001, 413),
    ] {
        let answer = ask(&mut wire, "POST", path, "", &"x".repeat(bytes)).await;
        assert_eq!(answer.status, status, "{path} {bytes}");
    }
    let mut wire = Wire::connect(relay.address).await;
    assert_eq!(ask(&mut wire, "GET", "/slow", "", "").await.status, 503);
    let answer = ask(&mut wire, "POST", "/small", "", "eleven byte").await;
    assert_eq!(answer.status, 413);
}

#[tokio::test]
async fn a_head_that_drips_is_cut_off_also_after_others() {
    let mut config = config();
    config.header_timeout = Duration::from_millis(100);
    let relay = Relay::serve(server(config));
    for before in [0, 2] {
        let mut wire = Wire::connect(relay.address).await;
        for _ in 0..before {
            assert_eq!(ask(&mut wire, "GET", "/fine", "", "").await.body, "fine");
        }
        wire.send(b"GET /fine HTTP/1.1\r\nHost: r\r\nX-Slow: ")
            .await;
        assert_eq!(drip(&mut wire).await, "");
    }
    // Nor does one stay that says nothing more.
    let mut wire = Wire::connect(relay.address).await;
    assert_eq!(ask(&mut wire, "GET", "/fine", "", "").await.body, "fine");
    assert_eq!(patiently(wire.stream.read(&mut [0])).await.unwrap_or(0), 0);
}

/// Makes a part, waits for much longer than a head may take, and makes the next.
struct Parts(u32, Pin<Box<tokio::time::Sleep>>);

const PAUSE: Duration = Duration::from_millis(300);

impl http_body::Body for Parts {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        if self.0 == 0 {
            return Poll::Ready(None);
        }
        std::task::ready!(self.1.as_mut().poll(cx));
        self.0 -= 1;
        self.1 = Box::pin(tokio::time::sleep(PAUSE));
        Poll::Ready(Some(Ok(http_body::Frame::data("part".into()))))
    }
}

#[tokio::test]
async fn who_waits_for_an_answer_need_not_ask_anew() {
    let mut config = config();
    config.header_timeout = Duration::from_millis(20);
    let relay = Relay::serve(
        server(config).route(get("/parts"), async |_: &Site, _: Request| {
            tokio::time::sleep(PAUSE).await;
            Body::new(Parts(3, Box::pin(tokio::time::sleep(PAUSE))))
        }),
    );
    let request = "GET /parts HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n";
    let answer = Wire::request(relay.address, request).await;
    assert_eq!(answer.matches("part").count(), 3, "{answer}");
    assert!(answer.ends_with("0\r\n\r\n"), "{answer}");
}

/// Bytes without end, until nobody takes them.
struct Endless(mpsc::UnboundedSender<()>);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        Poll::Ready(Some(Ok(http_body::Frame::data(Bytes::from_static(
            &[b'x'; 16 * 1024],
        )))))
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test]
async fn who_takes_an_answer_by_the_byte_is_cut_off() {
    let mut config = config();
    config.http_timeout = Duration::from_millis(200);
    config.close_timeout = Duration::from_millis(100);
    let (gone, mut is_gone) = mpsc::unbounded_channel();
    let relay = Relay::serve(
        server(config).route(get("/endless"), async move |_: &Site, _: Request| {
            Body::new(Endless(gone.clone()))
        }),
    );
    let mut wire = Wire::connect(relay.address).await;
    wire.send(b"GET /endless HTTP/1.1\r\nHost: r\r\n\r\n").await;
    let dripping = async {
        loop {
            let _ = wire.stream.read(&mut [0]).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        gone = patiently(is_gone.recv()) => assert_eq!(gone, Some(())),
        () = dripping => {}
    }
}
