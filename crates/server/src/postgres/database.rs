//! A worker's database, as its handlers use it.

use std::{fmt, panic::Location, rc::Rc, str::FromStr, time::Duration, time::Instant};

use tokio_postgres::{Config, Row, types::ToSql};

use super::{
    PostgresError, connect, each,
    lane::{Connected, InUse, Lane, Parameters},
};

/// What connections are called in `pg_stat_activity`, unless the address says something else.
const NAME: &str = "hikyaku plugins";

/// What a worker's connections are made of.
#[derive(Debug, Clone)]
pub(crate) struct PostgresOptions {
    pub(crate) url: String,
    /// This worker's share.
    pub(crate) connections: usize,
    /// What nobody waits for any more is not to hold up those behind it.
    pub(crate) statement_timeout: Duration,
}

/// One worker's connections to PostgreSQL, one unless it has a larger share
/// ([`ServerConfig::postgres_connections`](crate::ServerConfig)); clones share them.
///
/// They are used by one thread, so there is no lock, and no pool: many statements are in flight on
/// one connection at the same time, and answered in their order. Handlers that run at the same time,
/// or one handler that waits for many queries together (`join_all`), pipeline by themselves. Each
/// text is prepared once on each connection. A statement goes to the connection that fewest use.
///
/// A handler that is dropped leaves the connection usable: what it had asked is carried out, and the
/// answer dropped. A connection that was lost is made again by the next statement; those in flight
/// have failed, and nobody knows whether they were carried out. A statement may take as long as a
/// handler ([`ServerConfig::handler_timeout`](crate::ServerConfig)).
///
/// Each statement is a transaction of its own. One of several statements would have those of other
/// handlers in it: write it as one statement (`with ... insert ...`), or as a function.
#[derive(Clone)]
pub struct Postgres {
    inner: Rc<Inner>,
}

struct Inner {
    config: Config,
    first: Lane,
    more: Vec<Lane>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("connections", &(self.inner.more.len() + 1))
            .finish_non_exhaustive()
    }
}

impl Postgres {
    /// Connects, on a worker's thread.
    pub(crate) async fn connect(options: &PostgresOptions) -> Result<Self, PostgresError> {
        let mut config = Config::from_str(&options.url).map_err(PostgresError::Address)?;
        connect::check(&config)?;
        let given = config.get_options().unwrap_or_default().to_owned();
        let timeout = options.statement_timeout.as_millis();
        config
            .options(format!("-c statement_timeout={timeout} {given}"))
            .tcp_user_timeout(options.statement_timeout);
        if config.get_application_name().is_none() {
            config.application_name(NAME);
        }
        let lanes = std::iter::repeat_with(Lane::default);
        let postgres = Self {
            inner: Rc::new(Inner {
                config,
                first: Lane::default(),
                more: lanes.take(options.connections.saturating_sub(1)).collect(),
            }),
        };
        // A database that is not there is said at the start, and not to the first client.
        postgres.enter().await?;
        Ok(postgres)
    }

    /// Returns a query's rows.
    #[track_caller]
    pub fn query<'a>(
        &'a self,
        sql: &'a str,
        parameters: Parameters<'a>,
    ) -> impl Future<Output = Result<Vec<Row>, PostgresError>> + 'a {
        // Taken here: within the future it would be this line.
        self.rows(sql, parameters, Location::caller())
    }

    /// Returns a query's only row; any other number of them is an error.
    #[track_caller]
    pub fn query_one<'a>(
        &'a self,
        sql: &'a str,
        parameters: Parameters<'a>,
    ) -> impl Future<Output = Result<Row, PostgresError>> + 'a {
        let rows = self.rows(sql, parameters, Location::caller());
        async move {
            let mut rows = rows.await?;
            match (rows.pop(), rows.len()) {
                (Some(row), 0) => Ok(row),
                (None, _) => Err(PostgresError::Rows(0)),
                (Some(_), more) => Err(PostgresError::Rows(more + 1)),
            }
        }
    }

    /// Returns a query's row, if it has one; more than one is an error.
    #[track_caller]
    pub fn query_opt<'a>(
        &'a self,
        sql: &'a str,
        parameters: Parameters<'a>,
    ) -> impl Future<Output = Result<Option<Row>, PostgresError>> + 'a {
        let rows = self.rows(sql, parameters, Location::caller());
        async move {
            let mut rows = rows.await?;
            match (rows.pop(), rows.len()) {
                (row, 0) => Ok(row),
                (_, more) => Err(PostgresError::Rows(more + 1)),
            }
        }
    }

    /// Asks a query of one parameter for each of the values, as one statement: the rows of the first
    /// value, of the second, and so on. It costs a fraction of a statement for each; the query is a
    /// `select`, and its rows have one column more than it says.
    #[track_caller]
    pub fn query_each<'a, T: ToSql + Sync>(
        &'a self,
        sql: &'a str,
        values: &'a [T],
    ) -> impl Future<Output = Result<Vec<Vec<Row>>, PostgresError>> + 'a {
        let site = Location::caller();
        async move {
            let begun = Instant::now();
            let (connected, _use) = self.enter().await?;
            let statement = connected.statement(sql).await?;
            let [parameter] = statement.params() else {
                return Err(PostgresError::Parameters(statement.params().len()));
            };
            let rows = connected
                .rows(&each::for_each(sql, parameter), &[&values])
                .await?;
            hikyaku_observe::statement(sql, site, begun.elapsed());
            let mut answers: Vec<_> = values.iter().map(|_| Vec::new()).collect();
            for row in rows {
                let place: i64 = row.try_get(row.len() - 1)?;
                let place = usize::try_from(place - 1).unwrap_or(usize::MAX);
                if let Some(answer) = answers.get_mut(place) {
                    answer.push(row);
                }
            }
            Ok(answers)
        }
    }

    /// Carries a statement out; returns how many rows it changed.
    #[track_caller]
    pub fn execute<'a>(
        &'a self,
        sql: &'a str,
        parameters: Parameters<'a>,
    ) -> impl Future<Output = Result<u64, PostgresError>> + 'a {
        let site = Location::caller();
        async move {
            let begun = Instant::now();
            let (connected, _use) = self.enter().await?;
            let changed = connected.execute(sql, parameters).await?;
            hikyaku_observe::statement(sql, site, begun.elapsed());
            Ok(changed)
        }
    }

    async fn rows(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
        site: &'static Location<'static>,
    ) -> Result<Vec<Row>, PostgresError> {
        let begun = Instant::now();
        let (connected, _use) = self.enter().await?;
        let rows = connected.rows(sql, parameters).await?;
        hikyaku_observe::statement(sql, site, begun.elapsed());
        Ok(rows)
    }

    /// Returns the connection that fewest use, counted as one more use.
    async fn enter(&self) -> Result<(Rc<Connected>, InUse<'_>), PostgresError> {
        let Inner {
            config,
            first,
            more,
        } = &*self.inner;
        let lanes = std::iter::once(first).chain(more);
        let lane = lanes.min_by_key(|lane| lane.users()).unwrap_or(first);
        let used = lane.enter();
        Ok((lane.connected(config).await?, used))
    }
}
