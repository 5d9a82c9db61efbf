//! The command's side.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use serde::de::DeserializeOwned;

use super::{EVENT, FAILURE, PROGRESS, REPORT};
use crate::{
    failure::Failure,
    operations::{Audience, Input, Operation, Report},
};

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
    let mut sending = stream.try_clone().map_err(lost)?;
    sending
        .write_all(format!("{request}\n").as_bytes())
        .map_err(lost)?;
    let stop = stop.clone();
    // Not joined: it may wait for input that never comes.
    thread::spawn(move || {
        // A server that has gone is noticed where its answers are read.
        let _ = send(input, &mut sending, &stop);
        let _ = sending.shutdown(Shutdown::Write);
    });
    let mut answers = BufReader::with_capacity(256 * 1024, stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        answers.read_until(b'\n', &mut line).map_err(lost)?;
        let body = line.strip_suffix(b"\n").and_then(|line| line.split_first());
        match body {
            Some((&EVENT, json)) => audience
                .event(json)
                .map_err(|error| Failure::output(&error))?,
            Some((&PROGRESS, json)) => audience
                .progress(object(json)?)
                .map_err(|error| Failure::output(&error))?,
            Some((&REPORT, json)) => return object(json),
            Some((&FAILURE, json)) => return Err(object(json)?),
            _ => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

fn object<T: DeserializeOwned>(json: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(json).map_err(|error| {
        Failure::Failed(format!(
            "the running server's answer is not understood ({error}); it is of another version"
        ))
    })
}

/// Sends whole lines: where it is stopped, none is sent in part.
fn send(mut input: Input, stream: &mut UnixStream, stop: &AtomicBool) -> io::Result<()> {
    let mut unsent = Vec::new();
    loop {
        let kept = unsent.len();
        unsent.resize(kept + SEND_BYTES, 0);
        let read = input.read(unsent.get_mut(kept..).unwrap_or_default());
        unsent.truncate(kept + *read.as_ref().unwrap_or(&0));
        match read {
            _ if stop.load(Ordering::Relaxed) => return Ok(()),
            Ok(0) => return stream.write_all(&unsent),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => {
                result?;
                let new = unsent.get(kept..).unwrap_or_default();
                let whole = match new.iter().rposition(|byte| *byte == b'\n') {
                    Some(end) => kept + end + 1,
                    // Too long to be an event: it need not be kept together.
                    None if unsent.len() > UNSENT_BYTES_MAX => unsent.len(),
                    None => 0,
                };
                stream.write_all(unsent.get(..whole).unwrap_or_default())?;
                unsent.drain(..whole);
            }
        }
    }
}
