//! Why a fact about a member can't be kept or read.

use hikyaku_tables::TableError;

/// Why an operation was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum MembersError {
    /// There are as many members as there may be.
    #[error("there is no room for another member")]
    Full,
    /// A table refuses.
    #[error("the table of members is unavailable")]
    Table(#[source] TableError),
    /// Stored bytes are not what this program writes.
    #[error("the record {key} of the table {table} is damaged")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// The record.
        key: String,
    },
}

impl From<TableError> for MembersError {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Full | TableError::KeyTooLarge { .. } => Self::Full,
            other => Self::Table(other),
        }
    }
}
