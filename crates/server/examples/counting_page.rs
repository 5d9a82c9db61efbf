//! A page that counts: how often it was asked for, and how many notes came in since the start.
//!
//! `cargo run -p hikyaku-server --example counting_page`, then open
//! <http://127.0.0.1:7779/counts>. Each worker counts by itself, in cells that need no lock; what all
//! of them have counted is among the metrics.

use std::{cell::Cell, sync::Arc};

use hikyaku_event::Event;
use hikyaku_server::{
    Client, Counter, Html, Request, Server, ServerConfig, ServerError, Worker, get,
};
use hikyaku_store::testing::NaiveStore;

struct Counts {
    worker: usize,
    asked: Cell<u64>,
    notes: Cell<u64>,
    notes_of_all: Counter,
}

fn main() -> Result<(), ServerError> {
    let mut config = ServerConfig::new(([127, 0, 0, 1], 7779).into());
    config.metrics_listen = Some(([127, 0, 0, 1], 7780).into());
    Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(|worker: Worker| async move {
            Ok(Counts {
                worker: worker.index(),
                asked: Cell::new(0),
                notes: Cell::new(0),
                notes_of_all: worker.counter("notes_total", "Notes that came in"),
            })
        })
        .after_event(async |p: &Counts, _: &Client, _: &Event| {
            p.notes.update(|notes| notes + 1);
            p.notes_of_all.add(1);
        })
        .route(get("/counts"), async |p: &Counts, _: Request| {
            p.asked.update(|asked| asked + 1);
            Html(format!(
                "<p>Worker {} was asked {} times and has taken {} notes.",
                p.worker,
                p.asked.get(),
                p.notes.get()
            ))
        })
        .run()
}
