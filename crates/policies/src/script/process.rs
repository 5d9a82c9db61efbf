//! The plugin's process: started when it is needed, started again when it has ended, was killed, or
//! its file has changed.

use std::{
    collections::{HashMap, VecDeque},
    io::{self, BufRead, BufReader, BufWriter, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc::Receiver,
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use hikyaku_event::EventId;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::oneshot;

use super::line::{self, Answer};

/// How soon after its start a process may be started again.
const PAUSE: Duration = Duration::from_secs(1);
/// Lines written before they are flushed.
const LINES_PER_FLUSH: usize = 256;

/// One question.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) id: EventId,
    pub(super) line: Vec<u8>,
    pub(super) reply: oneshot::Sender<Answer>,
}

/// The process that is asked now, as everybody sees it.
#[derive(Debug, Clone, Default)]
pub(super) struct Current {
    /// How many there have been.
    number: Arc<AtomicU64>,
    /// Its group of processes; none before it starts and once its end is known.
    group: Arc<Mutex<Option<Pid>>>,
}

impl Current {
    pub(super) fn number(&self) -> u64 {
        self.number.load(SeqCst)
    }

    /// Kills the process, if it is not a later one than this.
    pub(super) fn kill(&self, number: u64) {
        // While the lock is held nobody waits for the process, so the number stays its own.
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = *group
            && self.number() <= number.max(1)
        {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    fn set(&self, group: Option<Pid>) {
        if group.is_some() {
            self.number.fetch_add(1, SeqCst);
        }
        *self.group.lock().unwrap_or_else(PoisonError::into_inner) = group;
    }
}

/// The questions that a process has been asked and not answered.
#[derive(Debug, Default)]
struct Open {
    /// It will answer nothing any more.
    over: bool,
    replies: HashMap<EventId, VecDeque<oneshot::Sender<Answer>>>,
}

type Opened = Arc<Mutex<Open>>;

fn locked(open: &Opened) -> std::sync::MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks after the process, on a thread of its own.
pub(super) struct Keeper {
    command: String,
    current: Current,
    running: Option<Running>,
    started: Option<Instant>,
}

struct Running {
    child: Child,
    input: BufWriter<ChildStdin>,
    open: Opened,
    modified: Option<SystemTime>,
}

impl Keeper {
    pub(super) fn new(command: String, current: Current) -> Self {
        Self {
            command,
            current,
            running: None,
            started: None,
        }
    }

    /// Hands questions to the process until nobody is left to ask any.
    pub(super) fn run(mut self, asks: &Receiver<Ask>) {
        while let Ok(ask) = asks.recv() {
            self.renew();
            let Some(running) = &mut self.running else {
                // Without an answer: who asked knows what that means.
                continue;
            };
            let batch = std::iter::once(ask).chain(asks.try_iter().take(LINES_PER_FLUSH));
            if let Err(error) = running.ask(batch) {
                tracing::warn!(%error, "write-policy plugin takes no more events");
                self.stop();
            }
        }
        self.stop();
    }

    /// Sees that a process is there, unless the last one was started only now.
    fn renew(&mut self) {
        let is_stale = |running: &Running| {
            locked(&running.open).over || running.modified != modified(&self.command)
        };
        if self.running.as_ref().is_some_and(is_stale) {
            self.stop();
        }
        let is_early = self.started.is_some_and(|at| at.elapsed() < PAUSE);
        if self.running.is_some() || is_early {
            return;
        }
        self.started = Some(Instant::now());
        match Running::start(&self.command) {
            Ok(running) => {
                let group = i32::try_from(running.child.id()).ok();
                self.current.set(group.and_then(Pid::from_raw));
                self.running = Some(running);
            }
            Err(error) => {
                tracing::error!(command = self.command, %error, "write-policy plugin can't be started");
            }
        }
    }

    fn stop(&mut self) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        self.current.kill(self.current.number());
        self.current.set(None);
        match running.child.wait() {
            Ok(status) => tracing::info!(%status, "write-policy plugin has ended"),
            Err(error) => tracing::warn!(%error, "write-policy plugin can't be waited for"),
        }
    }
}

/// Returns when a script was last changed; of a command with arguments nobody knows which part is
/// the script.
fn modified(command: &str) -> Option<SystemTime> {
    if command.contains(' ') {
        return None;
    }
    Path::new(command).metadata().ok()?.modified().ok()
}

impl Running {
    fn start(command: &str) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        let mut child = shell
            .arg("-c")
            .arg(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("it has no input or output"));
        };
        let open = Opened::default();
        let reading = Arc::clone(&open);
        thread::Builder::new()
            .name("write-policy-answers".into())
            .spawn(move || read(output, &reading))?;
        Ok(Self {
            child,
            input: BufWriter::new(input),
            open,
            modified: modified(command),
        })
    }

    fn ask(&mut self, asks: impl Iterator<Item = Ask>) -> io::Result<()> {
        for Ask { id, line, reply } in asks {
            {
                let mut open = locked(&self.open);
                if open.over {
                    return Err(io::Error::other("it has ended"));
                }
                open.replies.entry(id).or_default().push_back(reply);
            }
            self.input.write_all(&line)?;
        }
        self.input.flush()
    }
}

/// Hands a process's answers to those who asked, until it ends; then nobody gets any more.
fn read(output: ChildStdout, open: &Opened) {
    for line in BufReader::new(output).split(b'\n') {
        let Ok(line) = line else { break };
        if line.is_empty() {
            continue;
        }
        match line::answer(&line) {
            Ok((id, answer)) => {
                let mut open = locked(open);
                let reply = open.replies.get_mut(&id).and_then(VecDeque::pop_front);
                if open.replies.get(&id).is_some_and(VecDeque::is_empty) {
                    open.replies.remove(&id);
                }
                if let Some(reply) = reply {
                    // Who asked may have given up.
                    let _ = reply.send(answer);
                }
            }
            Err(reason) => {
                let line = String::from_utf8_lossy(&line);
                tracing::error!(%line, reason, "write-policy plugin says what is no answer");
            }
        }
    }
    let mut open = locked(open);
    open.over = true;
    open.replies.clear();
}
