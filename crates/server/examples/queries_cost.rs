//! What a request of 500 queries costs, by how they are asked: processor time of the server's workers
//! and of PostgreSQL, and requests a second.
//!
//! `cargo run --release -p hikyaku-server --features postgres,testing --example queries_cost
//! [ROUNDS [WAY...]]`. It starts a PostgreSQL of its own with a table of 10,000 rows, and asks each way in
//! turn, over 8 connections that stay; by the Unix socket if `SOCKET=unix` is set, by TCP otherwise.
//! The pool and the two ways of one bare connection are of `tokio-postgres`, beside `Worker::postgres`.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unnecessary_wraps,
    reason = "a program to run by hand: a broken assumption shall panic"
)]

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    num::NonZeroUsize,
    str::FromStr,
    sync::Arc,
    thread,
    time::Instant,
};

use futures_util::future::try_join_all;
use hikyaku_postgres::testing::Cluster;
use hikyaku_server::{
    Json, PluginError, Problem, Request, Server, ServerConfig, Worker, get,
    postgres::{Postgres, Row},
};
use hikyaku_store::testing::NaiveStore;
use tokio::sync::Semaphore;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, Statement};

const QUERIES: usize = 500;
const CLIENTS: usize = 8;
const POOL: usize = 20;
const QUERY: &str = "select id, randomnumber from world where id = $1";
/// The routes, and what each is in the table.
const WAYS: [(&str, &str); 6] = [
    ("pool", "pool of 20, simple queries"),
    ("prepared", "one connection, prepared, one at a time"),
    ("driver", "the driver alone, prepared and pipelined"),
    ("queries", "`join_all` over `query_one`"),
    ("each", "`query_each`"),
    ("any", "`= any($1)`"),
];

type Pairs = Result<Json<Vec<(i32, i32)>>, Problem>;

struct World {
    db: Postgres,
    bare: Client,
    statement: Statement,
    pool: RefCell<Vec<Client>>,
    free: Semaphore,
    dice: Cell<u64>,
}

async fn bare(url: &str) -> Result<Client, PluginError> {
    let mut config = tokio_postgres::Config::from_str(url)?;
    let (client, connection) = config.application_name("beside").connect(NoTls).await?;
    tokio::task::spawn_local(connection);
    Ok(client)
}

impl World {
    async fn new(worker: Worker, url: String) -> Result<Self, PluginError> {
        let client = bare(&url).await?;
        let mut pool = Vec::new();
        for _ in 0..worker.share_of(POOL) {
            pool.push(bare(&url).await?);
        }
        Ok(Self {
            db: worker.postgres().await?,
            statement: client.prepare(QUERY).await?,
            bare: client,
            free: Semaphore::new(pool.len()),
            pool: RefCell::new(pool),
            dice: Cell::new(worker.index() as u64 + 1),
        })
    }

    fn ids(&self) -> Vec<i32> {
        let roll = || {
            let mut state = self.dice.get();
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            self.dice.set(state);
            (state % 10_000) as i32 + 1
        };
        std::iter::repeat_with(roll).take(QUERIES).collect()
    }
}

fn pairs(rows: &[tokio_postgres::Row]) -> Pairs {
    let pairs = rows.iter().map(|row| (row.get(0), row.get(1)));
    Ok(Json(pairs.collect()))
}

fn own_pairs<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Pairs {
    let pairs = rows.into_iter().map(|row| (row.get(0), row.get(1)));
    Ok(Json(pairs.collect()))
}

/// Takes a connection out of the pool for each query, as a usual program does.
async fn pool(p: &World, _: Request) -> Pairs {
    let mut pairs = Vec::new();
    for id in p.ids() {
        let _free = p.free.acquire().await?;
        let client = p
            .pool
            .borrow_mut()
            .pop()
            .ok_or(Problem::not_found("none"))?;
        let sql = format!("select id, randomnumber from world where id = {id}");
        let answer = client.simple_query(&sql).await;
        p.pool.borrow_mut().push(client);
        for message in answer? {
            if let SimpleQueryMessage::Row(row) = message {
                let number = |at| row.get(at).and_then(|text| text.parse().ok());
                pairs.extend(number(0).zip(number(1)));
            }
        }
    }
    Ok(Json(pairs))
}

async fn prepared(p: &World, _: Request) -> Pairs {
    let mut rows = Vec::new();
    for id in p.ids() {
        rows.push(p.bare.query_one(&p.statement, &[&id]).await?);
    }
    pairs(&rows)
}

async fn driver(p: &World, _: Request) -> Pairs {
    let ids = p.ids();
    let one = async |id: &i32| p.bare.query_one(&p.statement, &[id]).await;
    pairs(&try_join_all(ids.iter().map(one)).await?)
}

async fn queries(p: &World, _: Request) -> Pairs {
    let ids = p.ids();
    let one = async |id: &i32| p.db.query_one(QUERY, &[id]).await;
    own_pairs(&try_join_all(ids.iter().map(one)).await?)
}

async fn each(p: &World, _: Request) -> Pairs {
    let answers = p.db.query_each(QUERY, &p.ids()).await?;
    own_pairs(answers.iter().flatten())
}

async fn any(p: &World, _: Request) -> Pairs {
    let sql = "select id, randomnumber from world where id = any($1)";
    own_pairs(&p.db.query(sql, &[&p.ids()]).await?)
}

/// Asks for a route so often on one connection.
fn ask(address: SocketAddr, path: &str, times: usize) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let mut buffer = vec![0; 64 * 1024];
    for _ in 0..times {
        let request = format!("GET /{path} HTTP/1.1\r\nHost: r\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = Vec::new();
        loop {
            let count = stream.read(&mut buffer).expect("an answer");
            assert!(count > 0, "the server has hung up");
            answer.extend_from_slice(&buffer[..count]);
            let text = String::from_utf8_lossy(&answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            assert!(head.starts_with("HTTP/1.1 200"), "{text}");
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            if length.and_then(|length| length.parse().ok()) == Some(body.len()) {
                break;
            }
        }
    }
}

/// Returns the nanoseconds that a thread or process has run.
fn run_ns(path: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split(' ')
        .next()
        .map_or(0, |ns| ns.parse().unwrap_or(0))
}

fn workers_ns() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux");
    tasks
        .flatten()
        .map(|task| task.path().display().to_string())
        .filter(|path| {
            let name = fs::read_to_string(format!("{path}/comm")).unwrap_or_default();
            name.starts_with("worker-")
        })
        .map(|path| run_ns(&format!("{path}/schedstat")))
        .sum()
}

fn database_ns(pids: &[String]) -> u64 {
    let path = |pid: &String| format!("/proc/{pid}/schedstat");
    pids.iter().map(|pid| run_ns(&path(pid))).sum()
}

fn address_of(cluster: &Cluster) -> String {
    if std::env::var("SOCKET").as_deref() != Ok("unix") {
        return cluster.url();
    }
    let folder = cluster.sql("show unix_socket_directories");
    let (folder, port) = (folder.trim(), cluster.port());
    format!("host={folder} port={port} user=postgres dbname=postgres")
}

fn main() {
    let rounds: usize = std::env::args()
        .nth(1)
        .map_or(3, |n| n.parse().expect("rounds"));
    let wanted: Vec<_> = std::env::args().skip(2).collect();
    let ways = || {
        let all = WAYS.into_iter();
        all.filter(|(path, _)| wanted.is_empty() || wanted.iter().any(|name| name == path))
    };
    let cluster = Cluster::start(&["jit = off", "autovacuum = off"]);
    for sql in [
        "create table world (id int primary key, randomnumber int not null)",
        "insert into world select i, (random() * 10000)::int from generate_series(1, 10000) i",
        "vacuum analyze world",
    ] {
        cluster.sql(sql);
    }
    println!("| workers | how | server ms | PostgreSQL ms | requests/s |");
    println!("|---|---|---|---|---|");
    for workers in [1, 2] {
        let url = address_of(&cluster);
        let mut config = ServerConfig::new(([127, 0, 0, 1], 0).into());
        config.postgres_url = Some(url.clone());
        config.workers = NonZeroUsize::new(workers);
        let server = Server::new(config, Arc::new(NaiveStore::new()))
            .plugin(move |worker| World::new(worker, url))
            .route(get("/pool"), pool)
            .route(get("/prepared"), prepared)
            .route(get("/driver"), driver)
            .route(get("/queries"), queries)
            .route(get("/each"), each)
            .route(get("/any"), any)
            .bind()
            .expect("a port");
        let address = server.address();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = thread::spawn(move || {
            server.run(async {
                let _ = stopped.await;
            })
        });
        let mut measured: HashMap<&str, Vec<[f64; 3]>> = HashMap::new();
        for round in 0..=rounds {
            for (path, _) in ways() {
                let times = if ["pool", "prepared"].contains(&path) {
                    5
                } else {
                    40
                };
                let pids = cluster.sql("select pid from pg_stat_activity");
                let pids: Vec<_> = pids.lines().map(str::to_owned).collect();
                let before = (workers_ns(), database_ns(&pids), Instant::now());
                thread::scope(|scope| {
                    for _ in 0..CLIENTS {
                        scope.spawn(|| ask(address, path, times));
                    }
                });
                let seconds = before.2.elapsed().as_secs_f64();
                let requests = (times * CLIENTS) as f64;
                // What each was before; the first round makes and warms everything.
                if round > 0 {
                    measured.entry(path).or_default().push([
                        (workers_ns() - before.0) as f64 / requests / 1e6,
                        (database_ns(&pids) - before.1) as f64 / requests / 1e6,
                        requests / seconds,
                    ]);
                }
            }
        }
        for (path, name) in ways() {
            let median = |at: usize| {
                let mut values: Vec<_> = measured[path].iter().map(|m| m[at]).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            let (server, database, rate) = (median(0), median(1), median(2));
            println!("| {workers} | {name} | {server:.2} | {database:.2} | {rate:.0} |");
        }
        drop(stop);
        serving
            .join()
            .expect("no panic")
            .expect("served to the end");
    }
}
