//! Why PostgreSQL has not answered.

use std::{error::Error, fmt, io};

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorFields;
use tokio_postgres::error::SqlState;

/// Why PostgreSQL has not answered as it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// `ServerConfig::postgres_url` is unset.
    #[error("no database is configured for plugins")]
    NotConfigured,
    /// `ServerConfig::postgres_url` is not an address, or what it says about TLS can't be done.
    #[error("{0}")]
    Address(String),
    /// The address has a parameter that plugins' connections do not heed.
    #[error("the database's address says `{0}`, which is not heeded for plugins: leave it out")]
    Unheeded(&'static str),
    /// `ServerConfig::postgres_connections` is less than the number of workers, of which each needs one.
    #[error("{0} connections to the database are not enough for {1} workers: give each one, or 0")]
    TooFew(usize, usize),
    /// It can't be reached, or lets nobody in; nothing was asked of it.
    #[error("the database can't be reached: {0}")]
    Unavailable(String),
    /// It refuses the statement, which has changed nothing.
    #[error("the database refuses")]
    Database(#[from] DatabaseError),
    /// The connection was lost before the answer came: nobody knows whether the statement was carried
    /// out.
    #[error("the connection to the database was lost before it answered: {0}")]
    Lost(String),
    /// A value can't be sent as the type that the statement has in its place; nothing was asked.
    #[error("the value of ${0} can't be sent")]
    Value(usize, #[source] Box<dyn Error + Send + Sync>),
    /// The statement has another number of values than it was given; nothing was asked.
    #[error("the statement has {wanted} parameters, and was given {given}")]
    Values {
        /// How many it has.
        wanted: usize,
        /// How many it was given.
        given: usize,
    },
    /// A row has no such column, or what is in it is of another type than is asked for.
    #[error("column `{0}` can't be read")]
    Column(String, #[source] Box<dyn Error + Send + Sync>),
    /// A `copy`: its rows are no answer's.
    #[error("a plugin's statement can't be a COPY")]
    Copy,
    /// Other than one row where one was asked for.
    #[error("the query has {0} rows in the place of one")]
    Rows(usize),
    /// [`Postgres::query_each`](super::Postgres::query_each) was given a query that has other than
    /// one parameter.
    #[error("a query for each value has one parameter, and this one has {0}")]
    Parameters(usize),
}

impl PostgresError {
    /// Returns the database's code for what it refuses, if it is the database that does.
    pub fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Database(error) => Some(error.code()),
            _ => None,
        }
    }

    /// Tells whether a statement must be prepared anew: its table has other columns now, or somebody
    /// has made the connection forget it. It was not carried out.
    pub(super) fn is_outdated(&self) -> bool {
        self.code().is_some_and(|code| {
            *code == SqlState::FEATURE_NOT_SUPPORTED
                || *code == SqlState::INVALID_SQL_STATEMENT_NAME
        })
    }

    /// Tells whether it is the transaction that the statement could not be carried out in: it may only
    /// read (class 25), or others are in its way (class 40).
    pub(super) fn is_of_transaction(&self) -> bool {
        let class = self.code().and_then(|code| code.code().get(..2));
        matches!(class, Some("25" | "40"))
    }
}

/// What PostgreSQL says of a statement that it refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseError(Box<Said>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    severity: String,
    code: SqlState,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    schema: Option<String>,
    table: Option<String>,
    column: Option<String>,
    constraint: Option<String>,
}

impl DatabaseError {
    pub(super) fn parse(mut fields: ErrorFields<'_>) -> io::Result<Self> {
        let mut said = Said {
            severity: String::new(),
            code: SqlState::INTERNAL_ERROR,
            message: String::new(),
            detail: None,
            hint: None,
            schema: None,
            table: None,
            column: None,
            constraint: None,
        };
        let mut severity = None;
        while let Some(field) = fields.next()? {
            let text = String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                // In the server's language, and in English.
                b'S' => said.severity = text,
                b'V' => severity = Some(text),
                b'C' => said.code = SqlState::from_code(&text),
                b'M' => said.message = text,
                b'D' => said.detail = Some(text),
                b'H' => said.hint = Some(text),
                b's' => said.schema = Some(text),
                b't' => said.table = Some(text),
                b'c' => said.column = Some(text),
                b'n' => said.constraint = Some(text),
                _ => {}
            }
        }
        said.severity = severity.unwrap_or(said.severity);
        Ok(Self(Box::new(said)))
    }

    /// Returns `ERROR`, or `FATAL` or `PANIC` where the connection has ended with it.
    pub fn severity(&self) -> &str {
        &self.0.severity
    }

    /// Returns the code.
    pub fn code(&self) -> &SqlState {
        &self.0.code
    }

    /// Returns the message in one line.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns what is said beyond the message.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// Returns what the database proposes to do.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Returns the schema of what it is about.
    pub fn schema(&self) -> Option<&str> {
        self.0.schema.as_deref()
    }

    /// Returns the table that it is about.
    pub fn table(&self) -> Option<&str> {
        self.0.table.as_deref()
    }

    /// Returns the column that it is about.
    pub fn column(&self) -> Option<&str> {
        self.0.column.as_deref()
    }

    /// Returns the constraint that was to be broken.
    pub fn constraint(&self) -> Option<&str> {
        self.0.constraint.as_deref()
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity(), self.message())?;
        if let Some(detail) = self.detail() {
            write!(f, " ({detail})")?;
        }
        Ok(())
    }
}

impl Error for DatabaseError {}
