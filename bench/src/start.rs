//! `start`: how long a relay takes from exec to its ready line, after a clean stop and after
//! kill -9.

use std::{
    io::{BufRead, BufReader},
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::channel,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    error::{BenchError, During, Result},
    fresh::Fresh,
    publish::publish_lines,
    report::{Durations, Output, Report},
    socket::RelayUrl,
};

/// A start that takes longer has failed.
const PATIENCE: Duration = Duration::from_mins(2);

/// Which relay, and on what data.
#[derive(Debug, clap::Args)]
pub(crate) struct Start {
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
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many events are published after each start, so that a kill finds something unfinished.
    #[arg(long, default_value_t = 5_000)]
    events: usize,
    #[command(flatten)]
    output: Output,
}

/// Runs the measurement.
pub(crate) fn start(options: &Start) -> Result<()> {
    let mut fresh = Fresh::new();
    // The first start finds the folder in whatever state it is.
    let (server, _) = Server::start(options)?;
    server.stop()?;
    let mut clean = Durations::default();
    let mut killed = Durations::default();
    for _ in 0..options.rounds {
        let (server, elapsed) = Server::start(options)?;
        clean.push(elapsed);
        server.load(&mut fresh, options.events)?;
        server.kill()?;
        let (server, elapsed) = Server::start(options)?;
        killed.push(elapsed);
        server.load(&mut fresh, options.events)?;
        server.stop()?;
    }
    let mut report = Report::new("start", &["after", "starts", "p50 ms", "worst ms"]);
    for (after, durations) in [("a clean stop", &clean), ("kill -9", &killed)] {
        report.row(vec![
            after.into(),
            durations.count().into(),
            durations.quantile_ms(500),
            durations.quantile_ms(1000),
        ]);
    }
    report.finish(&options.output)
}

/// A running relay.
struct Server {
    child: Child,
    relay: RelayUrl,
}

impl Server {
    /// Starts the program and waits for the line that names its address.
    fn start(options: &Start) -> Result<(Self, Duration)> {
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
        let moment = match is_ready.recv_timeout(PATIENCE) {
            Ok(Ok(moment)) => moment,
            Ok(Err(said)) => {
                return Err(BenchError::Relay(format!(
                    "stopped instead of starting: {said}"
                )));
            }
            Err(_) => {
                let _ = child.kill();
                return Err(BenchError::Relay(format!(
                    "was not ready after {PATIENCE:?}"
                )));
            }
        };
        let server = Self {
            child,
            relay: format!("ws://{address}").parse()?,
        };
        Ok((server, moment - begun))
    }

    fn load(&self, fresh: &mut Fresh, events: usize) -> Result<()> {
        let lines: Vec<_> = (0..events).map(|_| fresh.note()).collect();
        let round = publish_lines(&self.relay, &lines, 4, 256)?;
        if round.accepted < events {
            return Err(BenchError::Relay(format!(
                "refused fresh events: {:?}",
                round.refused
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
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).during("ending the relay")?;
        self.child.wait().during("ending the relay").map(drop)
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
            output: Output::default(),
        };
        let error = Server::start(&options).err().unwrap();
        assert!(error.to_string().contains("stopped instead of starting"));
    }
}
