//! A handler with its worker's own PostgreSQL connection: 500 queries for one answer, pipelined by
//! themselves, and the same as one statement made of the batch.
//!
//! `cargo run -p hikyaku-server --features postgres --example postgres_route -- URL`, then
//! `curl http://127.0.0.1:7779/queries` and `/batch`. It makes a table `world` of 10,000 rows if
//! there is none.

use std::{cell::Cell, sync::Arc};

use futures_util::future::try_join_all;
use hikyaku_server::{
    Json, PluginError, Problem, Request, Server, ServerConfig, ServerError, Worker, get,
    postgres::Postgres,
};
use hikyaku_store::testing::NaiveStore;

const QUERY: &str = "select id, randomnumber from world where id = $1";

struct World {
    db: Postgres,
    /// The state of a small generator of numbers, which needs no lock either.
    dice: Cell<u64>,
}

impl World {
    async fn new(worker: Worker) -> Result<Self, PluginError> {
        let db = worker.postgres().await?;
        if worker.index() == 0 {
            let table = "create table if not exists world \
                (id int primary key, randomnumber int not null)";
            let rows = "insert into world select i, (random() * 10000)::int \
                from generate_series(1, 10000) i on conflict do nothing";
            db.execute(table, &[]).await?;
            db.execute(rows, &[]).await?;
        }
        let dice = Cell::new(worker.index() as u64 + 1);
        Ok(Self { db, dice })
    }

    /// Returns 500 numbers by chance.
    fn ids(&self) -> Vec<i32> {
        let roll = || {
            let mut state = self.dice.get();
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            self.dice.set(state);
            (state % 10_000) as i32 + 1
        };
        std::iter::repeat_with(roll).take(500).collect()
    }
}

async fn queries(p: &World, _: Request) -> Result<Json<Vec<(i32, i32)>>, Problem> {
    let ids = p.ids();
    let rows = try_join_all(
        ids.iter()
            .map(async |id| p.db.query_one(QUERY, &[id]).await),
    )
    .await?;
    let pairs = rows.iter().map(|row| (row.get(0), row.get(1)));
    Ok(Json(pairs.collect()))
}

async fn batch(p: &World, _: Request) -> Result<Json<Vec<(i32, i32)>>, Problem> {
    let answers = p.db.query_each(QUERY, &p.ids()).await?;
    let rows = answers.iter().flatten();
    Ok(Json(rows.map(|row| (row.get(0), row.get(1))).collect()))
}

fn main() -> Result<(), ServerError> {
    let mut config = ServerConfig::new(([127, 0, 0, 1], 7779).into());
    config.postgres_url = std::env::args().nth(1);
    Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(World::new)
        .route(get("/queries"), queries)
        .route(get("/batch"), batch)
        .run()
}
