//! The server's side: a thread that accepts, and one for each command under way.

use std::{
    collections::HashMap,
    fs,
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    net::Shutdown,
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{EVENT, FAILURE, PROGRESS, REPORT};
use crate::{
    failure::Failure,
    operations::{Audience, Input, Operation, Progress, Report},
};

/// A request holds filters: those of 15,000 ids have a megabyte.
const REQUEST_BYTES_MAX: u64 = 64 << 20;
/// How long accepting pauses after a failure that will not pass at once (no descriptors left).
const PAUSE: Duration = Duration::from_millis(100);
/// How long a shutdown waits for commands to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// What carries an operation out, on a command's own thread.
pub(crate) trait Carrier: Clone + Send + 'static {
    /// Carries an operation out. Once `stop` is set it ends as soon as it can, in order.
    fn carry_out(
        &self,
        operation: &Operation,
        input: Input,
        stop: &Arc<AtomicBool>,
        audience: &mut dyn Audience,
    ) -> Result<Report, Failure>;
}

/// A listening control socket.
#[derive(Debug)]
pub(crate) struct ControlServer {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    acceptor: JoinHandle<()>,
}

impl ControlServer {
    /// Listens. The caller has what is in the folder open, so that a socket found here is a dead server's.
    pub(crate) fn start(path: PathBuf, host: impl Carrier) -> io::Result<Self> {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let stop = Arc::new(AtomicBool::new(false));
        let acceptor = {
            let stop = stop.clone();
            thread::Builder::new()
                .name("control".into())
                .spawn(move || accept(&listener, &host, &stop))?
        };
        Ok(Self {
            path,
            stop,
            acceptor,
        })
    }

    /// Ends: commands under way are stopped, in order, and the socket is gone.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the acceptor, which looks at `stop` then.
        let woken = UnixStream::connect(&self.path).is_ok();
        remove(&self.path);
        if woken && self.acceptor.join().is_err() {
            tracing::error!("the control socket's thread has panicked");
        }
    }
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(%error, "control socket not removed");
    }
}

type Connections = Arc<Mutex<HashMap<u64, UnixStream>>>;

fn accept(listener: &UnixListener, host: &impl Carrier, stop: &Arc<AtomicBool>) {
    let connections = Connections::default();
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    for id in 0.. {
        let accepted = listener.accept();
        if stop.load(Ordering::Relaxed) {
            break;
        }
        threads.retain(|thread| !thread.is_finished());
        let started = accepted.and_then(|(stream, _)| {
            lock(&connections).insert(id, stream.try_clone()?);
            let (host, stop, connections) = (host.clone(), stop.clone(), connections.clone());
            thread::Builder::new()
                .name("control-command".into())
                .spawn(move || {
                    if let Err(error) = serve(stream, &host, &stop) {
                        tracing::debug!(%error, "a command has gone");
                    }
                    lock(&connections).remove(&id);
                })
        });
        match started {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                lock(&connections).remove(&id);
                tracing::warn!(%error, "command not accepted");
                thread::sleep(PAUSE);
            }
        }
    }
    for stream in lock(&connections).values() {
        // An import that waits for more of its input has had it all; answers are still sent.
        let _ = stream.shutdown(Shutdown::Read);
    }
    let deadline = Instant::now() + PATIENCE;
    while threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    for stream in lock(&connections).values() {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn lock(connections: &Connections) -> std::sync::MutexGuard<'_, HashMap<u64, UnixStream>> {
    connections.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves one command.
fn serve(stream: UnixStream, host: &impl Carrier, stop: &Arc<AtomicBool>) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = Vec::new();
    reader
        .by_ref()
        .take(REQUEST_BYTES_MAX)
        .read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(());
    }
    let mut audience = Frames(BufWriter::with_capacity(256 * 1024, stream));
    let result = match serde_json::from_slice::<Operation>(&line) {
        Ok(operation) => {
            tracing::info!(operation = operation.name(), "command begun");
            let result = host.carry_out(&operation, Box::new(reader), stop, &mut audience);
            tracing::info!(
                operation = operation.name(),
                ok = result.is_ok(),
                "command ended"
            );
            result
        }
        Err(error) => Err(Failure::Failed(format!(
            "the running server does not understand this command ({error}); it is of another version"
        ))),
    };
    audience.end(&result)
}

/// Answers as lines.
struct Frames(BufWriter<UnixStream>);

impl Frames {
    fn end(&mut self, result: &Result<Report, Failure>) -> io::Result<()> {
        match result {
            Ok(report) => self.object(REPORT, report)?,
            Err(failure) => self.object(FAILURE, failure)?,
        }
        self.0.flush()
    }

    fn object(&mut self, letter: u8, object: &impl Serialize) -> io::Result<()> {
        self.0.write_all(&[letter])?;
        serde_json::to_writer(&mut self.0, object)?;
        self.0.write_all(b"\n")
    }
}

impl Audience for Frames {
    fn event(&mut self, json: &[u8]) -> io::Result<()> {
        self.0.write_all(&[EVENT])?;
        self.0.write_all(json)?;
        self.0.write_all(b"\n")
    }

    fn progress(&mut self, progress: Progress) -> io::Result<()> {
        self.object(PROGRESS, &progress)?;
        self.0.flush()
    }
}
