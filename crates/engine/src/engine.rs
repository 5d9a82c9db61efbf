//! The engine as its users see it: one writer thread, one thread for background work, and readers
//! that ask nobody.

use std::{
    collections::VecDeque,
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use futures_channel::{mpsc as feed, oneshot};
use hikyaku_event::Timestamp;
use hikyaku_store::{
    Committed, CommittedFeed, EventStore, Outcome, StoreError, StoreReader, Write, WriteFuture,
};
use hikyaku_vfs::{Disk, Lock};

use crate::{
    commit::{Core, Request, Statistics},
    error::EngineError,
    maintenance::{Finished, Job, Maintenance},
    open::{self, OpeningReport},
    options::{Durability, Options},
    reader::EngineReader,
    segment::TermHasher,
    snapshot::{Payload, Snapshot},
    verify::{self, VerifyReport},
};

/// A commit takes what waits, up to so many writes: what waits longer than its sync is the next
/// commit's, and one answer must not wait for an import.
const COMMIT_WRITES_MAX: usize = 4096;

/// The embedded event store.
///
/// Dropping it closes it in order: what waits is written, and the log's end is noted.
pub struct Engine {
    writer: mpsc::Sender<Message>,
    published: Arc<ArcSwap<Snapshot>>,
    feeds: Feeds,
    hasher: TermHasher,
    thread: Option<JoinHandle<()>>,
    report: OpeningReport,
}

type Feeds = Arc<Mutex<Vec<feed::UnboundedSender<Arc<Committed>>>>>;
/// The answer to a request to the writer.
pub(crate) type Answer<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;
type Reply<T> = oneshot::Sender<Result<T, EngineError>>;

enum Message {
    Write(Request, Reply<Vec<Outcome>>),
    Sweep(Timestamp, Reply<u64>),
    Compact(Reply<()>),
    /// Close the log file, so that all of the log can be read.
    Seal(mpsc::Sender<Result<Arc<Snapshot>, EngineError>>),
    Statistics(oneshot::Sender<EngineStatistics>),
    Finished(Result<Finished, EngineError>),
    Close,
}

/// Figures of an open store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineStatistics {
    /// Stored events, hidden and expired ones included.
    pub events: u64,
    /// Events that are removed, but still take room in segments.
    pub removed: u64,
    /// Hidden events.
    pub hidden: u64,
    /// Events that are in memory, their segment not yet written.
    pub in_memory: u64,
    /// Segment files.
    pub segments: u64,
    /// Bytes of segment files.
    pub segment_bytes: u64,
    /// Closed log files.
    pub log_files: u64,
    /// Bytes of closed log files.
    pub log_bytes: u64,
    /// Bytes written to the log file that is open.
    pub open_log_bytes: u64,
    /// Log files that wait for their segment.
    pub waiting_flushes: u64,
    /// Why the store refuses writes, if it does.
    pub stopped: Option<String>,
    /// What the writer has done since the store was opened.
    pub writer: Statistics,
}

impl Engine {
    /// Opens the store in a folder, or makes one. One process at a time.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the engine keeps the disk; that it does so by a clone is no caller's concern"
    )]
    pub fn open(disk: Disk, folder: PathBuf, options: Options) -> Result<Self, EngineError> {
        let opened = open::open(&disk, folder, options)?;
        let published = opened.core.published.clone();
        let hasher = opened.core.hasher;
        let feeds = Feeds::default();
        let (writer, messages) = mpsc::channel();
        let (jobs, to_do) = mpsc::channel();
        let background = Background {
            jobs: to_do,
            maintenance: opened.maintenance,
        };
        let thread = Writer {
            core: opened.core,
            messages,
            jobs: Some(jobs),
            busy: false,
            resting: false,
            held_back: VecDeque::new(),
            compactions: Vec::new(),
            feeds: feeds.clone(),
            now: None,
            sync_due: None,
        };
        let report_to = writer.clone();
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new()
                .name(name.into())
                .spawn(run)
                .map_err(|error| {
                    EngineError::Unavailable(format!("can't start the thread {name}: {error}"))
                })
        };
        let worker = spawn("background", Box::new(move || background.run(&report_to)))?;
        let lock = opened.lock;
        let thread = spawn("writer", Box::new(move || thread.run(worker, lock)))?;
        Ok(Self {
            writer,
            published,
            feeds,
            hasher,
            thread: Some(thread),
            report: opened.report,
        })
    }

    /// Returns what opening found and did.
    pub fn opening_report(&self) -> &OpeningReport {
        &self.report
    }

    /// Merges all segments into one and rewrites every log file that holds removed events. Resolves
    /// when that is done; reads and writes go on meanwhile.
    pub fn compact(&self) -> Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>> {
        self.ask(Message::Compact)
    }

    /// Checks every checksum of the store, and that its indexes agree with its log, while it is in
    /// use. Blocks until it is done: call it on a thread of its own. `progress` is called now and
    /// then with what has been checked so far.
    pub fn verify(&self, progress: impl FnMut(&VerifyReport)) -> Result<VerifyReport, StoreError> {
        let closed = || StoreError::Stopped("the store is closed".into());
        let (reply, answer) = mpsc::channel();
        self.writer
            .send(Message::Seal(reply))
            .map_err(|_| closed())?;
        let snapshot = answer.recv().map_err(|_| closed())??;
        Ok(verify::verify(&snapshot, &self.hasher, progress))
    }

    /// Returns the store's figures.
    pub fn statistics(&self) -> impl Future<Output = EngineStatistics> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        // A closed store has no figures: the reply's end says so.
        let _ = self.writer.send(Message::Statistics(reply));
        async move { answer.await.unwrap_or_default() }
    }

    /// Closes the store in order. What has been handed over is written.
    pub fn close(mut self) {
        self.shut();
    }

    fn shut(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = self.writer.send(Message::Close);
            // A writer that panicked has said so on standard error; the log is as it left it.
            let _ = thread.join();
        }
    }

    fn ask<T: Send + 'static>(&self, message: impl FnOnce(Reply<T>) -> Message) -> Answer<T> {
        let (reply, answer) = oneshot::channel();
        let sent = self.writer.send(message(reply)).is_ok();
        Box::pin(async move {
            let closed = || StoreError::Stopped("the store is closed".into());
            if !sent {
                return Err(closed());
            }
            answer
                .await
                .map_err(|_| closed())?
                .map_err(StoreError::from)
        })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shut();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl EventStore for Engine {
    fn reader(&self) -> Box<dyn StoreReader> {
        Box::new(EngineReader::new(self.published.clone(), self.hasher))
    }

    fn write(&self, writes: Vec<Write>, now: Timestamp) -> WriteFuture {
        self.ask(|reply| Message::Write(Request { writes, now }, reply))
    }

    fn committed(&self) -> CommittedFeed {
        let (sender, receiver) = feed::unbounded();
        self.feeds
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(sender);
        Box::pin(receiver)
    }

    fn sweep(&self, now: Timestamp) -> Answer<u64> {
        self.ask(|reply| Message::Sweep(now, reply))
    }
}

/// The writer thread.
struct Writer {
    core: Core,
    messages: mpsc::Receiver<Message>,
    /// To the background thread; `None` once the store is closing.
    jobs: Option<mpsc::Sender<Job>>,
    /// Whether a job is under way.
    busy: bool,
    /// Whether the last job failed: the next try waits until the store is asked for something, so
    /// that a disk that refuses is not asked without end.
    resting: bool,
    /// What came out of the queue before its turn.
    held_back: VecDeque<Message>,
    compactions: Vec<Reply<()>>,
    feeds: Feeds,
    /// The latest time anybody has told.
    now: Option<Timestamp>,
    sync_due: Option<Instant>,
}

impl Writer {
    fn run(mut self, background: JoinHandle<()>, lock: Box<dyn Lock>) {
        loop {
            self.start_work();
            let message = self.next();
            self.resting &= matches!(
                message,
                None | Some(Message::Finished(_) | Message::Statistics(_))
            );
            match message {
                Some(Message::Write(request, reply)) => self.commit(request, reply),
                Some(Message::Sweep(now, reply)) => self.sweep(now, reply),
                Some(Message::Seal(reply)) => {
                    let _ = reply.send(self.core.seal());
                }
                Some(Message::Compact(reply)) => self.compactions.push(reply),
                Some(Message::Statistics(reply)) => {
                    let _ = reply.send(statistics(&self.core));
                }
                Some(Message::Finished(finished)) => self.finished(finished),
                Some(Message::Close) => break,
                None => self.sync(),
            }
        }
        self.close(background);
        drop(lock);
    }

    /// Waits for the next message; `None` when a sync is due.
    fn next(&mut self) -> Option<Message> {
        if let Some(message) = self.held_back.pop_front() {
            return Some(message);
        }
        match self.sync_due {
            None => Some(self.messages.recv().unwrap_or(Message::Close)),
            Some(due) => {
                let wait = due.saturating_duration_since(Instant::now());
                match self.messages.recv_timeout(wait) {
                    Ok(message) => Some(message),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => Some(Message::Close),
                }
            }
        }
    }

    /// Commits a request together with all that waits behind it.
    fn commit(&mut self, request: Request, reply: Reply<Vec<Outcome>>) {
        let mut count = request.writes.len();
        let mut requests = vec![request];
        let mut replies = vec![reply];
        while count < COMMIT_WRITES_MAX {
            let next = match self.held_back.pop_front() {
                Some(message) => Ok(message),
                None => self.messages.try_recv(),
            };
            match next {
                Ok(Message::Write(request, reply)) => {
                    count += request.writes.len();
                    requests.push(request);
                    replies.push(reply);
                }
                Ok(other) => {
                    self.held_back.push_front(other);
                    break;
                }
                Err(_) => break,
            }
        }
        self.now = requests
            .iter()
            .map(|request| Some(request.now))
            .max()
            .unwrap_or_default();
        match self.room().and_then(|()| self.core.commit(&requests)) {
            Ok(done) => {
                self.tell(done.committed);
                for (reply, outcomes) in replies.into_iter().zip(done.outcomes) {
                    // Who no longer waits for the answer has gone: that changes nothing.
                    let _ = reply.send(Ok(outcomes));
                }
                self.settle();
            }
            Err(error) => {
                for reply in replies {
                    let _ = reply.send(Err(error.clone()));
                }
            }
        }
    }

    /// Waits while too many closed log files wait for their segments: memory is bounded.
    fn room(&mut self) -> Result<(), EngineError> {
        while self.core.waiting_flushes() > self.core.options.waiting_flushes_max {
            self.core.refuse_if_stopped()?;
            self.resting = false;
            self.start_work();
            if !self.busy {
                return Err(EngineError::Unavailable(
                    "the segments of closed log files can't be written".into(),
                ));
            }
            match self.next_finished() {
                Some(finished) => {
                    let failure = finished.as_ref().err().cloned();
                    self.finished(finished);
                    failure.map_or(Ok(()), Err)?;
                }
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Waits for the job under way; everything else waits in turn behind it. `None` if the store is
    /// gone.
    fn next_finished(&mut self) -> Option<Result<Finished, EngineError>> {
        let is_finished = |message: &Message| matches!(message, Message::Finished(_));
        loop {
            if let Some(index) = self.held_back.iter().position(is_finished)
                && let Some(Message::Finished(finished)) = self.held_back.remove(index)
            {
                return Some(finished);
            }
            self.held_back.push_back(self.messages.recv().ok()?);
        }
    }

    fn sweep(&mut self, now: Timestamp, reply: Reply<u64>) {
        self.now = self.now.max(Some(now));
        let swept = self.core.sweep(now);
        let swept = swept.and_then(|swept| {
            if self.core.must_turn_over(now) {
                self.core.turn_over()?;
            }
            Ok(swept)
        });
        let _ = reply.send(swept);
        self.settle();
    }

    /// Sends a commit to all subscribers; those that are gone are forgotten.
    fn tell(&self, committed: Committed) {
        if committed.events.is_empty() {
            return;
        }
        let committed = Arc::new(committed);
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        feeds.retain(|feed| feed.unbounded_send(committed.clone()).is_ok());
    }

    /// What can wait until the answers are sent. An error here is no client's: it stands in the
    /// statistics if it stopped the store, and comes again if it did not.
    fn settle(&mut self) {
        let _ = self.core.settle();
        if let (Durability::Interval(milliseconds), true) =
            (self.core.options.durability, self.core.unsynced)
        {
            self.sync_due
                .get_or_insert_with(|| Instant::now() + Duration::from_millis(milliseconds));
        }
    }

    fn sync(&mut self) {
        self.sync_due = None;
        // A failed sync stops the store, and says so to the next write.
        let _ = self.core.sync();
    }

    /// Hands the background thread its next job, if there is one.
    fn start_work(&mut self) {
        if self.busy || self.resting {
            return;
        }
        let Some(jobs) = &self.jobs else { return };
        let mut job = self.core.plan(self.now);
        if job.is_none() && !self.compactions.is_empty() {
            job = self.core.plan_compaction();
            if job.is_none() {
                for reply in self.compactions.drain(..) {
                    let _ = reply.send(Ok(()));
                }
            }
        }
        // What a manifest says must not be ahead of the log.
        if let Some(job) = job {
            match self.core.sync() {
                Ok(()) => self.busy = jobs.send(job).is_ok(),
                Err(error) => self.refuse_compactions(&error),
            }
        }
    }

    fn refuse_compactions(&mut self, error: &EngineError) {
        for reply in self.compactions.drain(..) {
            let _ = reply.send(Err(error.clone()));
        }
    }

    fn finished(&mut self, finished: Result<Finished, EngineError>) {
        self.busy = false;
        match finished {
            Ok(finished) => self.core.apply(finished),
            Err(error) => {
                self.resting = true;
                self.refuse_compactions(&error);
            }
        }
    }

    /// Ends the background work and notes the log's end.
    fn close(mut self, background: JoinHandle<()>) {
        // A plan starts from what the job before it has left.
        while self.busy {
            match self.next_finished() {
                Some(finished) => self.finished(finished),
                None => break,
            }
        }
        let note = self.core.sync().is_ok().then(|| self.core.plan_note());
        if let (Some(jobs), Some(note)) = (self.jobs.take(), note) {
            let _ = jobs.send(note);
        }
        // The background thread ends when the queue of jobs is empty and has no sender.
        let _ = background.join();
    }
}

/// The thread for background work.
struct Background {
    jobs: mpsc::Receiver<Job>,
    maintenance: Maintenance,
}

impl Background {
    fn run(mut self, writer: &mpsc::Sender<Message>) {
        for job in &self.jobs {
            let finished = self.maintenance.run(job);
            // A writer that is closing no longer listens; the manifest has it all.
            let _ = writer.send(Message::Finished(finished));
        }
    }
}

fn statistics(core: &Core) -> EngineStatistics {
    let mut figures = EngineStatistics {
        log_files: core.files.iter().count() as u64,
        log_bytes: core.files.iter().map(crate::log::SealedLog::len).sum(),
        open_log_bytes: u64::from(core.log.end().offset),
        waiting_flushes: core.waiting_flushes() as u64,
        stopped: core.stopped.clone(),
        writer: core.statistics,
        ..EngineStatistics::default()
    };
    for part in &core.parts {
        let removed = u64::from(part.removed.count());
        figures.events += u64::from(part.segment.len()) - removed;
        figures.removed += removed;
        figures.hidden += u64::from(part.hidden.count());
        match part.payload {
            Payload::Memory { .. } => figures.in_memory += u64::from(part.segment.len()),
            Payload::Log { .. } => {
                figures.segments += 1;
                figures.segment_bytes += part.segment.bytes_len() as u64;
            }
        }
    }
    figures
}
