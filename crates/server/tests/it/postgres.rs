//! A plugin's connection to a real PostgreSQL.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use futures_util::future::{join_all, try_join_all};
use hikyaku_postgres::testing::{Cluster, shared};
use hikyaku_server::{
    Problem, Request, Server, ServerConfig, ServerError, Worker, get, postgres::Postgres,
};
use hikyaku_store::testing::NaiveStore;

use crate::{
    relay::{Relay, config},
    routes::{ask, request},
    wire::Wire,
};

struct Things {
    db: Postgres,
}

/// Adds one to each number, in one statement each.
const ADD_ONE: &str = "select $1::int8 + 1";

async fn sum(p: &Things, request: Request) -> Result<String, Problem> {
    let numbers: Vec<i64> = (0..request.param("count")?).collect();
    let rows = join_all((numbers.iter()).map(async |n| p.db.query_one(ADD_ONE, &[n]).await)).await;
    let mut sum = 0;
    for row in rows {
        sum += row?.get::<_, i64>(0);
    }
    Ok(sum.to_string())
}

/// Says which connection this is, how often it has prepared the statement, and how many there are.
async fn session(p: &Things, _: Request) -> Result<String, Problem> {
    let sql = "select pg_backend_pid()::text || ' ' || (select count(*) from pg_prepared_statements \
        where statement like '%int8 + 1') || ' ' || (select count(*) from pg_stat_activity \
        where application_name = current_setting('application_name'))";
    Ok(p.db.query_one(sql, &[]).await?.get(0))
}

async fn nap(p: &Things, request: Request) -> Result<String, Problem> {
    let seconds: f64 = request.param("seconds")?;
    p.db.execute("select pg_sleep($1)", &[&seconds]).await?;
    Ok(String::new())
}

/// Asks a table by name, all its columns.
async fn table(p: &Things, request: Request) -> Result<String, Problem> {
    let sql = format!("select * from {}", request.param::<String>("name")?);
    let rows = p.db.query(&sql, &[]).await?;
    Ok(rows
        .first()
        .map_or(0, hikyaku_server::postgres::Row::len)
        .to_string())
}

/// Asks for the divisors of several numbers at once.
async fn divisors(p: &Things, _: Request) -> Result<String, Problem> {
    let sql =
        "select d, '$1' from generate_series(1, $1::int4) d where $1 % d = 0 order by d desc;";
    let answers = p.db.query_each(sql, &[6_i32, 0, 4, 6]).await?;
    let divisors = |rows: &Vec<_>| -> Vec<i32> {
        let first = |row: &hikyaku_server::postgres::Row| row.get(0);
        rows.iter().map(first).collect()
    };
    Ok(format!(
        "{:?}",
        answers.iter().map(divisors).collect::<Vec<_>>()
    ))
}

async fn wrong(p: &Things, request: Request) -> Result<String, Problem> {
    let error = match request.param::<String>("how")?.as_str() {
        "many" => {
            p.db.query_one("select generate_series(1, 3)", &[])
                .await
                .err()
        }
        "none" => p.db.query_one("select 1 where false", &[]).await.err(),
        "opt" => {
            p.db.query_opt("select generate_series(1, 2)", &[])
                .await
                .err()
        }
        "each" => {
            p.db.query_each("select $1::int4 + $2::int4", &[1])
                .await
                .err()
        }
        _ => p.db.query("select 1/0", &[]).await.err(),
    };
    Ok(error.map_or_else(String::new, |error| error.to_string()))
}

fn with_database(url: String, workers: usize) -> ServerConfig {
    let mut config = config();
    config.workers = NonZeroUsize::new(workers);
    config.postgres_url = Some(url);
    config
}

fn relay(config: ServerConfig) -> Relay {
    let server = Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(|worker: Worker| async move {
            // A second plugin of the worker would have the same.
            let (db, _) = (worker.postgres().await?, worker.postgres().await?);
            Ok(Things { db })
        })
        .route(get("/sum/{count}"), sum)
        .route(get("/session"), session)
        .route(get("/nap/{seconds}"), nap)
        .route(get("/table/{name}"), table)
        .route(get("/divisors"), divisors)
        .route(get("/wrong/{how}"), wrong);
    Relay::serve(server)
}

async fn body(relay: &Relay, path: &str) -> String {
    let (_, answer) = request(relay.address, "GET", path, "", "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

fn pid(session: &str) -> String {
    session.split(' ').next().unwrap().to_owned()
}

#[tokio::test]
async fn handlers_share_one_connection_and_prepare_each_statement_once() {
    let relay = relay(with_database(shared().0, 1));
    let mut wire = Wire::connect(relay.address).await;
    for count in [500, 500, 1] {
        let answer = ask(&mut wire, "GET", &format!("/sum/{count}"), "", "").await;
        assert_eq!(answer.body, (count * (count + 1) / 2).to_string());
    }
    let first = body(&relay, "/session").await;
    let second = body(&relay, "/session").await;
    assert_eq!(pid(&first), pid(&second));
    assert_eq!(first.split(' ').nth(1), Some("1"), "{first}");
}

#[tokio::test]
async fn connections_are_of_the_whole_server_and_divided_among_its_workers() {
    for (budget, expected) in [(0, "2"), (2, "2"), (5, "5")] {
        let (url, name) = shared();
        let mut config = with_database(format!("{url}?application_name={name}"), 2);
        config.postgres_connections = budget;
        let relay = relay(config);
        // As many at once as there may be connections, and more.
        let naps = (0..12).map(|_| body(&relay, "/nap/0.3"));
        join_all(naps).await;
        let session = body(&relay, "/session").await;
        assert_eq!(session.split(' ').nth(2), Some(expected), "{budget}");
    }
}

#[tokio::test]
async fn a_handler_that_is_dropped_leaves_the_connection_usable() {
    let (url, name) = shared();
    let url = format!("{url}?application_name={name}");
    let relay = relay(with_database(url.clone(), 1));
    let before = body(&relay, "/session").await;
    for (path, statement) in [
        ("/sum/500", ADD_ONE),
        ("/nap/0.3", "select pg_sleep($1)"),
        ("/sum/20", ADD_ONE),
    ] {
        let mut wire = Wire::connect(relay.address).await;
        wire.send(format!("GET {path} HTTP/1.1\r\nHost: r\r\n\r\n").as_bytes())
            .await;
        // Its handler has asked when the database says so.
        asked(&url, &pid(&before), statement).await;
    }
    assert_eq!(body(&relay, "/sum/3").await, "6");
    assert_eq!(pid(&before), pid(&body(&relay, "/session").await));
}

/// Waits until a session's statement of this moment, or its last, is this one.
async fn asked(url: &str, pid: &str, statement: &str) {
    let (beside, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
        .await
        .unwrap();
    let driven = tokio::spawn(connection);
    let sql = "select query = $1 from pg_stat_activity where pid::text = $2";
    while !beside
        .query_one(sql, &[&statement, &pid])
        .await
        .unwrap()
        .get::<_, bool>(0)
    {
        tokio::task::yield_now().await;
    }
    driven.abort();
}

#[tokio::test]
async fn a_statement_that_nobody_waits_for_any_more_ends_with_its_handler() {
    let mut config = with_database(shared().0, 1);
    config.handler_timeout = Duration::from_millis(500);
    let relay = relay(config);
    let before = body(&relay, "/session").await;
    let (_, answer) = request(relay.address, "GET", "/nap/600", "", "").await;
    assert!([500, 503].contains(&answer.status), "{answer:?}");
    let mut attempts = 0;
    let after = loop {
        let (_, answer) = request(relay.address, "GET", "/session", "", "").await;
        if answer.status == 200 {
            break answer.body;
        }
        attempts += 1;
        assert!(attempts < 100, "{answer:?}");
    };
    assert_eq!(pid(&before), pid(&after));
}

#[tokio::test]
async fn a_connection_that_is_lost_is_made_again() {
    let mut cluster = Cluster::start(&[]);
    let relay = relay(with_database(cluster.url(), 1));
    let session = body(&relay, "/session").await;
    cluster.sql(&format!("select pg_terminate_backend({})", pid(&session)));
    answered_again(&relay).await;
    cluster.kill();
    // All who wait for the same try hear of it.
    let asked = (0..20).map(|_| request(relay.address, "GET", "/sum/1", "", ""));
    for (_, answer) in join_all(asked).await {
        assert_eq!(answer.status, 500, "{answer:?}");
    }
    cluster.restart();
    answered_again(&relay).await;
    assert_ne!(pid(&session), pid(&body(&relay, "/session").await));
}

/// Asks until it is answered: a statement may have been on its way when the connection was cut.
async fn answered_again(relay: &Relay) {
    for _ in 0..100 {
        let (_, answer) = request(relay.address, "GET", "/sum/3", "", "").await;
        if answer.body == "6" {
            return;
        }
        assert_eq!(answer.status, 500, "{answer:?}");
    }
    panic!("not answered again");
}

#[tokio::test]
async fn an_address_may_name_several_hosts_and_say_where_one_is() {
    let (url, _) = shared();
    let config: tokio_postgres::Config = url.parse().unwrap();
    let (port, database) = (config.get_ports()[0], config.get_dbname().unwrap());
    for hosts in [
        format!("host=nowhere.invalid hostaddr=127.0.0.1 port={port}"),
        format!("host=127.0.0.1,127.0.0.1 port=1,{port}"),
    ] {
        let url = format!("{hosts} user=postgres dbname={database}");
        let relay = relay(with_database(url, 1));
        assert_eq!(body(&relay, "/sum/3").await, "6", "{hosts}");
    }
}

#[tokio::test]
async fn a_table_that_has_other_columns_now_is_asked_anew() {
    let cluster = Cluster::start(&[]);
    cluster.sql("create table things as select 1 as a");
    let relay = relay(with_database(cluster.url(), 1));
    assert_eq!(body(&relay, "/table/things").await, "1");
    cluster.sql("alter table things add b int");
    let both =
        try_join_all((0..9).map(|_| async { Ok::<_, ()>(body(&relay, "/table/things").await) }));
    assert_eq!(both.await.unwrap(), ["2"; 9]);
}

#[tokio::test]
async fn one_statement_is_asked_for_each_value_in_their_order() {
    let relay = relay(with_database(shared().0, 1));
    let expected = "[[6, 3, 2, 1], [], [4, 2, 1], [6, 3, 2, 1]]";
    assert_eq!(body(&relay, "/divisors").await, expected);
}

#[tokio::test]
async fn what_a_query_does_not_give_is_an_error_that_says_so() {
    let relay = relay(with_database(shared().0, 1));
    for (how, expected) in [
        ("many", "the query has 3 rows in the place of one"),
        ("none", "the query has 0 rows in the place of one"),
        ("opt", "the query has 2 rows in the place of one"),
        (
            "each",
            "a query for each value has one parameter, and this one has 2",
        ),
        ("division", "the database refuses"),
    ] {
        assert_eq!(body(&relay, &format!("/wrong/{how}")).await, expected);
    }
    assert_eq!(body(&relay, "/sum/3").await, "6");
}

#[tokio::test]
async fn a_statement_that_one_request_repeats_is_counted_with_its_line() {
    let relay = relay(with_database(shared().0, 1));
    body(&relay, "/sum/20").await;
    let seen = relay.watch.observations().unwrap().snapshot(0);
    let [repeat] = seen.repeats.as_slice() else {
        panic!("{:?}", seen.repeats);
    };
    assert_eq!(repeat.most, 20);
    assert!(repeat.site.contains("tests/it/postgres.rs:"), "{repeat:?}");
}

#[test]
fn a_database_that_is_not_there_is_an_error_at_the_start() {
    // It takes connections, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap();
    let to = |address: &str| Some(format!("postgres://{address}"));
    for (url, reason) in [
        (None, "no database is configured for plugins"),
        (to("127.0.0.1:1/x"), "can't be reached"),
        (to("127.0.0.1:port/x"), "address is not one"),
        (
            to(&format!("{silent}/x?connect_timeout=1")),
            "no connection within 1 s",
        ),
        (
            to("127.0.0.1:1/x?target_session_attrs=read-write"),
            "says `target_session_attrs`, which is not heeded",
        ),
        (
            to("127.0.0.1:1/x?load_balance_hosts=random"),
            "says `load_balance_hosts`, which is not heeded",
        ),
        (
            to("127.0.0.1:1/y"),
            "1 connections to the database are not enough for 2 workers",
        ),
    ] {
        let mut config = config();
        config.postgres_connections =
            usize::from(url.as_ref().is_some_and(|url| url.ends_with("/y")));
        config.postgres_url = url;
        let server =
            Server::new(config, Arc::new(NaiveStore::new())).plugin(|worker: Worker| async move {
                let db = worker.postgres().await?;
                Ok(Things { db })
            });
        match server.bind().unwrap().run(std::future::pending()) {
            Err(ServerError::Plugin { plugin, source, .. }) => {
                assert_eq!(plugin, "Things");
                assert!(source.to_string().contains(reason), "{source}");
            }
            result => panic!("{result:?}"),
        }
    }
}
