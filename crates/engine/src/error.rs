//! The engine's errors, split by what the caller can do.

use hikyaku_store::StoreError;

use crate::{log::LogError, segment::SegmentError};

/// Why the engine could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// There is no room, or the disk refused for now: nothing was changed, and it may work later.
    #[error("{0}")]
    Unavailable(String),
    /// The store has stopped and must be reopened; reads still work.
    #[error("{0}")]
    Stopped(String),
    /// Stored bytes are damaged; names file, offset, expected and found.
    #[error("{0}")]
    Corrupt(String),
    /// The store can't be opened as it is: another process has it, or it is of a newer version.
    #[error("{0}")]
    Refused(String),
}

impl From<SegmentError> for EngineError {
    fn from(error: SegmentError) -> Self {
        match error {
            SegmentError::Corrupt(_) => Self::Corrupt(error.to_string()),
            SegmentError::Newer(_) => Self::Refused(error.to_string()),
            SegmentError::TooLarge => Self::Unavailable(error.to_string()),
            SegmentError::Sink(source) => {
                Self::Unavailable(format!("can't write a segment: {source}"))
            }
        }
    }
}

impl From<LogError> for EngineError {
    fn from(error: LogError) -> Self {
        let text = error.to_string();
        match error {
            LogError::NoSpace { .. } | LogError::TooLarge { .. } | LogError::Io { .. } => {
                Self::Unavailable(text)
            }
            LogError::Corrupt { .. } => Self::Corrupt(text),
            LogError::Newer { .. } => Self::Refused(text),
            LogError::Stopped { .. } => Self::Stopped(text),
        }
    }
}

impl From<EngineError> for StoreError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Unavailable(text) => Self::Unavailable(text),
            EngineError::Stopped(text) | EngineError::Refused(text) => Self::Stopped(text),
            EngineError::Corrupt(text) => Self::Corrupt(text),
        }
    }
}
