//! The schema's name: checked once, so that it can stand in statements.

use std::fmt;

use crate::PostgresError;

/// A name of a schema. Written as an SQL identifier, quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemaName(String);

impl SchemaName {
    /// Takes a name of 1 to 40 ASCII letters, digits and underscores.
    pub(crate) fn new(name: &str) -> Result<Self, PostgresError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if (1..=40).contains(&name.len()) && name.bytes().all(fits) {
            return Ok(Self(name.to_owned()));
        }
        Err(PostgresError::Refused(format!(
            "the schema's name {name:?} must be 1 to 40 ASCII letters, digits or underscores"
        )))
    }

    /// Returns the name without quotes.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Puts the name where a statement says `{schema}`.
    pub(crate) fn fill(&self, sql: &str) -> String {
        sql.replace("{schema}", &self.to_string())
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_taken() {
        assert_eq!(
            SchemaName::new("relay_1").unwrap().to_string(),
            "\"relay_1\""
        );
        for bad in ["", "a b", "a\"; DROP", "é", &"x".repeat(41)] {
            assert!(SchemaName::new(bad).is_err(), "{bad}");
        }
    }
}
