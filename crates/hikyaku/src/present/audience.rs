//! The operator as an audience.

use std::io::{self, BufWriter, Stdout, Write};

use super::progress::ProgressLine;
pub(crate) use super::progress::Total;
use crate::operations::{Audience, Progress};

/// Events go to standard output, progress to standard error.
pub(crate) struct Terminal {
    events: BufWriter<Stdout>,
    progress: Option<ProgressLine>,
}

impl Terminal {
    /// Shows events only.
    pub(crate) fn events() -> Self {
        Self {
            events: BufWriter::with_capacity(256 * 1024, io::stdout()),
            progress: None,
        }
    }

    /// Shows how far it is.
    pub(crate) fn progress(doing: &'static str, total: Total) -> Self {
        Self {
            progress: Some(ProgressLine::new(doing, total)),
            ..Self::events()
        }
    }

    /// Ends: everything is written, and no bar stands any more.
    pub(crate) fn end(mut self) -> io::Result<()> {
        if let Some(progress) = &mut self.progress {
            progress.clear();
        }
        self.events.flush()
    }
}

impl Audience for Terminal {
    fn event(&mut self, json: &[u8]) -> io::Result<()> {
        self.events.write_all(json)?;
        self.events.write_all(b"\n")
    }

    fn progress(&mut self, progress: Progress) -> io::Result<()> {
        if let Some(line) = &mut self.progress {
            line.show(progress);
        }
        Ok(())
    }
}
