//! The command's side.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use serde::de::DeserializeOwned;

use super::{EVENT, FAILURE, PROGRESS, REPORT};
use crate::{
    failure::Failure,
    operations::{Audience, Input, Operation, Report},
};

/// How often a stop is looked for while the server says nothing.
const STOP_CHECK: Duration = Duration::from_millis(200);
/// How much of the input is sent at once.
const SEND_BYTES: usize = 64 * 1024;
/// How much of a line without an end is kept back.
const UNSENT_BYTES_MAX: usize = 16 << 20;

/// Has the running server carry an operation out. Once `stop` is set no more input is sent, and the
/// server ends with what it has.
pub(crate) fn call(
    stream: UnixStream,
    operation: &Operation,
    input: Input,
    stop: &Arc<AtomicBool>,
    audience: &mut dyn Audience,
) -> Result<Report, Failure> {
    let lost = |error: io::Error| {
        Failure::Failed(format!(
            "the running server has gone ({error}); what it had answered is done"
        ))
    };
    let request = serde_json::to_string(operation)
        .map_err(|error| Failure::Failed(format!("can't write the request: {error}")))?;
    (&stream)
        .write_all(format!("{request}\n").as_bytes())
        .map_err(lost)?;
    let sending = Arc::new(Mutex::new(stream.try_clone().map_err(lost)?));
    let (input_error, input_failed) = mpsc::channel();
    {
        let (sending, stop) = (sending.clone(), stop.clone());
        // Not joined: it may wait for input that never comes.
        thread::spawn(move || {
            if let Err(SendError::Input(error)) = send(input, &sending, &stop) {
                // Before the server is told that no more comes: its report finds the error here.
                let _ = input_error.send(error);
            }
            end(&sending.lock().unwrap_or_else(PoisonError::into_inner));
        });
    }
    stream.set_read_timeout(Some(STOP_CHECK)).map_err(lost)?;
    let mut answers = BufReader::with_capacity(256 * 1024, stream);
    let mut line = Vec::new();
    loop {
        match answers.read_until(b'\n', &mut line) {
            // What has come of the line is kept.
            Err(error) if is_timeout(&error) => {
                if stop.load(Ordering::Relaxed)
                    && let Ok(sending) = sending.try_lock()
                {
                    end(&sending);
                }
                continue;
            }
            read => read.map_err(lost)?,
        };
        let body = line.strip_suffix(b"\n").and_then(|line| line.split_first());
        match body {
            Some((&EVENT, json)) => audience
                .event(json)
                .map_err(|error| Failure::output(&error))?,
            Some((&PROGRESS, json)) => audience
                .progress(object(json)?)
                .map_err(|error| Failure::output(&error))?,
            Some((&REPORT, json)) => {
                let mut report = object(json)?;
                if let (Report::Imported(report), Ok(error)) =
                    (&mut report, input_failed.try_recv())
                {
                    report.break_off(&error);
                }
                return Ok(report);
            }
            Some((&FAILURE, json)) => return Err(object(json)?),
            _ => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
        }
        line.clear();
    }
}

/// Tells the server that no more input comes. It may know already.
fn end(sending: &UnixStream) {
    let _ = sending.shutdown(Shutdown::Write);
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn object<T: DeserializeOwned>(json: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(json).map_err(|error| {
        Failure::Failed(format!(
            "the running server's answer is not understood ({error}); it is of another version"
        ))
    })
}

/// Why not all of the input was sent.
enum SendError {
    /// It can't be read on.
    Input(io::Error),
    /// The server has gone, which is noticed where its answers are read.
    Server,
}

/// Sends whole lines, each lot under the lock: where it is stopped, none is sent in part.
fn send(mut input: Input, sending: &Mutex<UnixStream>, stop: &AtomicBool) -> Result<(), SendError> {
    let write = |lines: &[u8]| {
        sending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write_all(lines)
            .map_err(|_| SendError::Server)
    };
    let mut unsent = Vec::new();
    loop {
        let kept = unsent.len();
        unsent.resize(kept + SEND_BYTES, 0);
        let read = input.read(unsent.get_mut(kept..).unwrap_or_default());
        unsent.truncate(kept + *read.as_ref().unwrap_or(&0));
        match read {
            _ if stop.load(Ordering::Relaxed) => return Ok(()),
            Ok(0) => return write(&unsent),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(SendError::Input(error)),
            Ok(_) => {
                let new = unsent.get(kept..).unwrap_or_default();
                let whole = match new.iter().rposition(|byte| *byte == b'\n') {
                    Some(end) => kept + end + 1,
                    // Too long to be an event: it need not be kept together.
                    None if unsent.len() > UNSENT_BYTES_MAX => unsent.len(),
                    None => 0,
                };
                write(unsent.get(..whole).unwrap_or_default())?;
                unsent.drain(..whole);
            }
        }
    }
}
