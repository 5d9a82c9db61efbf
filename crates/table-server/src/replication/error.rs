//! Why following has stopped, for now.

use std::io;

use hikyaku_tables::TableError;

/// Why following has stopped. It is tried again, whatever the reason: what is wrong may be put right
/// on the other side.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    /// The source can't be reached, or is gone.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// The source says why not.
    #[error("the source refuses: {0}")]
    Refused(String),
    /// The source speaks another language.
    #[error("the source does not speak as this server does ({0})")]
    Protocol(&'static str),
    /// The source is this server.
    #[error("the source has this server's own number, {0}: each server needs another")]
    Itself(u32),
    /// A table does not take an update.
    #[error("table {table} does not take an update of the source: {source}")]
    Table {
        /// Which.
        table: String,
        /// Why not.
        source: TableError,
    },
    /// It was told to stop, or to follow another.
    #[error("following was ended")]
    Ended,
}
