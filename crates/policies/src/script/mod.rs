//! A write-policy plugin of strfry's kind: a program that is told of each event by a line of JSON
//! and answers with another (strfry's `docs/plugins.md`).
//!
//! One process serves all workers. Lines are written as they come, without a wait for the answers,
//! which are told apart by the event's id.

mod line;
mod process;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
        mpsc::{self, Sender},
    },
    thread,
    time::Duration,
};

use hikyaku_event::Event;
use hikyaku_server::Client;
use tokio::sync::oneshot;

pub(crate) use line::Answer;
use process::{Ask, Keeper};

/// Questions that may wait for an answer at once; an event's line is 1 KB or so.
const QUESTIONS_MAX: usize = 10_000;

/// A running write-policy plugin, to be asked by anybody.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    asks: Sender<Ask>,
    waiting: Arc<AtomicUsize>,
    /// Somebody was left without an answer since the last one.
    behind: Arc<AtomicBool>,
}

impl Script {
    /// Starts the thread that looks after the process; it ends with the last clone of this. A process
    /// that says nothing for `silence_max` while it is asked is killed.
    pub(crate) fn start(command: String, silence_max: Duration) -> io::Result<Self> {
        let (asks, waiting) = mpsc::channel();
        let keeper = Keeper::new(command, silence_max);
        thread::Builder::new()
            .name("write-policy".into())
            .spawn(move || keeper.run(&waiting))?;
        Ok(Self {
            asks,
            waiting: Arc::default(),
            behind: Arc::default(),
        })
    }

    /// Asks about an event. `None` if there is no answer: the process has ended or was killed, it can't
    /// be understood, or it had so much to do before that `patience` is over.
    pub(crate) async fn ask(
        &self,
        client: &Client,
        event: &Event,
        patience: Duration,
    ) -> Option<Answer> {
        let (sender, answer) = oneshot::channel();
        let reply = Reply {
            sender: Some(sender),
            waiting: Arc::clone(&self.waiting),
        };
        if self.waiting.fetch_add(1, Relaxed) >= QUESTIONS_MAX {
            self.note_behind();
            return None;
        }
        let ask = Ask {
            id: event.id(),
            line: line::question(client, event),
            reply,
        };
        self.asks.send(ask).ok()?;
        let Ok(answer) = tokio::time::timeout(patience, answer).await else {
            self.note_behind();
            return None;
        };
        if answer.is_ok() && self.behind.load(Relaxed) {
            self.behind.store(false, Relaxed);
        }
        answer.ok()
    }

    fn note_behind(&self) {
        if !self.behind.swap(true, Relaxed) {
            tracing::warn!("write-policy plugin is behind: events go without an answer");
        }
    }
}

/// Where an answer goes; it has its place among those who wait until it is dropped.
#[derive(Debug)]
struct Reply {
    sender: Option<oneshot::Sender<Answer>>,
    waiting: Arc<AtomicUsize>,
}

impl Reply {
    fn send(mut self, answer: Answer) {
        if let Some(sender) = self.sender.take() {
            // Who asked may have given up.
            let _ = sender.send(answer);
        }
    }

    /// Tells whether nobody waits for it any more.
    fn is_forlorn(&self) -> bool {
        self.sender.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Relaxed);
    }
}
