//! A table and the name it has here.

use std::{fmt, str::FromStr};

use crate::{TableError, TableSpec};

/// Bytes of a name: it stands before keys, and a key of memcached's has 250.
const NAME_BYTES_MAX: usize = 64;

/// A name and the table it stands for: `seen=seen.fixed?width=16`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTable {
    /// The name; the update log has it, and clients may put it before a key.
    pub name: String,
    /// The table.
    pub spec: TableSpec,
}

impl FromStr for NamedTable {
    type Err = TableError;

    fn from_str(text: &str) -> Result<Self, TableError> {
        let wrong = |why: &str| Err(TableError::Syntax(format!("{text:?} {why}")));
        let Some((name, table)) = text.split_once('=').filter(|(name, _)| !name.contains('?'))
        else {
            return wrong("is not of the form NAME=TABLE, such as seen=seen.fixed?width=16");
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
            return wrong("has a name that is not 1 to 64 letters, digits, _, - and .");
        }
        Ok(Self {
            name: name.to_owned(),
            spec: table.parse()?,
        })
    }
}

impl fmt::Display for NamedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.spec)
    }
}
