//! The watchdog: a thread that notices which handler holds a worker, names it, and lets new
//! connections go elsewhere meanwhile.
//!
//! Nobody can interrupt a thread that does not wait. What can be done is to say who it is, and to
//! take what knocks at its door. The watchdog sleeps while no handler runs.

use std::{
    io,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::book::{HOLD_MAX, WorkerPage};
use crate::{entrance, worker::Shared};

/// How often it looks: whoever stays too long is seen before.
const LOOK: Duration = Duration::from_millis(5);
/// Looks without anything to see before it goes to sleep: a second.
const LOOKS_IDLE: u32 = 200;
/// Connections taken from a held worker's door in one look.
const CONNECTIONS_PER_LOOK: usize = 256;

/// The thread.
pub(crate) struct Watchdog {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
}

/// What is known of one worker.
#[derive(Default)]
struct Sight {
    stay: u64,
    /// A handler holds it.
    held: bool,
}

impl Watchdog {
    /// Starts watching. The listeners are the workers' own.
    pub(crate) fn start(shared: Arc<Shared>, listeners: Vec<TcpListener>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("watchdog".into())
            .spawn(move || watch(&shared, &listeners, &stopped))?;
        Ok(Self { thread, stop })
    }

    /// Stops watching.
    pub(crate) fn stop(self) {
        self.stop.store(true, Relaxed);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the watchdog has failed");
        }
    }
}

fn watch(shared: &Arc<Shared>, listeners: &[TcpListener], stop: &AtomicBool) {
    let book = &shared.handlers;
    book.watched_by(thread::current());
    let mut sights: Vec<_> = book.workers.iter().map(|_| Sight::default()).collect();
    let mut idle = 0;
    while !stop.load(Relaxed) {
        let mut seen = false;
        let workers = book.workers.iter().zip(&mut sights).zip(listeners);
        for (index, ((page, sight), listener)) in workers.enumerate() {
            look(shared, page, sight);
            seen |= sight.stay != 0;
            if sight.held {
                relieve(shared, index, listener);
            }
        }
        idle = if seen { 0 } else { idle + 1 };
        if idle < LOOKS_IDLE {
            thread::park_timeout(LOOK);
            continue;
        }
        book.fall_asleep();
        // One that came in since would not have woken us.
        if book.workers.iter().all(|page| page.current() == 0) && !stop.load(Relaxed) {
            thread::park();
        }
        book.wake_up();
        idle = 0;
    }
}

fn look(shared: &Shared, page: &WorkerPage, sight: &mut Sight) {
    let book = &shared.handlers;
    let stay = page.current();
    if stay != sight.stay {
        if sight.held {
            sight.held = false;
            page.set_held(false);
        }
        sight.stay = stay;
    }
    if stay == 0 || sight.held {
        return;
    }
    // From here on the worker itself looks how long it was when it is over.
    page.see(stay);
    // It may have entered another one since; that one is new.
    if book.time_in(page) > HOLD_MAX && page.current() == stay {
        sight.held = true;
        page.set_held(true);
        page.count_hold(stay);
        let handler = WorkerPage::handler_of(stay);
        if let Some(name) = book.names.get(usize::from(handler.0)) {
            tracing::warn!(
                plugin = name.plugin,
                handler = %name.task,
                "handler holds its worker for more than 10 ms: everybody there waits; let it use `blocking`"
            );
        }
    }
}

/// Takes the connections that wait at a held worker's door, and gives them to the others.
fn relieve(shared: &Arc<Shared>, held: usize, listener: &TcpListener) {
    if (0..shared.handlers.workers.len()).all(|worker| shared.handlers.is_held(worker)) {
        return;
    }
    for _ in 0..CONNECTIONS_PER_LOOK {
        let Ok((stream, peer)) = listener.accept() else {
            return;
        };
        entrance::redirect(shared, held, stream, peer.ip());
    }
}
