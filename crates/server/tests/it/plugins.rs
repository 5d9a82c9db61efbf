//! Plugins: one instance for each worker, made before anybody is served.

use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    rc::Rc,
    sync::{Arc, Mutex},
};

use hikyaku_server::{
    Client, CommandError, PluginError, Request, Server, ServerError, Verdict, Worker, blocking, get,
};
use hikyaku_store::testing::NaiveStore;

use crate::{
    client::Client as NostrClient,
    relay::{Relay, config},
    routes::request,
};

fn server() -> Server {
    Server::new(config(), Arc::new(NaiveStore::new()))
}

/// What no other thread could have.
struct Counting {
    calls: Rc<Cell<usize>>,
    seen: RefCell<Vec<String>>,
    thread: String,
}

fn thread_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn each_worker_has_an_instance_that_stays_on_its_thread() {
    let made = Arc::new(Mutex::new(Vec::new()));
    let making = Arc::clone(&made);
    let relay = Relay::serve(
        server()
            .plugin(move |worker: Worker| async move {
                making.lock().unwrap().push(worker.index());
                Ok(Counting {
                    calls: Rc::default(),
                    seen: RefCell::default(),
                    thread: thread_name(),
                })
            })
            .route(get("/calls"), async |p: &Counting, _: Request| {
                assert_eq!(p.thread, thread_name());
                p.calls.set(p.calls.get() + 1);
                p.seen.borrow_mut().push(p.thread.clone());
                // A handler may borrow its plugin across a wait.
                tokio::task::yield_now().await;
                format!("{} {}", p.thread, p.seen.borrow().len())
            }),
    );
    let mut threads = HashSet::new();
    let mut open = Vec::new();
    // Connections are spread over the workers by their number.
    for _ in 0..2 {
        let (client, answer) = request(relay.address, "GET", "/calls", "", "").await;
        let (thread, count) = answer.body.split_once(' ').unwrap();
        assert_eq!(count, "1", "another worker's instance");
        threads.insert(thread.to_owned());
        open.push(client);
    }
    assert_eq!(threads.len(), 2);
    let mut made = made.lock().unwrap().clone();
    made.sort_unstable();
    assert_eq!(made, [0, 1]);
}

struct Broken;

#[test]
fn a_factory_that_panics_is_named_as_one_that_fails() {
    let server = server().plugin(|worker: Worker| async move {
        assert_ne!(worker.index(), 1, "on purpose");
        Ok(Broken)
    });
    let result = server.bind().unwrap().run(std::future::pending());
    let Err(ServerError::Plugin {
        plugin,
        worker,
        source,
    }) = result
    else {
        panic!("{result:?}");
    };
    assert_eq!((plugin, worker), ("Broken", 1));
    assert!(source.to_string().contains("on purpose"), "{source}");
}

#[test]
fn a_plugin_that_cant_start_is_named_and_nobody_is_served() {
    let server = server().plugin(|worker: Worker| async move {
        if worker.index() == 1 {
            return Err("no database".into());
        }
        Ok(Broken)
    });
    let result = server.bind().unwrap().run(std::future::pending());
    let Err(ServerError::Plugin {
        plugin,
        worker,
        source,
    }) = result
    else {
        panic!("{result:?}");
    };
    assert_eq!((plugin, worker), ("Broken", 1));
    assert_eq!(source.to_string(), "no database");
}

#[test]
fn a_server_stops_though_a_plugin_never_starts() {
    let server =
        server().plugin(|_| async { std::future::pending::<Result<Broken, PluginError>>().await });
    server.bind().unwrap().run(std::future::ready(())).unwrap();
}

#[tokio::test]
async fn a_budget_is_divided_among_the_workers() {
    let shares = Arc::new(Mutex::new(Vec::new()));
    let noting = Arc::clone(&shares);
    let relay = Relay::serve(server().plugin(move |worker: Worker| async move {
        noting.lock().unwrap().push(worker.share_of(5));
        Ok(Broken)
    }));
    // Who is answered finds all plugins made.
    request(relay.address, "GET", "/", "", "").await;
    let mut shares = shares.lock().unwrap().clone();
    shares.sort_unstable();
    assert_eq!(shares, [2, 3]);
}

struct First(u8);
struct Second(u8);

#[tokio::test]
async fn handlers_find_their_plugin_among_several() {
    let relay = Relay::serve(
        server()
            .plugin(|_| async { Ok(First(1)) })
            .plugin(async |_| Ok(Second(2)))
            .route(get("/first"), async |p: &First, _| p.0.to_string())
            .route(get("/second"), async |p: &Second, _| p.0.to_string()),
    );
    for (path, expected) in [("/first", "1"), ("/second", "2")] {
        let (_, answer) = request(relay.address, "GET", path, "", "").await;
        assert_eq!(answer.body, expected);
    }
}

#[tokio::test]
async fn what_blocks_is_done_elsewhere() {
    let relay = Relay::serve(server().plugin(async |_| Ok(First(7))).route(
        get("/"),
        async |p: &First, _| {
            let (number, here) = (p.0, std::thread::current().id());
            let elsewhere = blocking(move || {
                assert_eq!(number, 7);
                std::thread::current().id()
            })
            .await;
            (here != elsewhere).to_string()
        },
    ));
    let (_, answer) = request(relay.address, "GET", "/", "", "").await;
    assert_eq!(answer.body, "true");
}

#[tokio::test]
async fn a_task_runs_once_and_again_when_it_fails() {
    let (told, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let fails = Arc::new(Mutex::new(1));
    let relay = Relay::serve(server().plugin(async |_| Ok(First(1))).task(
        "counting",
        async move |_: &First| {
            told.send(()).unwrap();
            let failures = std::mem::take(&mut *fails.lock().unwrap());
            assert_eq!(failures, 0, "on purpose");
        },
    ));
    for _ in 0..2 {
        crate::client::patiently(hears.recv()).await.unwrap();
    }
    let name = "hikyaku_handler_panics_total{plugin=\"First\",handler=\"task counting\"}";
    assert_eq!(relay.figure(name), 1.0);
    relay.join().unwrap();
    // The channel's last sender has gone with the workers: nobody else had begun the task.
    assert_eq!(hears.recv().await, None);
}

#[tokio::test]
async fn a_shared_task_that_panics_is_named_begun_again_and_hurts_nobody() {
    let (told, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let fails = Arc::new(Mutex::new(1));
    let relay = Relay::serve(
        server()
            .plugin(async |_| Ok(First(1)))
            .shared_task("sweeping", async move |_: &First| {
                told.send(()).unwrap();
                tokio::task::yield_now().await;
                let failures = std::mem::take(&mut *fails.lock().unwrap());
                assert_eq!(failures, 0, "on purpose");
            })
            .route(get("/fine"), async |p: &First, _| p.0.to_string()),
    );
    crate::client::patiently(hears.recv()).await.unwrap();
    for _ in 0..2 {
        let (_, answer) = request(relay.address, "GET", "/fine", "", "").await;
        assert_eq!(answer.body, "1");
    }
    crate::client::patiently(hears.recv()).await.unwrap();
    let name = "hikyaku_handler_panics_total{plugin=\"First\",handler=\"shared_task sweeping\"}";
    assert_eq!(relay.figure(name), 1.0);
    relay.join().unwrap();
}

#[tokio::test]
async fn a_plugin_has_figures_of_its_own() {
    struct Notes(hikyaku_server::Counter, hikyaku_server::Level);
    let relay = Relay::serve(
        server()
            .plugin(|worker: Worker| async move {
                let waiting = worker.level("notes_waiting", "Notes that wait");
                waiting.set(1.5);
                let seen = worker.counter("notes_total", "Notes seen");
                Ok(Notes(seen, waiting))
            })
            .on_event(async |p: &Notes, _: &Client, _| {
                p.0.add(1);
                p.1.set(0.25);
                Verdict::Accept
            }),
    );
    // Who is served is served when all workers have theirs.
    let mut client = NostrClient::connect(relay.address).await;
    assert_eq!(relay.figure("hikyaku_notes_waiting"), 2.0 * 1.5);
    client.publish(&crate::client::note(1, "hello")).await;
    assert_eq!(relay.figure("hikyaku_notes_total"), 1.0);
    assert_eq!(relay.figure("hikyaku_notes_waiting"), 1.5 + 0.25);
    let calls = "hikyaku_handler_seconds_count{plugin=\"Notes\",handler=\"on_event\"}";
    assert_eq!(relay.figure(calls), 1.0);
}

#[tokio::test]
async fn a_plugin_adds_to_what_the_relay_says_of_itself() {
    let relay = Relay::serve(server().information(|document| {
        document.insert("posting_policy".into(), "be kind".into());
    }));
    let accept = "Accept: application/nostr+json\r\n";
    let (_, answer) = request(relay.address, "GET", "/", accept, "").await;
    let document: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(document["posting_policy"], "be kind");
    assert_eq!(document["name"], "test relay");
}

#[test]
fn a_change_of_what_the_relay_says_that_panics_is_named() {
    let change = |_: &mut serde_json::Map<_, _>| panic!("on purpose");
    let line = line!() + 1;
    let refused = server().information(change).bind().unwrap_err();
    let ServerError::Information { site, source } = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!((site.file(), site.line()), (file!(), line));
    assert_eq!(source.to_string(), "it panicked: on purpose");
}

/// Counts what is published in a table of the application's.
struct Tallying(Arc<dyn hikyaku_tables::Table>);

impl Tallying {
    fn add(&self) -> i64 {
        let change = hikyaku_tables::Change::AddInteger {
            by: 1,
            width: hikyaku_tables::IntegerWidth::Eight,
        };
        let update = hikyaku_tables::Update::new(b"events", change);
        match self.0.update(&update, hikyaku_tables::Stamp::default()) {
            Ok(hikyaku_tables::Outcome::Integer(sum)) => sum,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn all_workers_find_a_table_by_its_name() {
    let options = hikyaku_tables::MemoryOptions::default();
    let table = Arc::new(hikyaku_tables::MemoryTable::new(options, None));
    let mut config = config();
    config.tables.insert("tally".to_owned(), table);
    let server = Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(|worker: Worker| async move {
            assert!(worker.table("other").is_none());
            Ok(Tallying(worker.table("tally").ok_or("no table")?.clone()))
        })
        .on_event(async |p: &Tallying, _: &Client, _| {
            p.add();
            Verdict::Accept
        })
        .route(get("/next"), async |p: &Tallying, _| p.add().to_string());
    let relay = Relay::serve(server);
    let mut open = Vec::new();
    for content in ["one", "two"] {
        let mut client = NostrClient::connect(relay.address).await;
        client.publish(&crate::client::note(1, content)).await;
        open.push(client);
    }
    let (_, answer) = request(relay.address, "GET", "/next", "", "").await;
    assert_eq!(answer.body, "3");
}

#[test]
fn a_command_is_carried_out_in_the_place_of_serving() {
    let said = Arc::new(Mutex::new(Vec::new()));
    let server = || {
        let saying = Arc::clone(&said);
        // The address of a server that runs already does not matter to a command.
        server()
            .plugin(|worker: Worker| async move {
                assert_eq!(worker.count(), 1);
                Ok(First(3))
            })
            .command(
                "say",
                "Says it",
                async move |p: &First, words: Vec<String>| {
                    tokio::task::yield_now().await;
                    saying.lock().unwrap().push(format!("{} {words:?}", p.0));
                    if words.is_empty() {
                        Err("nothing to say")
                    } else {
                        Ok(())
                    }
                },
            )
    };
    server()
        .run_command("say", vec!["hello".to_owned()])
        .unwrap();
    assert_eq!(*said.lock().unwrap(), ["3 [\"hello\"]"]);
    let failed = server().run_command("say", Vec::new()).unwrap_err();
    assert_eq!(failed.to_string(), "say has failed");
    let unknown = server().run_command("cry", Vec::new()).unwrap_err();
    assert!(
        unknown.to_string().ends_with("\n  say: Says it"),
        "{unknown}"
    );
}

#[test]
fn a_command_that_panics_has_failed() {
    let result = server()
        .plugin(async |_| Ok(Broken))
        .command("x", "", async |_: &Broken, _| {
            tokio::task::yield_now().await;
            panic!("on purpose");
            #[expect(unreachable_code, reason = "it says what it would return")]
            Ok::<_, PluginError>(())
        })
        .run_command("x", Vec::new());
    let Err(CommandError::Failed { command, source }) = &result else {
        panic!("{result:?}");
    };
    assert_eq!(
        (command.as_str(), source.to_string()),
        ("x", "it panicked: on purpose".to_owned())
    );
}

#[test]
fn a_command_whose_plugin_cant_start_says_so() {
    let result = server()
        .plugin(async |_| Err::<Broken, _>("no database".into()))
        .command("x", "", async |_: &Broken, _| Ok::<_, PluginError>(()))
        .run_command("x", Vec::new());
    assert_eq!(
        result.unwrap_err().to_string(),
        "plugin Broken can't start on worker 0"
    );
}
