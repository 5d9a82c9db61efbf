//! What handlers decide about events and queries, and what they are told.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use futures_util::SinkExt;
use hikyaku_event::{Event, Filter, Kind, PublicKey, testing::Author};
use hikyaku_server::{Client, QueryVerdict, Server, Verdict};
use hikyaku_store::testing::NaiveStore;
use serde_json::json;
use tokio::sync::{
    Notify,
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    client::{Client as NostrClient, note, now, patiently},
    relay::{Relay, config},
};

fn server() -> Server {
    Server::new(config(), Arc::new(NaiveStore::new()))
}

/// Decides by what an event says.
struct Words;

async fn by_words(_: &Words, client: &Client, event: &Event) -> Verdict {
    assert!(client.address().is_loopback());
    match event.content().as_ref() {
        "no" => Verdict::reject("no \"no\" here"),
        "invalid" => Verdict::reject("invalid: not that"),
        "shadow" => Verdict::ShadowReject,
        "done" => Verdict::Answer("info: it is \"done\"".into()),
        "auth" => Verdict::RequireAuth,
        "mine" if !client.has_key(&event.pubkey()) => Verdict::reject("restricted: not yours"),
        "work" => Verdict::RequireWork { bits: 250 },
        "wait" => {
            tokio::task::yield_now().await;
            Verdict::Accept
        }
        _ => Verdict::Accept,
    }
}

#[tokio::test]
async fn a_verdict_decides_about_an_event() {
    let relay = Relay::serve(server().plugin(async |_| Ok(Words)).on_event(by_words));
    let mut client = NostrClient::connect(relay.address).await;
    for (content, accepted, reason, stored) in [
        ("yes", true, "", true),
        ("wait", true, "", true),
        ("no", false, "blocked: no \"no\" here", false),
        ("invalid", false, "invalid: not that", false),
        ("shadow", true, "", false),
        ("done", true, "info: it is \"done\"", false),
        ("auth", false, "auth-required: ", false),
        ("mine", false, "restricted: not yours", false),
        ("work", false, "pow: difficulty ", false),
    ] {
        let event = note(1, content);
        let (ok, text) = client.publish(&event).await;
        assert_eq!(ok, accepted, "{content}: {text}");
        assert!(text.starts_with(reason), "{content}: {text}");
        let found = client
            .subscribe("s", json!({"ids": [event.id().to_hex()]}))
            .await;
        assert_eq!(!found.is_empty(), stored, "{content}");
    }
    let author = Author::new(1);
    client.authenticate(&author).await;
    for content in ["auth", "mine"] {
        assert_eq!(
            client.publish(&note(1, content)).await,
            (true, String::new())
        );
    }
    let figure =
        |outcome: &str| relay.figure(&format!("hikyaku_events_total{{outcome=\"{outcome}\"}}"));
    assert_eq!(figure("rejected"), 5.0);
    assert_eq!(figure("shadowed"), 1.0);
}

#[tokio::test]
async fn ephemeral_events_are_decided_about_too() {
    let relay = Relay::serve(server().plugin(async |_| Ok(Words)).on_event(by_words));
    let mut listener = NostrClient::connect(relay.address).await;
    listener.subscribe("s", json!({"kinds": [20001]})).await;
    let mut client = NostrClient::connect(relay.address).await;
    let author = Author::new(1);
    let refused = now(20001).content("no").sign(&author);
    assert!(!client.publish(&refused).await.0);
    let taken = now(20001).content("yes").sign(&author);
    assert!(client.publish(&taken).await.0);
    assert_eq!(listener.receive_event("s").await, taken.id().to_hex());
}

#[tokio::test]
async fn answers_come_in_order_though_some_take_longer() {
    let relay = Relay::serve(server().plugin(async |_| Ok(Words)).on_event(by_words));
    let mut client = NostrClient::connect(relay.address).await;
    let events: Vec<_> = (0..30)
        .map(|index| {
            let content = ["wait", "yes", "no"][index % 3];
            now(1)
                .content(content)
                .tag(["n", &index.to_string()])
                .sign(&Author::new(1))
        })
        .collect();
    for event in &events {
        client.send_event(event).await;
    }
    for (index, event) in events.iter().enumerate() {
        let (accepted, _) = client.receive_ok(event).await;
        assert_eq!(accepted, index % 3 != 2, "{index}");
    }
}

#[tokio::test]
async fn all_events_that_came_together_are_asked_about_at_once() {
    /// How many are asked about, and the news of it.
    struct Together(Cell<usize>, Notify);
    let relay = Relay::serve(
        server()
            .plugin(async |_| Ok(Together(Cell::new(0), Notify::new())))
            .on_event(async |p: &Together, _: &Client, _: &Event| {
                p.0.set(p.0.get() + 1);
                p.1.notify_waiters();
                // Each waits until all three are asked about.
                while p.0.get() < 3 {
                    p.1.notified().await;
                }
                Verdict::Accept
            }),
    );
    let mut client = NostrClient::connect(relay.address).await;
    let events: Vec<_> = (0..3).map(|n| note(1, &n.to_string())).collect();
    for event in &events {
        let json = std::str::from_utf8(event.json()).unwrap();
        let message = Message::text(format!("[\"EVENT\",{json}]"));
        client.socket.feed(message).await.unwrap();
    }
    client.socket.flush().await.unwrap();
    for event in &events {
        assert_eq!(client.receive_ok(event).await, (true, String::new()));
    }
}

#[tokio::test]
async fn each_sees_what_those_before_it_have_left_of_a_query() {
    struct First;
    struct Second;
    let only = |kind| Filter {
        kinds: Some(vec![Kind(kind)]),
        ..Filter::default()
    };
    let relay = Relay::serve(
        server()
            .plugin(async |_| Ok(First))
            .plugin(async |_| Ok(Second))
            .on_query(async move |_: &First, _: &Client, filters: &[Filter]| {
                match filters[0].kinds.as_deref() {
                    Some([Kind(2)]) => QueryVerdict::Answer(vec![note(1, "made")]),
                    _ => QueryVerdict::Narrow(vec![only(1)]),
                }
            })
            .on_query(async |_: &Second, _: &Client, filters: &[Filter]| {
                assert_eq!(filters[0].kinds.as_deref(), Some(&[Kind(1)][..]));
                QueryVerdict::Accept
            }),
    );
    let mut client = NostrClient::connect(relay.address).await;
    let (one, seven) = (note(1, "one"), now(7).sign(&Author::new(1)));
    for event in [&one, &seven] {
        assert!(client.publish(event).await.0);
    }
    // The last accepts what the first has narrowed: it stays narrow.
    assert_eq!(client.subscribe("s", json!({})).await, [one.id().to_hex()]);
    // An answer of the handler's own is asked of nobody else, and counts nothing.
    let made = client.subscribe("r", json!({"kinds": [2]})).await;
    assert_eq!(made, [note(1, "made").id().to_hex()]);
    client.send(json!(["COUNT", "c", {"kinds": [2]}])).await;
    assert_eq!(client.receive().await[0], "CLOSED");
}

#[tokio::test]
async fn the_first_that_objects_decides() {
    struct Lenient;
    struct Strict;
    let relay = Relay::serve(
        server()
            .plugin(async |_| Ok(Lenient))
            .plugin(async |_| Ok(Strict))
            .on_event(async |_: &Lenient, _: &Client, _: &Event| Verdict::Accept)
            .on_event(async |_: &Strict, _: &Client, _: &Event| Verdict::reject("strict"))
            .on_event(async |_: &Lenient, _: &Client, _: &Event| -> Verdict {
                panic!("nobody asks after a refusal")
            }),
    );
    let mut client = NostrClient::connect(relay.address).await;
    let answer = client.publish(&note(1, "x")).await;
    assert_eq!(answer, (false, "blocked: strict".to_owned()));
}

/// Leaves kind 1 alone, answers kind 7 to nobody, and needs to know who asks for kind 30.
struct Kinds;

async fn by_kinds(_: &Kinds, _: &Client, filters: &[Filter]) -> QueryVerdict {
    let asks = |kind| {
        filters.iter().any(|filter| {
            filter
                .kinds
                .as_ref()
                .is_some_and(|kinds| kinds.contains(&Kind(kind)))
        })
    };
    tokio::task::yield_now().await;
    if asks(7) {
        QueryVerdict::refuse("no reactions here")
    } else if asks(30) {
        QueryVerdict::RequireAuth
    } else if asks(1) {
        QueryVerdict::Accept
    } else {
        let mut narrowed = filters.to_vec();
        for filter in &mut narrowed {
            filter.kinds = Some(vec![Kind(5), Kind(1), Kind(1)]);
        }
        QueryVerdict::Narrow(narrowed)
    }
}

#[tokio::test]
async fn a_query_is_refused_or_narrowed() {
    let relay = Relay::serve(server().plugin(async |_| Ok(Kinds)).on_query(by_kinds));
    let mut client = NostrClient::connect(relay.address).await;
    let (first, second) = (
        note(1, "first"),
        now(2).content("second").sign(&Author::new(1)),
    );
    for event in [&first, &second] {
        assert!(client.publish(event).await.0);
    }
    for (method, filter, word) in [
        (
            "REQ",
            json!({"kinds": [7]}),
            "restricted: no reactions here",
        ),
        (
            "COUNT",
            json!({"kinds": [7]}),
            "restricted: no reactions here",
        ),
        ("REQ", json!({"kinds": [30]}), "auth-required: "),
    ] {
        client.send(json!([method, "r", filter])).await;
        let answer = client.receive().await;
        assert_eq!(answer[0], "CLOSED", "{answer}");
        assert!(answer[2].as_str().unwrap().starts_with(word), "{answer}");
    }
    // The stored and the live part are narrowed alike.
    assert_eq!(
        client.subscribe("s", json!({})).await,
        [first.id().to_hex()]
    );
    client.send(json!(["COUNT", "c", {}])).await;
    assert_eq!(client.receive().await[2]["count"], 1);
    let mut other = NostrClient::connect(relay.address).await;
    let hidden = now(2).content("hidden").sign(&Author::new(2));
    let seen = note(2, "seen");
    other.publish(&hidden).await;
    other.publish(&seen).await;
    assert_eq!(client.receive_event("s").await, seen.id().to_hex());
    client.authenticate(&Author::new(1)).await;
    assert!(
        client
            .subscribe("k", json!({"kinds": [30]}))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn a_query_that_is_closed_while_it_is_decided_about_is_not_answered() {
    struct Never;
    let relay = Relay::serve(server().plugin(async |_| Ok(Never)).on_query(
        async |_: &Never, _: &Client, filters: &[Filter]| {
            if filters.iter().any(|filter| filter.kinds.is_some()) {
                std::future::pending::<()>().await;
            }
            QueryVerdict::Accept
        },
    ));
    let mut client = NostrClient::connect(relay.address).await;
    client.send(json!(["REQ", "s", {"kinds": [1]}])).await;
    client.send(json!(["CLOSE", "s"])).await;
    client.send(json!(["REQ", "r", {"kinds": [1]}])).await;
    assert!(client.subscribe("r", json!({})).await.is_empty());
}

#[tokio::test]
async fn a_query_narrowed_to_nothing_is_answered_at_once() {
    struct Nothing;
    let relay =
        Relay::serve(server().plugin(async |_| Ok(Nothing)).on_query(
            async |_: &Nothing, _: &Client, _: &[Filter]| QueryVerdict::Narrow(Vec::new()),
        ));
    let mut client = NostrClient::connect(relay.address).await;
    client.publish(&note(1, "hello")).await;
    assert!(client.subscribe("s", json!({})).await.is_empty());
}

/// Writes down what it is told.
struct Diary {
    tells: UnboundedSender<String>,
    open: RefCell<Vec<u64>>,
}

fn diary() -> (
    Server<hikyaku_server::With<Diary, hikyaku_server::NoPlugins>>,
    UnboundedReceiver<String>,
) {
    let (tells, hears) = unbounded_channel();
    let server = server()
        .plugin(move |_| async move {
            Ok(Diary {
                tells,
                open: RefCell::default(),
            })
        })
        .on_open(async |p: &Diary, client: &Client| {
            p.open.borrow_mut().push(client.connection());
            p.tells.send("open".into()).unwrap();
        })
        .after_auth(async |p: &Diary, client: &Client, key: &PublicKey| {
            assert!(client.has_key(key));
            p.tells.send(format!("auth {key}")).unwrap();
        })
        .after_event(async |p: &Diary, client: &Client, event: &Event| {
            tokio::task::yield_now().await;
            let keys = client.keys().len();
            p.tells
                .send(format!("event {} {keys}", event.id()))
                .unwrap();
        })
        .after_deletion(async |p: &Diary, _: &Client, event: &Event| {
            p.tells.send(format!("deletion {}", event.id())).unwrap();
        })
        .on_close(async |p: &Diary, client: &Client| {
            let mut open = p.open.borrow_mut();
            open.retain(|connection| *connection != client.connection());
            p.tells.send(format!("close {}", open.len())).unwrap();
        });
    (server, hears)
}

#[tokio::test]
async fn plugins_are_told_what_has_happened() {
    let (server, mut hears) = diary();
    let relay = Relay::serve(server);
    let mut client = NostrClient::connect(relay.address).await;
    let author = Author::new(1);
    client.authenticate(&author).await;
    let event = note(1, "hello");
    client.publish(&event).await;
    client.publish(&event).await;
    let deletion = now(5).tag(["e", &event.id().to_hex()]).sign(&author);
    client.publish(&deletion).await;
    drop(client);
    let mut heard = Vec::new();
    for _ in 0..6 {
        heard.push(patiently(hears.recv()).await.unwrap());
    }
    let key = event.pubkey();
    let told_of_the_deletion = [
        format!("event {} 1", deletion.id()),
        format!("deletion {}", deletion.id()),
    ];
    assert_eq!(heard[0], "open");
    assert_eq!(heard[1], format!("auth {key}"));
    assert_eq!(
        heard[2],
        format!("event {} 1", event.id()),
        "a duplicate is no news"
    );
    for told in told_of_the_deletion {
        assert!(heard.contains(&told), "{told} in {heard:?}");
    }
    assert!(heard.contains(&"close 0".to_owned()), "{heard:?}");
}

#[tokio::test]
async fn what_a_plugin_was_told_last_is_seen_to_its_end() {
    let (server, mut hears) = diary();
    let relay = Relay::serve(server);
    let mut client = NostrClient::connect(relay.address).await;
    let event = note(1, "hello");
    client.publish(&event).await;
    drop(client);
    relay.join().unwrap();
    let mut heard = Vec::new();
    while let Some(told) = hears.recv().await {
        heard.push(told);
    }
    assert!(
        heard.contains(&format!("event {} 0", event.id())),
        "{heard:?}"
    );
    assert!(heard.contains(&"close 0".to_owned()), "{heard:?}");
}
