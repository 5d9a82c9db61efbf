//! Why PostgreSQL has not answered.

/// Why PostgreSQL has not answered as it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// `ServerConfig::postgres_url` is unset.
    #[error("no database is configured for plugins")]
    NotConfigured,
    /// `ServerConfig::postgres_url` is not an address.
    #[error("the database's address is not one")]
    Address(#[source] tokio_postgres::Error),
    /// The address has a parameter that plugins' connections do not heed.
    #[error("the database's address says `{0}`, which is not heeded for plugins: leave it out")]
    Unheeded(&'static str),
    /// `ServerConfig::postgres_connections` is less than the number of workers, of which each needs one.
    #[error("{0} connections to the database are not enough for {1} workers: give each one, or 0")]
    TooFew(usize, usize),
    /// It can't be reached, or lets nobody in; nothing was asked of it.
    #[error("the database can't be reached: {0}")]
    Unavailable(String),
    /// It refuses the statement, or the connection was lost meanwhile. Then nobody knows whether the
    /// statement was carried out.
    #[error("the database refuses")]
    Database(#[from] tokio_postgres::Error),
    /// Other than one row where one was asked for.
    #[error("the query has {0} rows in the place of one")]
    Rows(usize),
    /// [`Postgres::query_each`](super::Postgres::query_each) was given a query that has other than
    /// one parameter.
    #[error("a query for each value has one parameter, and this one has {0}")]
    Parameters(usize),
}
