//! Handlers that fail, dawdle, block, or are left alone: they hurt one request, and are named.

use std::{
    cell::RefCell,
    pin::Pin,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Poll},
    time::Duration,
};

use hikyaku_event::{
    Event, Filter, PublicKey,
    testing::{Author, EventBuilder},
};
use hikyaku_server::{Body, Client, NoPlugins, QueryVerdict, Request, Server, Verdict, With, get};
use hikyaku_store::testing::NaiveStore;
use serde_json::json;
use tokio::sync::{Notify, oneshot};

use crate::{
    client::{Client as NostrClient, note, patiently},
    relay::{Relay, config},
    routes::{ask, receive, request},
    wire::Wire,
};

struct Careless;

fn server() -> Server<With<Careless, NoPlugins>> {
    Server::new(config(), Arc::new(NaiveStore::new())).plugin(async |_| Ok(Careless))
}

fn figure(relay: &Relay, name: &str, handler: &str) -> f64 {
    relay.figure(&format!(
        "hikyaku_handler_{name}_total{{plugin=\"Careless\",handler=\"{handler}\"}}"
    ))
}

#[tokio::test]
async fn a_panic_in_any_handler_hurts_one_request() {
    let relay = Relay::serve(
        server()
            .route(get("/panic"), async |_: &Careless, _: Request| -> &str {
                panic!("on purpose")
            })
            .route(get("/fine"), async |_: &Careless, _: Request| "fine")
            .on_event(async |_: &Careless, _: &Client, event: &Event| {
                assert_ne!(event.content(), "panic", "on purpose");
                Verdict::Accept
            })
            .after_event(async |_: &Careless, _: &Client, _: &Event| panic!("on purpose"))
            .after_deletion(async |_: &Careless, _: &Client, _: &Event| {
                tokio::task::yield_now().await;
                panic!("on purpose")
            })
            .on_query(async |_: &Careless, _: &Client, filters: &[Filter]| {
                assert!(filters[0].kinds.is_none(), "on purpose");
                QueryVerdict::Accept
            })
            .after_auth(async |_: &Careless, _: &Client, _: &PublicKey| panic!("on purpose"))
            .on_open(async |_: &Careless, _: &Client| panic!("on purpose"))
            .on_close(async |_: &Careless, _: &Client| panic!("on purpose")),
    );
    let mut client = NostrClient::connect(relay.address).await;
    let (accepted, reason) = client.publish(&note(1, "panic")).await;
    assert!(!accepted && reason.starts_with("error: "), "{reason}");
    let event = note(1, "hello");
    assert_eq!(client.publish(&event).await, (true, String::new()));
    let author = Author::new(1);
    assert!(client.authenticate(&author).await.0);
    client.send(json!(["REQ", "s", {"kinds": [1]}])).await;
    let closed = client.receive().await;
    assert_eq!(closed[0], "CLOSED", "{closed}");
    assert!(
        closed[2].as_str().unwrap().starts_with("error: "),
        "{closed}"
    );
    assert_eq!(client.subscribe("s", json!({})).await.len(), 1);
    let deletion = crate::client::now(5)
        .tag(["e", &event.id().to_hex()])
        .sign(&author);
    assert!(client.publish(&deletion).await.0);

    let mut wire = Wire::connect(relay.address).await;
    let answer = ask(&mut wire, "GET", "/panic", "", "").await;
    assert_eq!(answer.status, 500, "{answer:?}");
    assert!(!answer.body.contains("purpose"), "{answer:?}");
    let answer = ask(&mut wire, "GET", "/fine", "", "").await;
    assert_eq!(answer.body, "fine");
    drop((client, wire));
    for (handler, panics) in [
        ("GET /panic", 1.0),
        ("GET /fine", 0.0),
        ("on_event", 1.0),
        ("after_event", 2.0),
        ("on_query", 1.0),
        ("after_auth", 1.0),
        ("on_open", 1.0),
    ] {
        assert_eq!(figure(&relay, "panics", handler), panics, "{handler}");
    }
    let metrics = relay.metrics.clone();
    relay.join().unwrap();
    for handler in ["after_deletion", "on_close"] {
        let line =
            format!("hikyaku_handler_panics_total{{plugin=\"Careless\",handler=\"{handler}\"}} 1");
        let text = metrics.render();
        assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
    }
}

/// Sends a little, and panics.
struct Breaking(bool);

impl http_body::Body for Breaking {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
        assert!(!std::mem::replace(&mut self.0, true), "on purpose");
        Poll::Ready(Some(Ok(http_body::Frame::data("a part".into()))))
    }
}

#[tokio::test]
async fn a_stream_that_panics_is_a_part_of_its_call() {
    let relay = Relay::serve(
        server()
            .route(get("/stream"), async |_: &Careless, _: Request| {
                Body::new(Breaking(false))
            })
            .route(get("/fine"), async |_: &Careless, _: Request| "fine"),
    );
    let request = "GET /stream HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n";
    let answer = Wire::request(relay.address, request).await;
    // It breaks off, if it begins at all, and nobody can take it for whole.
    assert!(!answer.ends_with("0\r\n\r\n"), "{answer}");
    let (_, answer) = crate::routes::request(relay.address, "GET", "/fine", "", "").await;
    assert_eq!(answer.body, "fine");
    assert_eq!(figure(&relay, "panics", "GET /stream"), 1.0);
}

/// Panics when it goes.
struct Explosive;

impl Drop for Explosive {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

#[tokio::test]
async fn a_panic_of_a_service_or_of_what_a_client_leaves_behind_is_counted() {
    let service = axum::Router::new().route(
        "/panic",
        axum::routing::get(async || -> &str { panic!("on purpose") }),
    );
    let relay = Relay::serve(server().mount("/app", service).route(
        get("/wait"),
        async |_: &Careless, _: Request| -> &str {
            let _explosive = Explosive;
            std::future::pending().await
        },
    ));
    let (_, answer) = request(relay.address, "GET", "/app/panic", "", "").await;
    assert_eq!(answer.status, 500, "{answer:?}");
    let panics = "hikyaku_handler_panics_total{plugin=\"mounted\",handler=\"/app\"}";
    assert_eq!(relay.figure(panics), 1.0);
    let mut wire = Wire::connect(relay.address).await;
    wire.send(b"GET /wait HTTP/1.1\r\nHost: r\r\n\r\n").await;
    drop(wire);
    reaches(&relay, "panics", "GET /wait", 1.0).await;
}

#[tokio::test]
async fn a_handler_that_never_ends_is_given_up() {
    let mut config = config();
    config.handler_timeout = Duration::from_millis(20);
    let relay = Relay::serve(
        Server::new(config, Arc::new(NaiveStore::new()))
            .plugin(async |_| Ok(Careless))
            .route(get("/never"), async |_: &Careless, _| -> String {
                std::future::pending().await
            })
            .on_event(async |_: &Careless, _: &Client, event: &Event| {
                if event.content() == "never" {
                    std::future::pending::<()>().await;
                }
                Verdict::Accept
            })
            .on_query(async |_: &Careless, _: &Client, _: &[Filter]| std::future::pending().await),
    );
    let (mut wire, answer) = request(relay.address, "GET", "/never", "", "").await;
    assert_eq!(answer.status, 503, "{answer:?}");
    let answer = ask(&mut wire, "GET", "/never", "", "").await;
    assert_eq!(answer.status, 503, "the connection goes on");
    let mut client = NostrClient::connect(relay.address).await;
    let (accepted, reason) = client.publish(&note(1, "never")).await;
    assert!(!accepted && reason.starts_with("error: "), "{reason}");
    assert!(client.publish(&note(1, "hello")).await.0);
    client.send(json!(["REQ", "s", {}])).await;
    assert_eq!(client.receive().await[0], "CLOSED");
    assert_eq!(figure(&relay, "timeouts", "GET /never"), 2.0);
    assert_eq!(figure(&relay, "timeouts", "on_event"), 1.0);
    assert_eq!(figure(&relay, "timeouts", "on_query"), 1.0);
}

#[tokio::test]
async fn who_is_told_and_never_ends_is_given_up_and_nobody_waits_for_it() {
    async fn never() {
        std::future::pending::<()>().await;
    }
    let mut config = config();
    config.handler_timeout = Duration::from_millis(20);
    let relay = Relay::serve(
        Server::new(config, Arc::new(NaiveStore::new()))
            .plugin(async |_| Ok(Careless))
            .after_event(async |_: &Careless, _: &Client, _: &Event| never().await)
            .after_deletion(async |_: &Careless, _: &Client, _: &Event| never().await)
            .after_auth(async |_: &Careless, _: &Client, _: &PublicKey| never().await)
            .on_open(async |_: &Careless, _: &Client| never().await)
            .on_close(async |_: &Careless, _: &Client| never().await),
    );
    let mut client = NostrClient::connect(relay.address).await;
    assert!(client.publish(&note(1, "hello")).await.0);
    let deletion = EventBuilder::new(5).tag(["e", &note(1, "hello").id().to_hex()]);
    assert!(client.publish(&deletion.sign(&Author::new(1))).await.0);
    assert!(client.authenticate(&Author::new(1)).await.0);
    drop(client);
    for (handler, timeouts) in [
        ("on_open", 1.0),
        ("after_event", 2.0),
        ("after_deletion", 1.0),
        ("after_auth", 1.0),
        ("on_close", 1.0),
    ] {
        reaches(&relay, "timeouts", handler, timeouts).await;
    }
    assert!(
        NostrClient::connect(relay.address)
            .await
            .publish(&note(2, "hello"))
            .await
            .0
    );
}

/// Waits until a figure is there; it comes from another thread.
async fn reaches(relay: &Relay, name: &str, handler: &str, value: f64) {
    patiently(async {
        while figure(relay, name, handler) < value {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn who_is_told_something_and_never_ends_is_given_up_too() {
    let mut config = config();
    config.handler_timeout = Duration::from_millis(20);
    let relay = Relay::serve(
        Server::new(config, Arc::new(NaiveStore::new()))
            .plugin(async |_| Ok(Careless))
            .after_event(async |_: &Careless, _: &Client, _: &Event| std::future::pending().await),
    );
    let mut client = NostrClient::connect(relay.address).await;
    assert!(client.publish(&note(1, "hello")).await.0);
    reaches(&relay, "timeouts", "after_event", 1.0).await;
    drop(client);
    relay.join().unwrap();
}

#[tokio::test]
async fn a_worker_that_was_held_takes_its_own_connections_again() {
    struct Place(usize);
    let (entered, mut enters) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let relay = Relay::serve(
        server()
            .plugin(async |worker: hikyaku_server::Worker| Ok(Place(worker.index())))
            .route(get("/hold"), async move |_: &Careless, _| {
                entered.send(()).unwrap();
                released.lock().unwrap().recv().unwrap();
                "held"
            })
            .route(get("/place"), async |p: &Place, _| p.0.to_string()),
    );
    // Long enough for the watchdog to have gone to sleep: whoever comes in then wakes it.
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    let mut holding = Wire::connect(relay.address).await;
    holding.send(b"GET /hold HTTP/1.1\r\nHost: r\r\n\r\n").await;
    patiently(enters.recv()).await.unwrap();
    reaches(&relay, "holds", "GET /hold", 1.0).await;
    release.send(()).unwrap();
    assert_eq!(receive(&mut holding, false).await.body, "held");
    let mut places = std::collections::HashSet::new();
    let mut open = Vec::new();
    patiently(async {
        while places.len() < 2 {
            let (wire, answer) = request(relay.address, "GET", "/place", "", "").await;
            places.insert(answer.body);
            open.push(wire);
        }
    })
    .await;
}

#[tokio::test]
async fn who_holds_a_worker_is_named_and_new_connections_go_to_the_others() {
    let (entered, mut enters) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let relay = Relay::serve(
        server()
            .route(get("/hold"), async move |_: &Careless, _| {
                entered.send(()).unwrap();
                released.lock().unwrap().recv().unwrap();
                "held"
            })
            .route(get("/fine"), async |_: &Careless, _| "fine"),
    );
    let mut holding = Wire::connect(relay.address).await;
    holding.send(b"GET /hold HTTP/1.1\r\nHost: r\r\n\r\n").await;
    patiently(enters.recv()).await.unwrap();
    reaches(&relay, "holds", "GET /hold", 1.0).await;
    // By chance half of them knock at the held worker's door.
    let mut open = Vec::new();
    for _ in 0..24 {
        let (wire, answer) = request(relay.address, "GET", "/fine", "", "").await;
        assert_eq!(answer.body, "fine");
        open.push(wire);
    }
    release.send(()).unwrap();
    assert_eq!(receive(&mut holding, false).await.body, "held");
    assert_eq!(figure(&relay, "holds", "GET /hold"), 1.0);
    assert_eq!(figure(&relay, "holds", "GET /fine"), 0.0);
}

/// Tells when it is dropped.
struct Farewell(Option<oneshot::Sender<()>>);

impl Drop for Farewell {
    fn drop(&mut self) {
        let _ = self.0.take().unwrap().send(());
    }
}

#[tokio::test]
async fn a_handler_whose_client_hangs_up_is_dropped() {
    struct Waiting(RefCell<Vec<oneshot::Sender<()>>>);
    let (gone, left) = oneshot::channel();
    let gone = Arc::new(Mutex::new(Some(gone)));
    let mut config = config();
    config.workers = std::num::NonZeroUsize::new(1);
    let relay = Relay::serve(
        Server::new(config, Arc::new(NaiveStore::new()))
            .plugin(move |_| async move {
                let gone = gone.lock().unwrap().take().unwrap();
                Ok(Waiting(RefCell::new(vec![gone])))
            })
            .route(get("/wait"), async |p: &Waiting, _| -> String {
                let _farewell = Farewell(p.0.borrow_mut().pop());
                std::future::pending().await
            })
            .route(get("/fine"), async |p: &Waiting, _| {
                p.0.borrow().len().to_string()
            }),
    );
    let mut wire = Wire::connect(relay.address).await;
    wire.send(b"GET /wait HTTP/1.1\r\nHost: r\r\n\r\n").await;
    // Once another is answered, this one waits.
    patiently(async {
        while request(relay.address, "GET", "/fine", "", "").await.1.body != "0" {}
    })
    .await;
    drop(wire);
    patiently(left).await.unwrap();
}

#[tokio::test]
async fn a_request_under_way_is_answered_before_the_end() {
    let (entered, mut enters) = tokio::sync::mpsc::unbounded_channel();
    let release = Arc::new(Notify::new());
    let released = Arc::clone(&release);
    let mut relay = Relay::serve(server().route(get("/slow"), async move |_: &Careless, _| {
        entered.send(()).unwrap();
        released.notified().await;
        "done"
    }));
    let idle = Wire::connect(relay.address).await;
    let mut wire = Wire::connect(relay.address).await;
    wire.send(b"GET /slow HTTP/1.1\r\nHost: r\r\n\r\n").await;
    patiently(enters.recv()).await.unwrap();
    relay.begin_shutdown();
    release.notify_one();
    let answer = receive(&mut wire, false).await;
    assert_eq!(answer.body, "done");
    relay.join().unwrap();
    drop(idle);
}
