//! Statements on one connection of a worker to a real PostgreSQL: what they carry, and what goes wrong
//! with some of them and not with the others.

use std::{collections::BTreeSet, num::NonZeroUsize, pin::pin, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::join_all};
use hikyaku_postgres::testing::{Cluster, shared};
use hikyaku_server::{
    PluginError, Server, ServerConfig, ServerError, Worker,
    postgres::{Column, Postgres, PostgresError, Row, SqlState, types::Type},
};
use hikyaku_store::testing::NaiveStore;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql};

use crate::{client::patiently, relay::config};

/// Runs a test on a worker.
fn on_worker_itself(
    config: ServerConfig,
    test: impl AsyncFnOnce(Worker) -> Result<(), PluginError> + Clone + Send + 'static,
) -> Result<(), String> {
    let server =
        Server::new(config, Arc::new(NaiveStore::new())).plugin(async move |worker: Worker| {
            test(worker).await?;
            Err::<(), PluginError>("done".into())
        });
    match server.bind().unwrap().run(std::future::pending()) {
        Err(ServerError::Plugin { source, .. }) if source.to_string() == "done" => Ok(()),
        Err(ServerError::Plugin { source, .. }) => Err(source.to_string()),
        end => panic!("{end:?}"),
    }
}

/// Runs a test on a worker, with its database.
fn on_worker(
    config: ServerConfig,
    test: impl AsyncFnOnce(Postgres) + Clone + Send + 'static,
) -> Result<(), String> {
    on_worker_itself(config, async move |worker: Worker| {
        test(worker.postgres().await?).await;
        Ok(())
    })
}

fn to(url: String) -> ServerConfig {
    let mut config = config();
    config.workers = NonZeroUsize::new(1);
    config.postgres_url = Some(url);
    config
}

/// Runs a test on a worker, with the database that tests share.
fn with_database(test: impl AsyncFnOnce(Postgres) + Clone + Send + 'static) {
    on_worker(to(shared().0), test).unwrap();
}

async fn pid(db: &Postgres) -> i32 {
    let row = db.query_one("select pg_backend_pid()", &[]).await;
    row.unwrap().get(0)
}

#[test]
fn a_statement_that_fails_fails_alone() {
    with_database(async |db| {
        let before = pid(&db).await;
        let divide = async |by: i32| db.query_one("select 60 / $1::int4", &[&by]).await;
        for _ in 0..2 {
            let answers = join_all((0..60).map(|n| divide(n % 6))).await;
            for (n, answer) in (0..60).zip(answers) {
                match (n % 6, answer) {
                    (0, Err(error)) => {
                        assert_eq!(error.code(), Some(&SqlState::DIVISION_BY_ZERO));
                    }
                    (by, answer) => assert_eq!(answer.unwrap().get::<_, i32>(0), 60 / by),
                }
            }
        }
        assert_eq!(pid(&db).await, before);
    });
}

#[test]
fn the_same_query_many_times_is_a_few_transactions() {
    with_database(async |db| {
        let began = "select extract(epoch from now())::text || $1::text";
        let one = async |n: &str| -> String { db.query_one(began, &[&n]).await.unwrap().get(0) };
        one("").await;
        let answers = join_all((0..630).map(|_| one(""))).await;
        let times: BTreeSet<_> = answers.into_iter().collect();
        assert_eq!(times.len(), 10);
        // One after the other, each is one of its own.
        let mut times = BTreeSet::new();
        for _ in 0..10 {
            times.insert(one("").await);
        }
        assert_eq!(times.len(), 10);
    });
}

#[test]
fn a_query_that_writes_writes_once() {
    with_database(async |db| {
        let before = pid(&db).await;
        let setup = "create table written (n int4)";
        db.execute(setup, &[]).await.unwrap();
        db.execute("create sequence numbers", &[]).await.unwrap();
        let insert = "insert into written values ($1) returning n";
        let next = "select nextval('numbers')::int4 + $1";
        for sql in [insert, next] {
            let one = async |n: i32| -> i32 { db.query_one(sql, &[&n]).await.unwrap().get(0) };
            let first = one(0).await;
            for _ in 0..2 {
                let answers =
                    join_all((0..100).map(|n| if sql == insert { one(n) } else { one(0) })).await;
                let different: BTreeSet<_> = answers.into_iter().collect();
                assert_eq!(different.len(), 100, "{sql} {first}");
            }
        }
        let written = db
            .query_one("select count(*), sum(n) from written", &[])
            .await
            .unwrap();
        assert_eq!(
            (written.get::<_, i64>(0), written.get::<_, i64>(1)),
            (201, 2 * 4950)
        );
        // Nothing was lost of the sequence's numbers either: what writes was refused before it did.
        let last = db
            .query_one("select last_value from numbers", &[])
            .await
            .unwrap();
        assert_eq!(last.get::<_, i64>(0), 201);
        assert_eq!(pid(&db).await, before);
        for drop in ["drop table written", "drop sequence numbers"] {
            db.execute(drop, &[]).await.unwrap();
        }
    });
}

#[test]
fn a_function_that_swallows_errors_writes_as_it_does_alone() {
    with_database(async |db| {
        for sql in [
            "create table swallowed (n int4)",
            "create function swallow(n int4) returns boolean language plpgsql as $$ begin \
                insert into swallowed values (n); return true; \
                exception when others then return false; end $$",
            "create view swallows as select swallow(1) as done",
            "create procedure ends(n int4) language plpgsql as $$ begin \
                commit; insert into swallowed values (n); end $$",
        ] {
            db.execute(sql, &[]).await.unwrap();
        }
        for sql in ["select swallow($1)", "select done or $1 = 0 from swallows"] {
            let one = async |n: i32| -> bool { db.query_one(sql, &[&n]).await.unwrap().get(0) };
            assert!(one(0).await);
            assert_eq!(join_all((0..50).map(one)).await, [true; 50], "{sql}");
        }
        let call = async |n: i32| db.query("call ends($1)", &[&n]).await.map(|_| ());
        call(0).await.unwrap();
        for answer in join_all((0..50).map(call)).await {
            answer.unwrap();
        }
        let count = db.query_one("select count(*) from swallowed", &[]).await;
        assert_eq!(count.unwrap().get::<_, i64>(0), 3 * 51);
        for sql in [
            "drop view swallows",
            "drop function swallow",
            "drop procedure ends",
            "drop table swallowed",
        ] {
            db.execute(sql, &[]).await.unwrap();
        }
    });
}

#[test]
fn what_is_refused_says_what_the_database_says() {
    with_database(async |db| {
        let table =
            "create temporary table seats (number int constraint exists check (number > 0))";
        db.execute(table, &[]).await.unwrap();
        let insert = db.execute("insert into seats values ($1)", &[&0]).await;
        let Err(PostgresError::Database(error)) = insert else {
            panic!("{insert:?}");
        };
        assert_eq!(*error.code(), SqlState::CHECK_VIOLATION);
        let parts = [error.table(), error.constraint(), error.detail()];
        let detail = Some("Failing row contains (0).");
        assert_eq!(parts, [Some("seats"), Some("exists"), detail]);
        assert!(error.message().contains("violates"), "{error}");
        assert_eq!(error.severity(), "ERROR");
        assert!(
            error
                .schema()
                .is_some_and(|name| name.starts_with("pg_temp"))
        );

        let wrong = db.query("selec 1", &[]).await.unwrap_err();
        assert_eq!(wrong.code(), Some(&SqlState::SYNTAX_ERROR));
        let hint = db.query("select length(1)", &[]).await;
        let Err(PostgresError::Database(error)) = hint else {
            panic!("{hint:?}");
        };
        assert!(
            error.hint().is_some_and(|hint| hint.contains("cast")),
            "{error:?}"
        );
    });
}

#[test]
fn values_that_do_not_fit_are_refused_before_they_are_sent() {
    with_database(async |db| {
        let before = pid(&db).await;
        let add = "select $1::int4 + $2::int4";
        for _ in 0..2 {
            let few = db.query(add, &[&1]).await.unwrap_err().to_string();
            assert_eq!(few, "the statement has 2 parameters, and was given 1");
            let text = db.query(add, &[&1, &"two"]).await.unwrap_err();
            assert_eq!(text.to_string(), "the value of $2 can't be sent");
        }
        let row = db.query_one(add, &[&1, &2]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0), 3);
        let wrong = row.try_get::<_, String>(0).unwrap_err().to_string();
        assert_eq!(wrong, "column `0` can't be read");
        assert!(row.try_get::<_, i32>("sum").is_err());
        assert_eq!(pid(&db).await, before);
    });
}

#[test]
fn rows_are_read_by_place_and_by_name_and_have_nulls() {
    with_database(async |db| {
        let sql = "select null::text as a, 7::int8 as \"B\", '' as c, null::int4 as d, '{1,null}'::int4[] as e";
        let row = db.query_one(sql, &[]).await.unwrap();
        assert_eq!((row.len(), row.is_empty()), (5, false));
        let names: Vec<_> = row.columns().iter().map(Column::name).collect();
        assert_eq!(names, ["a", "B", "c", "d", "e"]);
        assert_eq!(*row.columns()[1].type_(), Type::INT8);
        assert_eq!(row.get::<_, Option<&str>>(0), None);
        assert_eq!(row.get::<_, i64>("b"), 7);
        assert_eq!(row.get::<_, &str>(2), "");
        assert_eq!(row.get::<_, Option<i32>>("d"), None);
        assert_eq!(row.get::<_, Vec<Option<i32>>>(4), [Some(1), None]);
        assert!(row.try_get::<_, i32>("d").is_err());
        let none = db.query_one("select", &[]).await.unwrap();
        assert!(none.is_empty());
        assert!(db.query("", &[]).await.unwrap().is_empty());
        let same = "select $1::text is null and $2::int4[] = array[1, 2]";
        let row = db
            .query_one(same, &[&None::<&str>, &[1, 2].as_slice()])
            .await;
        assert!(row.unwrap().get::<_, bool>(0));
    });
}

#[test]
fn large_values_go_both_ways() {
    with_database(async |db| {
        let large = vec![7_u8; 3_000_000];
        let echo = "select $1::bytea, 1";
        let small = async |n: i32| {
            let row = db.query_one("select $1::int4", &[&n]).await.unwrap();
            row.get::<_, i32>(0)
        };
        let (row, numbers) = tokio::join!(
            async { db.query_one(echo, &[&large]).await },
            join_all((0..50).map(small))
        );
        assert_eq!(row.unwrap().get::<_, &[u8]>(0), large);
        assert_eq!(numbers, (0..50).collect::<Vec<_>>());
        let rows = db.query(
            "select n, repeat('x', 100) from generate_series(1, 20000) n",
            &[],
        );
        let rows = rows.await.unwrap();
        let numbers = rows.iter().map(|row| row.get::<_, i32>(0));
        assert!(numbers.eq(1..=20_000));
    });
}

#[derive(Debug, PartialEq)]
struct Label(String);

impl<'a> FromSql<'a> for Label {
    fn from_sql(
        _: &Type,
        bytes: &'a [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(String::from_utf8(bytes.to_vec())?))
    }

    fn accepts(of: &Type) -> bool {
        matches!(of.kind(), Kind::Enum(labels) if *labels == ["low", "high"])
    }
}

#[test]
fn types_of_the_databases_own_are_known() {
    let cluster = Cluster::start(&[]);
    for sql in [
        "create type level as enum ('low', 'high')",
        "create domain small as int4 check (value < 100)",
        "create type pair as (a int4, b level)",
        "create type span as range (subtype = int4)",
    ] {
        cluster.sql(sql);
    }
    on_worker(to(cluster.url()), async |db: Postgres| {
        let sql = "select 'high'::level, array['low', 'high']::level[], 7::small, row(1, 'low')::pair, \
            array[1, 2]::small[], span(1, 3)";
        for _ in 0..2 {
            let row: Row = db.query_one(sql, &[]).await.unwrap();
            assert_eq!(row.get::<_, Label>(0), Label("high".into()));
            let labels = ["low", "high"].map(|label| Label(label.into()));
            assert_eq!(row.get::<_, Vec<Label>>(1), labels);
            let Kind::Array(element) = row.columns()[4].type_().kind() else {
                panic!("{:?}", row.columns()[4]);
            };
            assert!(matches!(element.kind(), Kind::Domain(of) if *of == Type::INT4));
            let kinds: Vec<_> = (row.columns().iter())
                .map(|column| format!("{:?}", column.type_().kind()))
                .map(|kind| kind.split('(').next().unwrap().to_owned())
                .collect();
            assert_eq!(kinds, ["Enum", "Array", "Simple", "Composite", "Array", "Range"]);
        }
        let level = "select $1::level = 'low'";
        assert!(db.query_one(level, &[&Low]).await.unwrap().get::<_, bool>(0));
        assert!(db.query_one(level, &[&1]).await.is_err());
        let each = db.query_each("select $1::level::text", &[Low, Low]).await;
        assert_eq!(each.unwrap().len(), 2);
    })
    .unwrap();
}

#[derive(Debug)]
struct Low;

impl ToSql for Low {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(b"low");
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        of.name() == "level"
    }

    tokio_postgres::types::to_sql_checked!();
}

#[test]
fn questions_that_are_dropped_at_any_stage_leave_the_others_their_answers() {
    with_database(async |db| {
        let before = pid(&db).await;
        let ask = async |n: i64| {
            let row = db.query_one("select $1::int8 * 2", &[&n]).await.unwrap();
            row.get::<_, i64>(0)
        };
        for _ in 0..50 {
            // Never polled; polled once, while the statement is prepared or in flight.
            drop(ask(1));
            let mut asked: Vec<_> = (0..10).map(|n| Box::pin(ask(n))).collect();
            for question in &mut asked {
                assert!(question.now_or_never().is_none());
            }
            let mut place = 0;
            asked.retain(|_| {
                place += 1;
                place % 3 == 0
            });
            // Answered, and not taken.
            let mut left = Box::pin(ask(100));
            assert!((&mut left).now_or_never().is_none());
            assert_eq!(join_all(asked).await, [4, 10, 16]);
            assert_eq!(ask(4).await, 8);
            drop(left);
        }
        assert_eq!(pid(&db).await, before);
    });
}

/// Has one begin what is asked and leave it there, sees that others are answered, and goes on with it.
async fn answered_beside_who_is_left(db: &Postgres, sql: &str) {
    let ask = || db.query_one(sql, &[]);
    let mut left = pin!(ask());
    assert!(left.as_mut().now_or_never().is_none());
    for answer in patiently(join_all([ask(), ask()])).await {
        answer.unwrap();
    }
    patiently(left).await.unwrap();
}

#[test]
fn who_leaves_a_statement_half_prepared_holds_up_nobody() {
    let cluster = Cluster::start(&[]);
    cluster.sql("create type level as enum ('low', 'high')");
    on_worker(to(cluster.url()), async move |db: Postgres| {
        // One with a type that is asked for, and one of many values that is made of another.
        answered_beside_who_is_left(&db, "select 'low'::level").await;
        let each = || db.query_each("select $1::int4", &[1, 2]);
        let mut left = pin!(each());
        assert!(left.as_mut().now_or_never().is_none());
        assert_eq!(patiently(each()).await.unwrap().len(), 2);
        assert_eq!(patiently(left).await.unwrap().len(), 2);
    })
    .unwrap();
}

#[test]
fn who_leaves_a_connection_half_made_holds_up_nobody() {
    on_worker_itself(to(shared().0), async |worker: Worker| {
        let mut left = pin!(worker.postgres());
        assert!(left.as_mut().now_or_never().is_none());
        let db = patiently(worker.postgres()).await?;
        patiently(left).await?;
        let end = "select pg_terminate_backend(pg_backend_pid())";
        let lost = db.query(end, &[]).await.unwrap_err();
        assert!(matches!(lost, PostgresError::Lost(_)), "{lost}");
        answered_beside_who_is_left(&db, "select 1").await;
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_connection_that_is_cut_in_the_middle_fails_what_is_in_flight_and_is_made_again() {
    let cluster = Arc::new(Cluster::start(&[]));
    let beside = Arc::clone(&cluster);
    on_worker(to(cluster.url()), async move |db: Postgres| {
        let before = pid(&db).await;
        let one = async || db.query_one("select 1", &[]).await;
        one().await.unwrap();
        let nap = async |seconds: f64| db.query("select pg_sleep($1)", &[&seconds]).await;
        nap(0.0).await.unwrap();
        let cut = async {
            // Behind the nap, in flight until the end.
            let behind = async {
                let begun = tokio::task::spawn_blocking(move || {
                    let napping = "select count(*) from pg_stat_activity \
                        where query = 'select pg_sleep($1)' and state = 'active'";
                    while beside.sql(napping) != "1" {}
                    beside.sql(&format!("select pg_terminate_backend({before})"));
                });
                begun.await.unwrap();
            };
            tokio::join!(one(), behind).0
        };
        let (nap, behind) = tokio::join!(nap(60.0), cut);
        for error in [nap.unwrap_err(), behind.unwrap_err()] {
            let text = error.to_string();
            assert!(matches!(error, PostgresError::Lost(_)), "{text}");
            assert!(text.contains("terminating connection"), "{text}");
        }
        assert_ne!(pid(&db).await, before);
    })
    .unwrap();
}

#[test]
fn notices_settings_and_news_between_answers_are_passed_over() {
    with_database(async |db| {
        let noisy = "do $$ begin raise notice 'heard'; end $$";
        db.execute("listen news", &[]).await.unwrap();
        for n in 0..20 {
            let zone = format!("set timezone to 'Etc/GMT+{}'", n % 10);
            let one = async { db.query_one("select $1::int4", &[&n]).await };
            let (a, b, c, row) = tokio::join!(
                db.execute(noisy, &[]),
                db.execute(&zone, &[]),
                db.execute("notify news", &[]),
                one
            );
            assert_eq!((a.unwrap(), b.unwrap(), c.unwrap()), (0, 0, 0));
            assert_eq!(row.unwrap().get::<_, i32>(0), n);
        }
    });
}

#[test]
fn statements_that_were_not_asked_for_long_are_closed() {
    with_database(async |db| {
        let often = async || db.query_one("select 'often'", &[]).await.unwrap();
        for n in 0..600 {
            db.query(&format!("select {n}"), &[]).await.unwrap();
            often().await;
        }
        let sql = "select count(*), count(*) filter (where statement = 'select ''often'''), \
            count(*) filter (where statement = 'select 0') from pg_prepared_statements";
        let row = db.query_one(sql, &[]).await.unwrap();
        let counts = [0_usize, 1, 2].map(|place| row.get::<_, i64>(place));
        assert!((490..=501).contains(&counts[0]), "{counts:?}");
        assert_eq!(counts[1..], [1, 0]);
        // What a refused text was called is closed too, and is no statement.
        assert!(db.query("selec", &[]).await.is_err());
        assert_eq!(db.query("select 0", &[]).await.unwrap().len(), 1);
    });
}

#[test]
fn many_who_ask_an_outdated_statement_are_answered() {
    let cluster = Arc::new(Cluster::start(&[]));
    cluster.sql("create table things as select 1 as a");
    let beside = Arc::clone(&cluster);
    on_worker(to(cluster.url()), async move |db: Postgres| {
        let widths = async || {
            let ask = || db.query_one("select * from things", &[]);
            let rows = join_all((0..30).map(|_| ask())).await;
            rows.into_iter()
                .map(|row| row.unwrap().len())
                .collect::<Vec<_>>()
        };
        assert_eq!(widths().await, [1; 30]);
        beside.sql("alter table things add b int");
        assert_eq!(widths().await, [2; 30]);
        // Somebody has made the connection forget everything.
        db.execute("deallocate all", &[]).await.unwrap();
        assert_eq!(widths().await, [2; 30]);
    })
    .unwrap();
}

#[test]
fn what_would_take_other_handlers_statements_in_ends_the_connection() {
    with_database(async |db| {
        let before = pid(&db).await;
        db.execute("begin", &[]).await.unwrap();
        let mut after = db.query_one("select pg_backend_pid()", &[]).await;
        while let Err(error) = after {
            assert!(error.to_string().contains("transaction"), "{error}");
            after = db.query_one("select pg_backend_pid()", &[]).await;
        }
        let after = after.unwrap().get::<_, i32>(0);
        assert_ne!(after, before);
        let copy = db
            .execute("copy (select 1) to stdout", &[])
            .await
            .unwrap_err();
        assert!(copy.to_string().contains("COPY"), "{copy}");
        assert_eq!(pid(&db).await, after);
        db.execute("create temporary table t (a int)", &[])
            .await
            .unwrap();
        let copy = db.execute("copy t from stdin", &[]).await.unwrap_err();
        assert!(copy.to_string().contains("COPY"), "{copy}");
        assert_ne!(pid(&db).await, after);
    });
}

#[test]
fn a_statement_has_as_long_as_a_handler() {
    let mut config = to(shared().0);
    config.handler_timeout = Duration::from_millis(300);
    on_worker(config, async |db: Postgres| {
        let nap = db.query("select pg_sleep(60)", &[]).await.unwrap_err();
        assert_eq!(nap.code(), Some(&SqlState::QUERY_CANCELED));
    })
    .unwrap();
}

#[test]
fn the_socket_of_this_machine_is_spoken_to_without_tls() {
    let cluster = Cluster::start(&[]);
    let folder = cluster.sql("show unix_socket_directories");
    let (folder, port) = (folder.trim(), cluster.port());
    for more in ["", "sslmode=require"] {
        let url = format!("host={folder} port={port} user=postgres dbname=postgres {more}");
        on_worker(to(url), async |db: Postgres| {
            let one = async || db.query_one("select 1", &[]).await.unwrap();
            assert_eq!(join_all((0..100).map(|_| one())).await.len(), 100);
        })
        .unwrap();
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

#[test]
fn the_servers_certificate_is_checked_as_the_address_says() {
    let (signer, stranger) = (authority(), authority());
    let key = KeyPair::generate().unwrap();
    let parameters = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = parameters.signed_by(&key, &signer).unwrap().pem();
    let cluster = Cluster::start_with_certificate(&certificate, &key.serialize_pem());
    cluster.sql("create role secret login password 'secret'");
    let rules =
        "hostssl all secret 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n";
    cluster.file("pg_hba.conf", rules);
    cluster.sql("select pg_reload_conf()");
    let folder = tempfile::TempDir::new().unwrap();
    let file = |name: &str, text: String| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    let signer = file("signer.pem", signer.pem());
    let stranger = file("stranger.pem", stranger.pem());
    let open = |host: &str, user: &str, more: &str| {
        let url = format!(
            "postgres://{user}@{host}:{}/postgres?{more}",
            cluster.port()
        );
        on_worker(to(url), async |db: Postgres| {
            let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid() and $1::bytea is not null";
            let large = vec![7_u8; 100_000];
            let one = async || {
                db.query_one(sql, &[&large])
                    .await
                    .unwrap()
                    .get::<_, bool>(0)
            };
            assert_eq!(join_all((0..60).map(|_| one())).await, [true; 60]);
        })
    };
    let full = |file: &str| format!("sslmode=verify-full&sslrootcert={file}");
    open("127.0.0.1", "postgres", "sslmode=require").unwrap();
    open("localhost", "postgres", &full(&signer)).unwrap();
    // The server reads its files again some moment after it is told to.
    while open("localhost", "secret:wrong", "sslmode=require").is_ok() {}
    // What binds the log-in to the certificate is asked for, and had.
    for binding in ["prefer", "require", "disable"] {
        let more = format!("{}&channel_binding={binding}", full(&signer));
        open("localhost", "secret:secret", &more).unwrap();
    }
    for (host, file, reason) in [
        ("127.0.0.1", &signer, "not valid for name"),
        ("localhost", &stranger, "certificate"),
    ] {
        let error = open(host, "postgres", &full(file)).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
    let error = open("localhost", "postgres", &full("/nowhere")).unwrap_err();
    assert!(error.contains("sslrootcert=/nowhere"), "{error}");
    let plain = format!("{}?sslmode=require", shared().0);
    let error = on_worker(to(plain), async |_| {}).unwrap_err();
    assert!(error.contains("does not support TLS"), "{error}");
}
