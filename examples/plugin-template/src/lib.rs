//! A plugin: counts notes by their length, refuses long ones, and shows what it has seen.
//!
//! [`Lengths`] is one worker's instance, so it keeps what it likes without a lock. [`serve`] says which
//! handlers it has.

#![expect(clippy::unused_async, reason = "handlers may wait; these need not")]

use std::cell::Cell;

use hikyaku_event::Event;
use hikyaku_server::{Client, Counter, PluginError, Request, Server, Verdict, With, Worker, get};

/// Characters of a note.
const LENGTH_MAX: usize = 280;

/// One worker's instance.
#[derive(Debug)]
pub struct Lengths {
    refused: Counter,
    longest: Cell<usize>,
}

impl Lengths {
    /// Makes a worker's instance, before anybody is served.
    pub async fn new(worker: Worker) -> Result<Self, PluginError> {
        Ok(Self {
            refused: worker.counter("long_notes_total", "Notes that were too long."),
            longest: Cell::new(0),
        })
    }

    /// Decides about an event.
    pub async fn on_event(&self, _: &Client, event: &Event) -> Verdict {
        let length = event.content().chars().count();
        self.longest.set(self.longest.get().max(length));
        if length > LENGTH_MAX {
            self.refused.add(1);
            return Verdict::reject(format!("a note has {LENGTH_MAX} characters at most"));
        }
        Verdict::Accept
    }

    /// Answers a page: the longest note that this worker has seen.
    pub async fn page(&self, _: Request) -> String {
        format!("{}\n", self.longest.get())
    }

    /// Carries a command out.
    pub async fn explain(&self, _: Vec<String>) -> Result<(), PluginError> {
        println!("notes of more than {LENGTH_MAX} characters are refused");
        Ok(())
    }
}

/// Registers the plugin and its handlers.
pub fn serve(server: Server) -> Server<With<Lengths, hikyaku_server::NoPlugins>> {
    server
        .plugin(Lengths::new)
        .on_event(Lengths::on_event)
        .route(get("/longest"), Lengths::page)
        .command("explain", "Says what is refused", Lengths::explain)
}
