//! Why a source can't be read.

/// Why a source can't be read, by what its operator can do. The text says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// There is nothing to be reached at that place, or not by this user: another path, address,
    /// password or user is needed.
    #[error("{0}")]
    Unreachable(String),
    /// It is not that relay's database, or of a version that this program does not know.
    #[error("{0}")]
    Foreign(String),
    /// It was readable and is no more: what was read stands, and running the import again goes on.
    #[error("{0}")]
    Lost(String),
}
