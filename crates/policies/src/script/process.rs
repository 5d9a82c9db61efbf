//! The plugin's process: started when it is needed, started again when it has ended, was killed, or
//! its file has changed.
//!
//! Three threads have a part in it: the keeper writes questions, one for each process reads its
//! answers and sees it to its end, and one watches that it goes on answering.

use std::{
    collections::{HashMap, VecDeque},
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc::Receiver},
    thread,
    time::{Duration, Instant, SystemTime},
};

use hikyaku_event::EventId;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{Reply, line};

/// How soon after its start a process may be started again.
const PAUSE: Duration = Duration::from_secs(1);
/// Lines written before they are flushed.
const LINES_PER_FLUSH: usize = 256;
/// Bytes of an answer. What is longer is none, and has no end perhaps.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// One question.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) id: EventId,
    pub(super) line: Vec<u8>,
    pub(super) reply: Reply,
}

/// One process, as its threads see it.
#[derive(Debug)]
struct Process {
    open: Mutex<Open>,
    /// The watch has something to do.
    stirred: Condvar,
    /// How long it may be silent while questions are open.
    silence_max: Duration,
}

/// The questions that a process has been asked and not answered.
#[derive(Debug)]
struct Open {
    /// It will answer nothing any more.
    over: bool,
    /// It is asked nothing any more, and is to end.
    retired: bool,
    /// Its group of processes; none once it is being waited for, for then its number may be another's.
    group: Option<Pid>,
    replies: HashMap<EventId, VecDeque<Reply>>,
    /// When it last answered, or was asked after a time without questions.
    moved: Instant,
    /// The watch sleeps until it is stirred.
    unwatched: bool,
}

impl Process {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.lock().over
    }

    /// Has the watch look after it from now on.
    fn begin_silence(&self, open: &mut Open) {
        open.moved = Instant::now();
        if open.unwatched {
            open.unwatched = false;
            self.stirred.notify_one();
        }
    }

    /// Takes a question down; `false` if the process answers none any more.
    fn expect(&self, id: EventId, reply: Reply) -> bool {
        let mut open = self.lock();
        if open.over {
            return false;
        }
        if open.replies.is_empty() {
            self.begin_silence(&mut open);
        }
        open.replies.entry(id).or_default().push_back(reply);
        true
    }

    /// Asks it nothing more: it is to answer what it was asked, and end.
    fn retire(&self) {
        let mut open = self.lock();
        open.retired = true;
        self.begin_silence(&mut open);
    }

    /// Kills it with all that it has started; whoever waits for an answer gets none.
    fn end(&self) {
        self.lock().end();
        self.stirred.notify_one();
    }

    /// Sees that it goes on answering as long as questions are open, until it is over.
    fn watch(&self) {
        let mut open = self.lock();
        while !open.over {
            let is_busy = open.retired || !open.replies.is_empty();
            let left = self.silence_max.saturating_sub(open.moved.elapsed());
            open = if is_busy && left.is_zero() {
                let (unanswered, seconds) = (open.len(), self.silence_max.as_secs_f64());
                tracing::error!(
                    unanswered,
                    seconds,
                    "write-policy plugin has answered nothing for too long: killed"
                );
                open.end();
                open
            } else if !is_busy {
                open.unwatched = true;
                let woken = self.stirred.wait(open);
                woken.unwrap_or_else(PoisonError::into_inner)
            } else {
                let woken = self.stirred.wait_timeout(open, left);
                let mut open = woken.unwrap_or_else(PoisonError::into_inner).0;
                // Who has given up needs no place; a plugin may leave out an event for ever.
                open.forget_the_departed();
                open
            };
        }
    }

    /// Hands its answers to those who asked, until it ends; then nobody gets any more.
    fn read(&self, output: impl Read) {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut output)
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut line)
            {
                Ok(0) | Err(_) => return,
                Ok(_) if line.last() == Some(&b'\n') => self.hear(line.trim_ascii_end()),
                Ok(length) => {
                    if length as u64 == LINE_BYTES_MAX {
                        tracing::error!("write-policy plugin says a line without an end: killed");
                    }
                    return;
                }
            }
        }
    }

    fn hear(&self, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        match line::answer(line) {
            Ok((id, answer)) => {
                let mut open = self.lock();
                open.moved = Instant::now();
                let reply = open.replies.get_mut(&id).and_then(VecDeque::pop_front);
                if open.replies.get(&id).is_some_and(VecDeque::is_empty) {
                    open.replies.remove(&id);
                }
                drop(open);
                if let Some(reply) = reply {
                    reply.send(answer);
                }
            }
            Err(reason) => {
                let line = String::from_utf8_lossy(line);
                tracing::error!(%line, reason, "write-policy plugin says what is no answer");
            }
        }
    }

    /// Waits for its end, once it says nothing more.
    fn bury(&self, mut child: Child) {
        self.end();
        self.lock().group = None;
        match child.wait() {
            Ok(status) => tracing::info!(%status, "write-policy plugin has ended"),
            Err(error) => tracing::warn!(%error, "write-policy plugin can't be waited for"),
        }
    }
}

impl Open {
    fn len(&self) -> usize {
        self.replies.values().map(VecDeque::len).sum()
    }

    fn end(&mut self) {
        self.over = true;
        self.replies.clear();
        if let Some(group) = self.group {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    fn forget_the_departed(&mut self) {
        self.replies.retain(|_, replies| {
            replies.retain(|reply| !reply.is_forlorn());
            !replies.is_empty()
        });
    }
}

/// Looks after the process, on a thread of its own.
pub(super) struct Keeper {
    command: String,
    silence_max: Duration,
    running: Option<Running>,
    started: Option<Instant>,
}

/// A process that is asked.
struct Running {
    input: BufWriter<ChildStdin>,
    process: Arc<Process>,
    modified: Option<SystemTime>,
}

impl Keeper {
    pub(super) fn new(command: String, silence_max: Duration) -> Self {
        Self {
            command,
            silence_max,
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
                // What it has answered by now is still to be read.
                running.process.retire();
                self.running = None;
            }
        }
        if let Some(running) = self.running {
            running.process.end();
        }
    }

    /// Sees that a process is there, and that it is of the file as it is now, unless the last one was
    /// started only now.
    fn renew(&mut self) {
        if self.started.is_some_and(|at| at.elapsed() < PAUSE) {
            self.running.take_if(|running| running.process.is_over());
            return;
        }
        if let Some(running) = &self.running {
            let is_over = running.process.is_over();
            if !is_over && running.modified == modified(&self.command) {
                return;
            }
            if !is_over {
                running.process.retire();
            }
            // Its input ends here.
            self.running = None;
        }
        self.started = Some(Instant::now());
        match Running::start(&self.command, self.silence_max) {
            Ok(running) => self.running = Some(running),
            Err(error) => {
                tracing::error!(command = self.command, %error, "write-policy plugin can't be started");
            }
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
    fn start(command: &str, silence_max: Duration) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        let mut child = shell
            .arg("-c")
            .arg(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let process = Arc::new(Process {
            open: Mutex::new(Open {
                over: false,
                retired: false,
                group: i32::try_from(child.id()).ok().and_then(Pid::from_raw),
                replies: HashMap::new(),
                moved: Instant::now(),
                unwatched: false,
            }),
            stirred: Condvar::new(),
            silence_max,
        });
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("it has no input or output"));
        };
        let watched = Arc::clone(&process);
        let read = Arc::clone(&process);
        let threads = thread::Builder::new()
            .name("write-policy-watch".into())
            .spawn(move || watched.watch())
            .and_then(|_| {
                let reader = thread::Builder::new().name("write-policy-answers".into());
                reader.spawn(move || {
                    read.read(output);
                    read.bury(child);
                })
            });
        if let Err(error) = threads {
            process.end();
            return Err(error);
        }
        Ok(Self {
            input: BufWriter::new(input),
            process,
            modified: modified(command),
        })
    }

    fn ask(&mut self, asks: impl Iterator<Item = Ask>) -> io::Result<()> {
        for Ask { id, line, reply } in asks {
            if reply.is_forlorn() {
                continue;
            }
            if !self.process.expect(id, reply) {
                return Err(io::Error::other("it has ended"));
            }
            self.input.write_all(&line)?;
        }
        self.input.flush()
    }
}
