//! Running the program.

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread::{self, JoinHandle},
    time::Duration,
};

use hikyaku_event::{
    Event,
    testing::{Author, EventBuilder},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// No start or stop takes longer, on any machine, unless something is broken.
const PATIENCE: Duration = Duration::from_mins(1);

/// A working directory that is removed again; its data folder is `data`.
pub(crate) struct Place(TempDir);

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// Returns standard output, of a command that succeeded.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// Returns standard output as JSON, of a command that succeeded.
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.ok()).expect("an answer in JSON")
    }

    /// Returns standard error, of a command that ended with this code.
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        self.err
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        // Not the default folder's name, which may be too long for a socket.
        Self(TempDir::with_prefix("hikyaku").unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// Writes a file into the working directory.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    /// Returns a command that is not run yet, in an environment without our variables.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hikyaku"));
        command
            .current_dir(self.path())
            .args(args)
            .stdin(Stdio::null());
        for (name, _) in std::env::vars() {
            if name.starts_with("HIKYAKU_") {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        ended(self.command(args))
    }

    /// Runs a command to its end, with this on standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> Ended {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // A command that fails early may not read it all.
        let writing = thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writing.join().unwrap();
        ending(&output)
    }

    /// Imports events, all of which are new and valid.
    pub(crate) fn import(&self, events: &[Event]) {
        let report = self.run_with(&["import", "--json"], &lines(events)).json();
        assert_eq!(report["stored"], events.len(), "{report}");
    }
}

pub(crate) fn ended(mut command: Command) -> Ended {
    ending(&command.output().unwrap())
}

fn ending(output: &std::process::Output) -> Ended {
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout.clone()).unwrap(),
        err: String::from_utf8(output.stderr.clone()).unwrap(),
    }
}

/// A running relay; killed when dropped.
pub(crate) struct Relay {
    child: Child,
    /// `127.0.0.1:...`
    pub(crate) address: String,
    /// What it said before it was ready.
    pub(crate) opening: String,
    log: Option<JoinHandle<String>>,
}

impl Relay {
    /// Starts a relay on a free port and waits until it is ready.
    pub(crate) fn start(place: &Place) -> Self {
        let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
        // Clients of tests are gone without a goodbye.
        command.env("HIKYAKU_TIMEOUTS_CLOSE_SECONDS", "1");
        Self::spawn(command)
    }

    /// Starts a relay with this command.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let (ready, is_ready) = mpsc::channel();
        let log = thread::spawn(move || {
            let mut log = String::new();
            let mut line = String::new();
            while lines.read_line(&mut line).unwrap() > 0 {
                if let Some((_, rest)) = line.split_once("hikyaku is ready at ws") {
                    // With TLS it is `wss`.
                    let (_, rest) = rest.split_once("://").unwrap();
                    let end = rest.find(['"', '\n']).unwrap();
                    ready.send((rest[..end].to_owned(), log.clone())).unwrap();
                }
                log.push_str(&line);
                line.clear();
            }
            log
        });
        let (address, opening) = is_ready
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|error| panic!("not ready: {error}"));
        Self {
            child,
            address,
            opening,
            log: Some(log),
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end; returns how it ended and what it had said.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        let log = self.log.take().unwrap().join().unwrap();
        (status, log)
    }

    /// Stops it in order.
    pub(crate) fn stop(self) {
        self.signal(Signal::TERM);
        let (status, log) = self.wait();
        assert_eq!(status.code(), Some(0), "{log}");
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes that many notes, a second apart.
pub(crate) fn notes(count: u64) -> Vec<Event> {
    let author = Author::new(1);
    (0..count)
        .map(|index| {
            EventBuilder::new(1)
                .created_at(1_700_000_000 + index)
                .content(&format!("note {index}"))
                .sign(&author)
        })
        .collect()
}

/// Writes events one a line.
pub(crate) fn lines<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<u8> {
    let mut text = Vec::new();
    for event in events {
        text.extend_from_slice(event.json());
        text.push(b'\n');
    }
    text
}

/// Reads the ids of events, one a line.
pub(crate) fn ids(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| Event::parse(line.as_bytes()).unwrap().id().to_hex())
        .collect()
}

/// Reads all there is.
pub(crate) fn read_all(mut from: impl Read) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).unwrap();
    text
}
