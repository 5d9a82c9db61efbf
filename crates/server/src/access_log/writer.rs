//! Writes the access log, on a thread of its own, so that no client waits for a disk.

use std::{
    fmt,
    io::{self, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{self, Receiver, SyncSender},
    },
    thread,
    time::Duration,
};

use super::{AccessLogFormat, Line};

/// Lines that may wait for the thread; those beyond are dropped and counted.
const LINES_MAX: usize = 4_096;
/// How long the thread lets more lines come before it takes them: waking it for each one would cost
/// the worker more than the line.
const LINGER: Duration = Duration::from_millis(20);
/// Bytes written at once, about.
const WRITTEN_BYTES: usize = 64 * 1024;
/// How long an end waits for the disk.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where each HTTP request, and each WebSocket's opening and end, is written to.
#[derive(Clone)]
pub struct AccessLog(Arc<Handle>);

struct Handle {
    /// `None` wakes the thread to what it has been asked for.
    lines: SyncSender<Option<Box<Line>>>,
    asked: Arc<Asked>,
    ended: Mutex<Receiver<()>>,
}

#[derive(Default)]
struct Asked {
    reopen: AtomicBool,
    end: AtomicBool,
    dropped: Arc<AtomicU64>,
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").finish_non_exhaustive()
    }
}

impl AccessLog {
    /// Begins to write lines to what `open` opens, now and at each [`reopen`](Self::reopen). Lines are
    /// appended in large pieces, and within moments.
    ///
    /// # Errors
    ///
    /// What `open` says at its first call, or that the system refuses a thread.
    pub fn start<W, F>(format: AccessLogFormat, mut open: F) -> io::Result<Self>
    where
        W: Write + Send + 'static,
        F: FnMut() -> io::Result<W> + Send + 'static,
    {
        let (lines, incoming) = mpsc::sync_channel(LINES_MAX);
        let (ending, ended) = mpsc::channel();
        let asked = Arc::<Asked>::default();
        let mut writer = Writer {
            format,
            into: open()?,
            open,
            asked: Arc::clone(&asked),
            text: Vec::new(),
            lines: 0,
            failing: false,
        };
        thread::Builder::new()
            .name("access-log".into())
            .spawn(move || {
                writer.run(&incoming);
                // Who has stopped waiting wants to know nothing any more.
                let _ = ending.send(());
            })?;
        let ended = Mutex::new(ended);
        Ok(Self(Arc::new(Handle {
            lines,
            asked,
            ended,
        })))
    }

    /// Has the place opened again before the next line is written: after a file has been renamed, say.
    pub fn reopen(&self) {
        self.0.asked.reopen.store(true, Relaxed);
        // With a full queue the thread is awake.
        let _ = self.0.lines.try_send(None);
    }

    /// Waits until what has come is written, or some seconds. What comes later is dropped.
    pub fn close(&self) {
        self.0.asked.end.store(true, Relaxed);
        let _ = self.0.lines.try_send(None);
        let ended = self.0.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(PATIENCE) {
            tracing::warn!("the access log's last lines are not written");
        }
    }

    /// Takes a line; never waits.
    pub(crate) fn take(&self, line: Box<Line>) {
        if self.0.lines.try_send(Some(line)).is_err() {
            self.0.asked.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Returns the count of lines that have not been written.
    pub(crate) fn dropped(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.0.asked.dropped)
    }
}

struct Writer<W, F> {
    format: AccessLogFormat,
    into: W,
    open: F,
    asked: Arc<Asked>,
    /// What has not been written yet, and how many lines it is.
    text: Vec<u8>,
    lines: u64,
    failing: bool,
}

impl<W: Write, F: FnMut() -> io::Result<W>> Writer<W, F> {
    fn run(&mut self, incoming: &Receiver<Option<Box<Line>>>) {
        while let Ok(first) = incoming.recv() {
            self.add(first);
            if !self.asked.end.load(Relaxed) {
                thread::sleep(LINGER);
            }
            while let Ok(next) = incoming.try_recv() {
                self.add(next);
            }
            self.write();
            if self.asked.end.load(Relaxed) {
                // What came between the last look and the question.
                while let Ok(next) = incoming.try_recv() {
                    self.add(next);
                }
                self.write();
                return;
            }
        }
    }

    fn add(&mut self, line: Option<Box<Line>>) {
        if let Some(line) = line {
            line.write(self.format, &mut self.text);
            self.lines += 1;
        }
        if self.text.len() >= WRITTEN_BYTES {
            self.write();
        }
    }

    /// Writes what there is; what can't be written is dropped and counted.
    fn write(&mut self) {
        let written = self.reopened().and_then(|()| {
            self.into.write_all(&self.text)?;
            self.into.flush()
        });
        match written {
            Ok(()) => self.failing = false,
            Err(error) => {
                self.asked.dropped.fetch_add(self.lines, Relaxed);
                // Once, and not for every line.
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::error!(%error, "the access log can't be written");
                }
                // It may be better in a new file.
                self.asked.reopen.store(true, Relaxed);
            }
        }
        self.text.clear();
        self.lines = 0;
    }

    fn reopened(&mut self) -> io::Result<()> {
        if self.asked.reopen.swap(false, Relaxed) {
            self.into = (self.open)()?;
        }
        Ok(())
    }
}
