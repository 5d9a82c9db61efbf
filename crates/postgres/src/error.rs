//! What can go wrong, by what the caller can do about it.

use std::error::Error;

use hikyaku_address::AddressError;
use hikyaku_event::TagName;
use hikyaku_store::StoreError;
use tokio_postgres::error::SqlState;

/// Why the store could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PostgresError {
    /// The database can't be reached, is too busy or has no room: it may work later.
    #[error("{0}")]
    Unavailable(String),
    /// The configuration or the schema does not allow it: it will not work until somebody changes it.
    #[error("{0}")]
    Refused(String),
    /// The server will not carry a statement out, now or later: the write it is for is refused.
    #[error("{0}")]
    Rejected(String),
    /// The server says that stored data is damaged.
    #[error("{0}")]
    Corrupt(String),
    /// Tags of this name are not indexed.
    #[error("tags named \"{0}\" are not indexed here")]
    NotIndexed(TagName),
}

impl From<AddressError> for PostgresError {
    fn from(error: AddressError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<tokio_postgres::Error> for PostgresError {
    fn from(error: tokio_postgres::Error) -> Self {
        let text = describe(&error);
        let Some(code) = error.code() else {
            if is_about_certificate(&error) {
                return Self::Refused(format!(
                    "{text}; see sslmode and sslrootcert in the database's address"
                ));
            }
            // No answer of the server's: the connection, or the way to it.
            return Self::Unavailable(text);
        };
        if [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code) {
            return Self::Corrupt(text);
        }
        if [
            SqlState::INSUFFICIENT_PRIVILEGE,
            SqlState::INVALID_CATALOG_NAME,
        ]
        .contains(code)
        {
            return Self::Refused(text);
        }
        match code.code().get(..2) {
            // Authorisation.
            Some("28") => Self::Refused(text),
            // The connection, a rollback of the server's choice, resources, locks, an operator, the
            // system below; and a server that has become a standby.
            Some("08" | "40" | "53" | "55" | "57" | "58") => Self::Unavailable(text),
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Self::Unavailable(text),
            _ => Self::Rejected(text),
        }
    }
}

/// Tells whether one side does not accept the other's certificate.
fn is_about_certificate(error: &tokio_postgres::Error) -> bool {
    let cause = error
        .source()
        .and_then(|cause| cause.downcast_ref::<std::io::Error>());
    let tls = cause.and_then(|cause| cause.get_ref()?.downcast_ref::<rustls::Error>());
    matches!(tls, Some(rustls::Error::InvalidCertificate(_)))
}

/// Says an error with its causes; the driver's own text leaves them out.
fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(database) = error.as_db_error() {
        let (message, code) = (database.message(), database.code().code());
        return format!("postgresql: {message} ({code})");
    }
    let mut parts = vec![format!("postgresql: {error}")];
    let mut cause = error.source();
    while let Some(next) = cause {
        parts.push(next.to_string());
        cause = next.source();
    }
    parts.join(": ")
}

impl From<PostgresError> for StoreError {
    fn from(error: PostgresError) -> Self {
        match error {
            PostgresError::Unavailable(text)
            | PostgresError::Refused(text)
            | PostgresError::Rejected(text) => Self::Unavailable(text),
            PostgresError::Corrupt(text) => Self::Corrupt(text),
            PostgresError::NotIndexed(name) => Self::not_indexed(name.as_str()),
        }
    }
}
