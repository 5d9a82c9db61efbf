//! How a command fails: what it says, and its exit code.

use std::{error::Error, io, process::ExitCode};

use hikyaku_bench::BenchError;
use hikyaku_engine::EngineError;
use hikyaku_members::MembersError;
use hikyaku_postgres::PostgresError;
use hikyaku_store::StoreError;
use hikyaku_tables::TableError;
use serde::{Deserialize, Serialize};

/// Why a command did not do what it was asked. Travels over the control socket too.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "failure", content = "message", rename_all = "snake_case")]
pub(crate) enum Failure {
    /// It was tried and did not work.
    #[error("{0}")]
    Failed(String),
    /// The command or the configuration is wrong.
    #[error("{0}")]
    Usage(String),
    /// Another process has the store, or it is of a newer version.
    #[error("{0}")]
    InUse(String),
    /// Stored bytes are damaged.
    #[error("{0}")]
    Damaged(String),
    /// The operator interrupted it.
    #[error("{0}")]
    Interrupted(String),
    /// Whoever read the output has closed it: nobody is there to be told.
    #[error("the output was closed")]
    OutputClosed,
}

/// The exit codes, as `--help` and docs/cli.md tell them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    failed: the disk, the network or the store refused, or --strict met a bad line
  2    the command, a filter or the configuration is wrong
  3    the store can't be opened: another process has it, or a newer version wrote it
  4    stored bytes are damaged; the message names them
  130  interrupted; what was reported as done is done";

impl Failure {
    /// Says what went wrong while doing something with the system.
    pub(crate) fn io(doing: &str, error: &io::Error) -> Self {
        Self::Failed(format!("{doing}: {error}"))
    }

    /// Says what went wrong with the output.
    pub(crate) fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::io("can't write the output", error),
        }
    }

    /// Says what went wrong while doing something with tables.
    pub(crate) fn of_table(doing: &str, error: &TableError) -> Self {
        let text = format!("{doing}: {}", chain(error));
        match error {
            TableError::Corrupt(_) => Self::Damaged(text),
            TableError::InUse(_) | TableError::Newer(_) => Self::InUse(text),
            _ => Self::Failed(text),
        }
    }

    /// Returns the process's exit code.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::OutputClosed => 0,
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::InUse(_) => 3,
            Self::Damaged(_) => 4,
            Self::Interrupted(_) => 130,
        })
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(text) | StoreError::Stopped(text) => Self::Failed(text),
            StoreError::Corrupt(text) => Self::Damaged(text),
            StoreError::Unsupported(text) => Self::Usage(text),
        }
    }
}

impl From<PostgresError> for Failure {
    fn from(error: PostgresError) -> Self {
        match error {
            PostgresError::Unavailable(text) | PostgresError::Rejected(text) => Self::Failed(text),
            PostgresError::Refused(text) => Self::Usage(text),
            PostgresError::Corrupt(text) => Self::Damaged(text),
            PostgresError::NotIndexed(_) => Self::Usage(error.to_string()),
        }
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        let text = error.to_string();
        match error {
            BenchError::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => {
                Self::OutputClosed
            }
            BenchError::Input(_) => Self::Usage(text),
            BenchError::Interrupted => Self::Interrupted(text),
            BenchError::Io { .. } | BenchError::Server(_) | BenchError::Wrong(_) => {
                Self::Failed(text)
            }
        }
    }
}

impl From<MembersError> for Failure {
    fn from(error: MembersError) -> Self {
        let text = format!("the members' tables: {}", chain(&error));
        match error {
            MembersError::Corrupt { .. } => Self::Damaged(text),
            MembersError::Full | MembersError::Table(_) => Self::Failed(text),
        }
    }
}

/// Writes an error with all that is behind it.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += ": ";
        text += &error.to_string();
        source = error.source();
    }
    text
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Unavailable(text) | EngineError::Stopped(text) => Self::Failed(text),
            EngineError::Refused(text) => Self::InUse(text),
            EngineError::Corrupt(text) => Self::Damaged(format!(
                "{text}\n`hikyaku repair` rebuilds the indexes from the log and keeps every good event"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_another_version_are_in_the_way_as_those_of_another_process_are() {
        for error in [TableError::InUse("x".into()), TableError::Newer("x".into())] {
            let failure = Failure::of_table("can't open", &error);
            assert!(matches!(failure, Failure::InUse(_)), "{failure:?}");
        }
    }
}
