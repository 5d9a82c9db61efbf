//! The access log: what is written of which request, and what happens when it can't be.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, mpsc},
};

use bytes::Bytes;
use futures_util::stream;
use hikyaku_server::{AccessLog, AccessLogFormat, Body, Request, Response, Server, get};
use hikyaku_store::testing::NaiveStore;
use http_body_util::StreamBody;
use serde_json::Value;

use crate::{
    client::Client,
    relay::{Relay, config},
    routes::request,
    wire::Wire,
};

/// What was written, to be read by the test.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn lines(&self) -> Vec<Value> {
        let bytes = self.0.lock().unwrap();
        let text = std::str::from_utf8(&bytes).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn relay(log: &AccessLog) -> Relay {
    let mut config = config();
    config.access_log = Some(log.clone());
    config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    let server = Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(async |_| Ok(()))
        .route(get("/pages/{id}"), async |(): &(), request: Request| {
            request.id().to_owned()
        })
        .route(get("/stream"), async |(): &(), _: Request| {
            let pieces = ["one", "two"].map(|piece| {
                Ok::<_, io::Error>(http_body::Frame::data(Bytes::from_static(piece.as_bytes())))
            });
            Response::new(Body::new(StreamBody::new(stream::iter(pieces))))
        });
    Relay::serve(server)
}

#[tokio::test]
async fn each_request_has_a_line_with_what_became_of_it() {
    let written = Written::default();
    let into = written.clone();
    let log = AccessLog::start(AccessLogFormat::Json, move || Ok(into.clone())).unwrap();
    let relay = relay(&log);
    let headers = "X-Forwarded-For: 192.0.2.7\r\nX-Request-Id: mine\r\nUser-Agent: a\"\tb\r\n\
                   Referer: http://x/y?token=secret#z\r\n";
    request(relay.address, "GET", "/pages/1?token=secret", headers, "").await;
    request(relay.address, "HEAD", "/pages/2", "", "").await;
    request(relay.address, "GET", "/nothing", "", "").await;
    let streamed = "GET /stream HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n";
    Wire::request_bytes(relay.address, streamed.as_bytes()).await;
    let client = Client::connect(relay.address).await;
    drop(client);
    relay.join().unwrap();
    log.close();
    let lines = written.lines();
    let of = |path: &str| -> Vec<&Value> {
        let of = lines.iter().filter(|line| line["path"] == path);
        of.collect()
    };
    let page = of("/pages/1")[0];
    assert_eq!(page["address"], "192.0.2.7");
    assert_eq!(page["request_id"], "mine");
    assert_eq!(page["agent"], "a\"\tb");
    assert_eq!(page["referer"], "http://x/y");
    assert_eq!((&page["status"], &page["bytes"]), (&200.into(), &4.into()));
    let head = of("/pages/2")[0];
    assert_eq!(head["method"], "HEAD");
    assert_eq!((&head["status"], &head["bytes"]), (&200.into(), &0.into()));
    assert_eq!(head["request_id"].as_str().unwrap().len(), 16);
    assert_eq!(of("/nothing")[0]["status"], 404);
    assert_eq!(of("/stream")[0]["bytes"], 6);
    let [opening, end] = of("/")[..] else {
        panic!("{lines:?}");
    };
    assert_eq!(opening["protocol"], "HTTP/1.1");
    assert_eq!(end["protocol"], "WebSocket");
    assert_eq!(opening["bytes"], 0);
    assert!(end["bytes"].as_u64().unwrap() > 0, "{end}");
    for line in [opening, end] {
        assert_eq!(line["status"], 101);
        assert_eq!(line["request_id"], opening["request_id"]);
    }
    assert_eq!(lines.len(), 6);
}

#[tokio::test]
async fn a_request_whose_client_goes_away_has_the_name_that_its_handler_knows() {
    let written = Written::default();
    let into = written.clone();
    let log = AccessLog::start(AccessLogFormat::Json, move || Ok(into.clone())).unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let mut config = config();
    config.access_log = Some(log.clone());
    let server = Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(async |_| Ok(()))
        .route(get("/endless"), async move |(): &(), request: Request| {
            tell.send(request.id().to_owned()).unwrap();
            std::future::pending::<&str>().await
        });
    let relay = Relay::serve(server);
    let mut wire = Wire::connect(relay.address).await;
    wire.send(b"GET /endless HTTP/1.1\r\nHost: r\r\n\r\n").await;
    let name = told.recv().await.unwrap();
    drop(wire);
    relay.join().unwrap();
    log.close();
    let lines = written.lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(
        (&lines[0]["status"], &lines[0]["request_id"]),
        (&0.into(), &name.into())
    );
}

/// Writes nothing until it is let.
struct Stuck(mpsc::Receiver<()>, Written);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Whoever holds it has let it go for good.
        let _ = self.0.recv();
        self.1.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_disk_that_is_stuck_holds_nobody_up_and_what_is_lost_is_counted() {
    let written = Written::default();
    let (release, held) = mpsc::channel();
    let mut stuck = Some(Stuck(held, written.clone()));
    let log = AccessLog::start(AccessLogFormat::Json, move || Ok(stuck.take().unwrap())).unwrap();
    let relay = relay(&log);
    let mut wire = Wire::connect(relay.address).await;
    let requests = "GET /pages/1 HTTP/1.1\r\nHost: r\r\n\r\n".repeat(100);
    let mut answered = 0_u64;
    while relay.figure("hikyaku_access_log_dropped_total") < 1.0 {
        wire.send(requests.as_bytes()).await;
        for _ in 0..100 {
            crate::routes::receive(&mut wire, false).await;
            answered += 1;
        }
    }
    drop(wire);
    drop(release);
    let metrics = relay.metrics.clone();
    relay.join().unwrap();
    log.close();
    let text = metrics.render();
    let dropped = text
        .lines()
        .find_map(|line| line.strip_prefix("hikyaku_access_log_dropped_total "))
        .unwrap();
    let kept = written.lines().len() as u64;
    assert_eq!(kept + dropped.parse::<u64>().unwrap(), answered);
}

#[tokio::test]
async fn what_the_disk_refuses_is_counted_and_written_no_more() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let log = AccessLog::start(AccessLogFormat::Combined, || Ok(Full)).unwrap();
    let relay = relay(&log);
    request(relay.address, "GET", "/pages/1", "", "").await;
    let metrics = relay.metrics.clone();
    relay.join().unwrap();
    log.close();
    let text = metrics.render();
    assert!(
        text.contains("\nhikyaku_access_log_dropped_total 1\n"),
        "{text}"
    );
}
