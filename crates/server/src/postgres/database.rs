//! A worker's database, as its handlers use it.

use std::{fmt, panic::Location, rc::Rc, time::Duration, time::Instant};

use tokio_postgres::types::ToSql;

use super::{
    PostgresError,
    asking::{self, Asking, Question},
    connect::Target,
    each,
    lane::{Lane, Parameters},
    reply::Answer,
    row::Row,
};

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
/// answer dropped. Connecting and preparing are the worker's, so that others who wait for the same are
/// not held up by one who is polled no more. A connection that was lost is made again by the next statement; those in flight
/// have failed, and nobody knows whether they were carried out. A statement may take as long as a
/// handler ([`ServerConfig::handler_timeout`](crate::ServerConfig)).
///
/// Each statement is a transaction of its own. One of several statements would have those of other
/// handlers in it: write it as one statement (`with ... insert ...`), or as a function. The same query,
/// asked again and again in one turn of the worker's loop, shares one that only reads with its like, if
/// it names no volatile function and no view; where one is refused, the others are asked once more alone.
#[derive(Clone)]
pub struct Postgres {
    inner: Rc<Inner>,
}

/// Where connections go to, and a place for each.
pub(super) struct Inner {
    pub(super) target: Rc<Target>,
    first: Rc<Lane>,
    more: Vec<Rc<Lane>>,
}

impl Inner {
    fn lanes(&self) -> impl Iterator<Item = &Rc<Lane>> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// Returns the place that fewest use.
    pub(super) fn lane(&self) -> &Rc<Lane> {
        let lane = (self.lanes()).min_by_key(|lane| (lane.is_avoided(), lane.users()));
        lane.unwrap_or(&self.first)
    }

    /// Asks where the connection is to be made, or the statement to be prepared.
    pub(super) async fn ask_slowly(
        &self,
        lane: &Rc<Lane>,
        question: Question<'_>,
    ) -> Result<Answer, PostgresError> {
        match lane.ask_slowly(&self.target, question).await {
            // Nothing was asked; the server may have let in fewer than it was to.
            Err(PostgresError::Unavailable(why)) => {
                match self.lanes().find(|lane| lane.is_open()) {
                    Some(lane) => lane.ask_slowly(&self.target, question).await,
                    None => Err(PostgresError::Unavailable(why)),
                }
            }
            answer => answer,
        }
    }
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
        let lanes = std::iter::repeat_with(Rc::<Lane>::default);
        let inner = Inner {
            target: Rc::new(Target::new(&options.url, options.statement_timeout)?),
            first: Rc::default(),
            more: lanes.take(options.connections.saturating_sub(1)).collect(),
        };
        // A database that is not there is said at the start, and not to the first client.
        inner.first.session(&inner.target).await?;
        let inner = Rc::new(inner);
        Ok(Self { inner })
    }

    /// Returns a query's rows.
    #[track_caller]
    pub fn query<'a>(
        &'a self,
        sql: &'a str,
        parameters: Parameters<'a>,
    ) -> impl Future<Output = Result<Vec<Row>, PostgresError>> + 'a {
        self.rows(sql, parameters, Location::caller(), asking::rows)
    }

    /// Returns a query's only row; any other number of them is an error.
    #[track_caller]
    pub fn query_one<'a>(
        &'a self,
        sql: &'a str,
        parameters: Parameters<'a>,
    ) -> impl Future<Output = Result<Row, PostgresError>> + 'a {
        self.rows(sql, parameters, Location::caller(), asking::one)
    }

    /// Returns a query's row, if it has one; more than one is an error.
    #[track_caller]
    pub fn query_opt<'a>(
        &'a self,
        sql: &'a str,
        parameters: Parameters<'a>,
    ) -> impl Future<Output = Result<Option<Row>, PostgresError>> + 'a {
        self.rows(sql, parameters, Location::caller(), asking::optional)
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
            let (lane, target) = (self.inner.lane(), &self.inner.target);
            let _used = lane.enter();
            let (_, statement) = lane.prepared(target, sql).await?;
            let [parameter] = statement.parameters.as_slice() else {
                return Err(PostgresError::Parameters(statement.parameters.len()));
            };
            let question = Question {
                sql: &each::for_each(sql, parameter),
                parameters: &[&values],
                wants_rows: true,
            };
            let rows = asking::rows(lane.ask_slowly(target, question).await?)?;
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
        let question = Question {
            sql,
            parameters,
            wants_rows: false,
        };
        Asking::new(&self.inner, question, Location::caller(), asking::changed)
    }

    fn rows<'a, T>(
        &'a self,
        sql: &'a str,
        parameters: Parameters<'a>,
        site: &'static Location<'static>,
        finish: fn(Answer) -> Result<T, PostgresError>,
    ) -> Asking<'a, T> {
        let question = Question {
            sql,
            parameters,
            wants_rows: true,
        };
        Asking::new(&self.inner, question, site, finish)
    }
}
