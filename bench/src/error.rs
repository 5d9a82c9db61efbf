//! Why a measurement could not be made, or ended.

use std::{io, path::Path};

/// What went wrong, for the person at the terminal.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A file, a socket or a process; says which.
    #[error("{what}: {source}")]
    Io {
        /// What it happened to.
        what: String,
        /// What happened.
        source: io::Error,
    },
    /// The server did something that is not in the protocol, or not what was asked.
    #[error("the server {0}")]
    Server(String),
    /// The server's answer was wrong: the run has failed and has no score.
    #[error("wrong answer: {0}")]
    Wrong(String),
    /// The arguments or the corpus do not allow this measurement.
    #[error("{0}")]
    Input(String),
    /// The operator stopped it.
    #[error("interrupted")]
    Interrupted,
}

pub(crate) type Result<T> = std::result::Result<T, BenchError>;

/// Names what an I/O error happened to.
pub(crate) trait During<T> {
    fn during(self, what: impl Into<String>) -> Result<T>;
    fn at(self, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> During<T> for std::result::Result<T, E> {
    fn during(self, what: impl Into<String>) -> Result<T> {
        self.map_err(|error| BenchError::Io {
            what: what.into(),
            source: error.into(),
        })
    }
    fn at(self, path: &Path) -> Result<T> {
        self.during(path.display().to_string())
    }
}
