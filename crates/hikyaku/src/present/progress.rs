//! How far it is: a bar on a terminal, a plain line now and then otherwise.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use super::figures::{bytes, duration, grouped};
use crate::operations::Progress;

/// How often a bar is drawn.
const REDRAW: Duration = Duration::from_millis(100);
/// How often a line is written.
const LINE: Duration = Duration::from_secs(5);
const BAR_WIDTH: u64 = 24;

/// Shows an operation's progress on standard error.
pub(super) struct ProgressLine {
    /// `importing`.
    doing: &'static str,
    /// How many bytes or events there are, if that is known.
    total: Total,
    begun: Instant,
    shown: Instant,
    is_terminal: bool,
    /// Whether a bar stands on the terminal.
    drawn: bool,
}

/// What the end is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Total {
    /// Nobody knows.
    Unknown,
    /// Bytes of the input.
    Bytes(u64),
    /// Events.
    Events(u64),
}

impl ProgressLine {
    pub(super) fn new(doing: &'static str, total: Total) -> Self {
        let now = Instant::now();
        Self {
            doing,
            total,
            begun: now,
            shown: now,
            is_terminal: io::stderr().is_terminal(),
            drawn: false,
        }
    }

    pub(super) fn show(&mut self, progress: Progress) {
        let every = if self.is_terminal { REDRAW } else { LINE };
        if self.shown.elapsed() < every {
            return;
        }
        self.shown = Instant::now();
        let text = self.text(progress, self.begun.elapsed());
        let mut stderr = io::stderr().lock();
        // Progress that can't be shown is no reason to stop.
        let _ = if self.is_terminal {
            self.drawn = true;
            write!(stderr, "\r\x1b[2K{}{text}", self.bar(progress))
        } else {
            writeln!(stderr, "{text}")
        };
        let _ = stderr.flush();
    }

    /// Takes the bar away.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let mut stderr = io::stderr().lock();
            let _ = write!(stderr, "\r\x1b[2K");
            let _ = stderr.flush();
        }
    }

    /// Returns done and total in the same unit, where both are known.
    fn share(&self, progress: Progress) -> Option<(u64, u64)> {
        match self.total {
            Total::Bytes(total) if total > 0 => Some((progress.bytes.min(total), total)),
            Total::Events(total) if total > 0 => Some((progress.events.min(total), total)),
            _ => None,
        }
    }

    fn text(&self, progress: Progress, elapsed: Duration) -> String {
        let milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let rate = progress.events.saturating_mul(1000) / milliseconds.max(1);
        let events = match self.total {
            Total::Events(total) => {
                format!("{} of {}", grouped(progress.events), grouped(total))
            }
            Total::Bytes(_) | Total::Unknown => grouped(progress.events),
        };
        let mut text = format!("{} {events} events, {}/s", self.doing, grouped(rate));
        if let Some((done, total)) = self.share(progress) {
            if let Total::Bytes(_) = self.total {
                let _ = write!(text, ", {} of {}", bytes(done), bytes(total));
            }
            if done > 0 {
                let left = elapsed.mul_f64((total - done) as f64 / done as f64);
                let _ = write!(text, ", {} left", duration(left));
            }
        }
        text
    }

    fn bar(&self, progress: Progress) -> String {
        let Some((done, total)) = self.share(progress) else {
            return String::new();
        };
        let full = usize::try_from(done.saturating_mul(BAR_WIDTH) / total).unwrap_or(0);
        let percent = done.saturating_mul(100) / total;
        format!("[{:-<24}] {percent:3} %  ", "#".repeat(full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(events: u64, bytes: u64) -> Progress {
        Progress { events, bytes }
    }

    #[test]
    fn the_time_left_follows_from_what_is_done() {
        let line = ProgressLine::new("importing", Total::Bytes(4000));
        assert_eq!(
            line.text(progress(10_000, 1000), Duration::from_secs(5)),
            "importing 10,000 events, 2,000/s, 1.0 kB of 4.0 kB, 15.0 s left"
        );
        assert_eq!(
            line.bar(progress(10_000, 1000)),
            "[######------------------]  25 %  "
        );
    }

    #[test]
    fn events_are_told_with_their_total() {
        let line = ProgressLine::new("deleting", Total::Events(4000));
        assert_eq!(
            line.text(progress(1000, 0), Duration::from_secs(2)),
            "deleting 1,000 of 4,000 events, 500/s, 6.0 s left"
        );
    }

    #[test]
    fn without_a_total_there_is_no_bar() {
        let line = ProgressLine::new("importing", Total::Unknown);
        assert_eq!(
            line.text(progress(10, 1000), Duration::from_secs(5)),
            "importing 10 events, 2/s"
        );
        assert_eq!(line.bar(progress(10, 1000)), "");
    }
}
