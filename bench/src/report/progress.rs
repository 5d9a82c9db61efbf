//! The line that says how far a run is: redrawn on a terminal, and otherwise a line a part.

use std::io::{IsTerminal, Write, stderr};

/// Wide enough for every line, narrow enough for every terminal.
const WIDTH: usize = 100;

/// Where progress is shown.
#[derive(Debug)]
pub(crate) struct Progress {
    is_drawn: bool,
    is_told: bool,
}

impl Progress {
    /// Shows it on standard error.
    pub(crate) fn new() -> Self {
        Self {
            is_drawn: stderr().is_terminal(),
            is_told: true,
        }
    }

    /// Shows nothing.
    pub(crate) fn silent() -> Self {
        Self {
            is_drawn: false,
            is_told: false,
        }
    }

    /// Redraws the line, on a terminal.
    pub(crate) fn show(&self, line: impl FnOnce() -> String) {
        if self.is_drawn {
            let line: String = line().chars().take(WIDTH).collect();
            // Nobody is told of a terminal that is gone.
            let _ = write!(stderr(), "\r{line:<WIDTH$}");
        }
    }

    /// Leaves a line standing.
    pub(crate) fn tell(&self, line: &str) {
        if self.is_drawn {
            let _ = writeln!(stderr(), "\r{line:<WIDTH$}");
        } else if self.is_told {
            let _ = writeln!(stderr(), "{line}");
        }
    }
}
