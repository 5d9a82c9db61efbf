//! A write-policy plugin of strfry's kind: a program that is told of each event by a line of JSON
//! and answers with another (strfry's `docs/plugins.md`).
//!
//! One process serves all workers. Lines are written as they come, without a wait for the answers,
//! which are told apart by the event's id.

mod line;
mod process;

use std::{
    io,
    sync::mpsc::{self, Sender},
    thread,
    time::Duration,
};

use hikyaku_event::Event;
use hikyaku_server::Client;
use tokio::sync::oneshot;

pub(crate) use line::Answer;
use process::{Ask, Current, Keeper};

/// A running write-policy plugin, to be asked by anybody.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    asks: Sender<Ask>,
    current: Current,
    timeout: Duration,
}

impl Script {
    /// Starts the thread that looks after the process; it ends with the last clone of this.
    pub(crate) fn start(command: String, timeout: Duration) -> io::Result<Self> {
        let (asks, waiting) = mpsc::channel();
        let current = Current::default();
        let keeper = Keeper::new(command, current.clone());
        thread::Builder::new()
            .name("write-policy".into())
            .spawn(move || keeper.run(&waiting))?;
        Ok(Self {
            asks,
            current,
            timeout,
        })
    }

    /// Asks about an event. `None` if there is no answer: the process has ended, it took too long
    /// (then it is killed, and started again with the next event), or it can't be understood.
    pub(crate) async fn ask(&self, client: &Client, event: &Event) -> Option<Answer> {
        let (reply, answer) = oneshot::channel();
        let ask = Ask {
            id: event.id(),
            line: line::question(client.address(), event),
            reply,
        };
        let asked_of = self.current.number();
        self.asks.send(ask).ok()?;
        if let Ok(answer) = tokio::time::timeout(self.timeout, answer).await {
            return answer.ok();
        }
        tracing::error!(event = %event.id(), "write-policy plugin took too long: killed");
        self.current.kill(asked_of);
        None
    }
}
