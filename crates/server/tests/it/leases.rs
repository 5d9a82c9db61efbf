//! Tasks that one node at a time carries out: processes on one database, one of which is killed.

use std::{
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use hikyaku_postgres::{Options, PostgresStore, testing::Cluster};
use hikyaku_server::{Server, Worker, postgres::Postgres};
use hikyaku_store::testing::NaiveStore;

use crate::relay::{Relay, config};

/// Where a node finds its database; set for the processes that a test starts.
const DATABASE: &str = "HIKYAKU_TEST_DATABASE";

struct Noting {
    db: Postgres,
}

/// A node: it notes in a table that it has begun the task, and is at it until it is killed.
#[test]
#[ignore = "a process of the test below"]
fn a_node_with_a_shared_task() {
    let Ok(url) = std::env::var(DATABASE) else {
        return;
    };
    let store = PostgresStore::open(&Options::new(&url)).unwrap();
    let mut config = config();
    config.postgres_url = Some(url);
    let server = Server::new(config, Arc::new(store))
        .plugin(|worker: Worker| async move {
            let db = worker.postgres().await?;
            Ok(Noting { db })
        })
        .shared_task("note", async |p: &Noting| {
            let pid = i64::from(std::process::id());
            let noted = p.db.execute("insert into begun values ($1)", &[&pid]).await;
            noted.unwrap();
            std::future::pending::<()>().await;
        });
    server.bind().unwrap().run(std::future::pending()).unwrap();
}

struct Node(Child);

impl Node {
    fn start(cluster: &Cluster) -> Self {
        let node = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "leases::a_node_with_a_shared_task", "--ignored"])
            .env(DATABASE, cluster.url())
            .stdout(Stdio::null())
            .spawn();
        Self(node.unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a query of one number has it.
fn wait_for(cluster: &Cluster, sql: &str, expected: &str) {
    let give_up = Instant::now() + Duration::from_mins(1);
    while cluster.sql(sql) != expected {
        assert!(Instant::now() < give_up, "{sql}: {}", cluster.sql(sql));
    }
}

#[test]
fn a_task_is_carried_out_by_one_node_and_handed_over_when_it_is_killed() {
    let cluster = Cluster::start(&[]);
    cluster.sql("create table begun (pid int8, at timestamptz default clock_timestamp())");
    let mut nodes = vec![Node::start(&cluster), Node::start(&cluster)];
    wait_for(&cluster, "select count(*) from begun", "1");
    // The other one waits for its turn.
    let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted";
    wait_for(&cluster, waiting, "1");
    let holder: u32 = cluster.sql("select pid from begun").parse().unwrap();
    let at = nodes.iter().position(|node| node.0.id() == holder).unwrap();
    // The standard library's kill is SIGKILL.
    drop(nodes.remove(at));
    wait_for(&cluster, "select count(*) from begun", "2");
    let second: u32 = cluster
        .sql("select pid from begun order by at desc limit 1")
        .parse()
        .unwrap();
    assert_eq!(second, nodes[0].0.id());
}

struct Counting(tokio::sync::mpsc::UnboundedSender<()>);

#[tokio::test]
async fn without_other_nodes_a_shared_task_is_begun_at_once() {
    let (begun, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::new(config(), Arc::new(NaiveStore::new()))
        .plugin(move |_| async move { Ok(Counting(begun)) })
        .shared_task("count", async |p: &Counting| p.0.send(()).unwrap());
    let relay = Relay::serve(server);
    seen.recv().await.unwrap();
    drop(relay);
    // Once, and not once for each worker.
    assert!(seen.recv().await.is_none());
}
