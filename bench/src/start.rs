//! `start`: how long a relay takes from exec to its ready line, after a clean stop and after
//! kill -9.

use std::{
    io::{BufRead, BufReader},
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    amount,
    corpus::Fresh,
    error::{BenchError, During, Result},
    load::{Address, Latencies, Permission},
    relay::publish_all,
    report::{Cell, Table},
};

/// A start that takes longer has failed.
const PATIENCE: Duration = Duration::from_mins(2);

/// How often a stopped measurement is noticed.
const SLICE: Duration = Duration::from_millis(50);

/// Which relay, and on what data.
#[derive(Debug, Clone, clap::Args)]
pub struct Start {
    /// The relay's program.
    #[arg(long)]
    server: PathBuf,
    /// What the program takes before `--data DIR --listen ADDR:PORT`.
    #[arg(long, default_value = "serve")]
    subcommand: String,
    /// The data folder; nothing else may be using it.
    #[arg(long)]
    data: PathBuf,
    /// How many starts of each kind.
    #[arg(long, default_value_t = 5, value_parser = amount::count)]
    rounds: usize,
    /// How many events are published after each start, so that a kill finds something unfinished.
    #[arg(long, default_value_t = 5_000, value_parser = amount::operations)]
    events: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the measurement.
pub(crate) fn start(options: &Start, stop: &AtomicBool) -> Result<()> {
    let identities = Fresh::identities();
    let mut fresh = Fresh::new(&identities, &[], stop);
    // The first start finds the folder in whatever state it is.
    let (server, _) = Server::start(options, stop)?;
    server.stop()?;
    let mut clean = Latencies::default();
    let mut killed = Latencies::default();
    for _ in 0..options.rounds {
        let (server, elapsed) = Server::start(options, stop)?;
        clean.record(elapsed);
        server.load(&mut fresh, options.events, stop)?;
        server.kill()?;
        let (server, elapsed) = Server::start(options, stop)?;
        killed.record(elapsed);
        server.load(&mut fresh, options.events, stop)?;
        server.stop()?;
    }
    let mut table = Table::new("start", &["after", "starts", "p50 ms", "worst ms"]);
    for (after, latencies) in [("a clean stop", &clean), ("kill -9", &killed)] {
        let summary = latencies.summary();
        table.row(vec![
            after.into(),
            summary.count.into(),
            Cell::Number(summary.p50_ms, 1),
            Cell::Number(summary.max_ms, 1),
        ]);
    }
    if options.json {
        println!("{:#}", serde_json::Value::from(table.objects()));
    } else {
        print!("{table}");
    }
    Ok(())
}

/// A process that does not outlive the measurement, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running relay.
struct Server {
    child: Running,
    address: Address,
}

impl Server {
    /// Starts the program and waits for the line that names its address.
    fn start(options: &Start, stop: &AtomicBool) -> Result<(Self, Duration)> {
        let address = format!("127.0.0.1:{}", free_port()?);
        let begun = Instant::now();
        let mut command = Command::new(&options.server);
        if !options.subcommand.is_empty() {
            command.arg(&options.subcommand);
        }
        let mut child = command
            .arg("--data")
            .arg(&options.data)
            .args(["--listen", &address])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .at(&options.server)?;
        let (ready, is_ready) = channel();
        let errors = child.stderr.take();
        let waited_for = address.clone();
        // Reads on after the ready line too: a full pipe would stop the server.
        thread::spawn(move || {
            let Some(errors) = errors else { return };
            let mut said = String::new();
            for line in BufReader::new(errors)
                .lines()
                .map_while(std::result::Result::ok)
            {
                if line.contains(&waited_for) {
                    let _ = ready.send(Ok(Instant::now()));
                }
                said.push_str(&line);
                said.push('\n');
            }
            let _ = ready.send(Err(said));
        });
        let child = Running(child);
        let moment = loop {
            match is_ready.recv_timeout(SLICE) {
                Ok(Ok(moment)) => break moment,
                Ok(Err(said)) => {
                    return Err(BenchError::Server(format!(
                        "stopped instead of starting: {said}"
                    )));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(BenchError::Server("said nothing".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                    return Err(BenchError::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) if begun.elapsed() > PATIENCE => {
                    return Err(BenchError::Server(format!(
                        "was not ready after {PATIENCE:?}"
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        let server = Self {
            child,
            address: Address::reach(
                &format!("ws://{address}"),
                "ws://",
                None,
                Permission::default(),
            )?,
        };
        Ok((server, moment - begun))
    }

    fn load(&self, fresh: &mut Fresh<'_>, events: usize, stop: &AtomicBool) -> Result<()> {
        let measured = publish_all(&self.address, &fresh.events(events)?, stop)?;
        if measured.interrupted {
            return Err(BenchError::Interrupted);
        }
        if measured.achieved() < events as u64 {
            let reasons = measured.counts.iter().map(|counts| &counts.failed);
            return Err(BenchError::Server(format!(
                "refused fresh events: {:?}",
                reasons.collect::<Vec<_>>()
            )));
        }
        Ok(())
    }

    fn stop(self) -> Result<()> {
        self.end(Signal::TERM)
    }

    fn kill(self) -> Result<()> {
        self.end(Signal::KILL)
    }

    fn end(mut self, signal: Signal) -> Result<()> {
        let id = Pid::from_child(&self.child.0);
        kill_process(id, signal).during("ending the relay")?;
        self.child.0.wait().during("ending the relay").map(drop)
    }
}

/// Returns a port that was free a moment ago.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).during("finding a free port")?;
    let address = listener.local_addr().during("finding a free port")?;
    Ok(address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_ends_at_once_is_named_as_the_failure() {
        let options = Start {
            server: "/bin/false".into(),
            subcommand: "serve".to_owned(),
            data: PathBuf::new(),
            rounds: 1,
            events: 1,
            json: false,
        };
        let error = Server::start(&options, &AtomicBool::new(false))
            .err()
            .unwrap();
        assert!(error.to_string().contains("stopped instead of starting"));
    }
}
