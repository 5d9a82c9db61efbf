//! What is asked of one connection: statements are prepared once for each text, and values are sent as
//! the types that a statement has in their places.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use bytes::BytesMut;
use hashbrown::HashMap;
use postgres_protocol::{
    IsNull,
    message::frontend::{self, BindError},
};
use tokio_postgres::types::{self, Oid, Type};

use super::{
    PostgresError,
    asking::Question,
    connection::{Connection, KEPT_BYTES_MAX, Waiting},
    reply::{Answer, Description},
    row::Column,
    run,
    statement::{Dropped, Name, Prepared, Preparing, Statements},
};

/// A connection, while it lasts, and what is known on it.
pub(super) struct Session {
    connection: Rc<Connection>,
    pub(super) statements: Statements,
    /// Types of the database's own.
    pub(super) types: RefCell<HashMap<Oid, Type, foldhash::fast::RandomState>>,
    dropped: Dropped,
    prepared: Cell<u64>,
    scratch: Cell<BytesMut>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.connection.leave();
    }
}

impl Session {
    pub(super) fn new(connection: Rc<Connection>) -> Self {
        drop(connection.ask(&run::preparation(), Answer::Unwanted, None));
        Self {
            connection,
            statements: Statements::default(),
            types: RefCell::default(),
            dropped: Dropped::default(),
            prepared: Cell::new(0),
            scratch: Cell::default(),
        }
    }

    /// Tells whether it can be asked.
    pub(super) fn is_open(&self) -> bool {
        self.connection.is_open()
    }

    /// Asks a prepared statement, in a transaction of its own.
    pub(super) fn ask(
        &self,
        statement: &Prepared,
        question: Question<'_>,
    ) -> Result<Waiting, PostgresError> {
        self.ask_as(statement, question, None)
    }

    /// Asks a prepared statement; if it only reads, it may share a transaction with others of its like.
    pub(super) fn ask_beside_others(
        &self,
        statement: &Prepared,
        question: Question<'_>,
    ) -> Result<Waiting, PostgresError> {
        let may_share = question.wants_rows && !statement.must_be_alone.get();
        let query = may_share.then_some(statement.name.number);
        self.ask_as(statement, question, query)
    }

    fn ask_as(
        &self,
        statement: &Prepared,
        question: Question<'_>,
        query: Option<u64>,
    ) -> Result<Waiting, PostgresError> {
        let (wanted, given) = (statement.parameters.len(), question.parameters.len());
        if wanted != given {
            return Err(PostgresError::Values { wanted, given });
        }
        let values = || question.parameters.iter().zip(&statement.parameters);
        let answer = if question.wants_rows {
            Answer::Rows(Vec::new(), statement.columns.clone())
        } else {
            Answer::Changed(0)
        };
        self.send(answer, query, |messages| {
            let mut place = 0;
            let bound = frontend::bind(
                "",
                &statement.name.text,
                values().map(|(value, of)| value.encode_format(of) as i16),
                values(),
                |(value, of), messages| {
                    place += 1;
                    Ok(match value.to_sql_checked(of, messages)? {
                        types::IsNull::Yes => IsNull::Yes,
                        types::IsNull::No => IsNull::No,
                    })
                },
                Some(1),
                messages,
            );
            bound.map_err(|error| match error {
                BindError::Conversion(error) => PostgresError::Value(place, error),
                BindError::Serialization(error) => PostgresError::Value(place, error.into()),
            })?;
            frontend::execute("", 0, messages)
                .map_err(|error| PostgresError::Value(0, error.into()))
        })
    }

    /// Returns a text's statement.
    pub(super) async fn prepared(
        &self,
        sql: &str,
        cell: &Preparing,
    ) -> Result<Rc<Prepared>, PostgresError> {
        let prepared = cell.get_or_try_init(|| self.prepare(sql));
        Ok(Rc::clone(prepared.await?))
    }

    async fn prepare(&self, sql: &str) -> Result<Rc<Prepared>, PostgresError> {
        self.prepared.update(|count| count + 1);
        let name = Name::new(self.prepared.get(), &self.dropped);
        let wanted = Answer::Description(Description::default());
        let described = self.send(wanted, None, |messages| {
            // A text that has a zero in it.
            let refused = |error: std::io::Error| PostgresError::Value(0, error.into());
            frontend::parse(&name.text, sql, None, messages).map_err(refused)?;
            frontend::describe(b'S', &name.text, messages).map_err(refused)
        })?;
        let description = match described.await {
            Answer::Description(description) => description,
            Answer::Failed(error) => return Err(error),
            _ => Description::default(),
        };
        let mut parameters = Vec::with_capacity(description.parameters.len());
        for number in description.parameters {
            parameters.push(self.type_of(number).await?);
        }
        let mut columns = Vec::with_capacity(description.columns.len());
        for (name, number) in description.columns {
            let of = self.type_of(number).await?;
            columns.push(Column { name, of });
        }
        let must_be_alone = match run::words(sql) {
            Some(words) => {
                let found = Box::pin(self.lookup(run::MAY_WRITE, &[&words])).await?;
                found
                    .first()
                    .is_none_or(|row| !matches!(row.try_get(0), Ok(false)))
            }
            None => true,
        };
        Ok(Rc::new(Prepared {
            name,
            parameters,
            columns: columns.into(),
            must_be_alone: Cell::new(must_be_alone),
        }))
    }

    /// Sends what `write` makes.
    fn send(
        &self,
        answer: Answer,
        query: Option<u64>,
        write: impl FnOnce(&mut BytesMut) -> Result<(), PostgresError>,
    ) -> Result<Waiting, PostgresError> {
        // Values write themselves, by code of the plugin's: what fails in the middle leaves nothing.
        let mut messages = self.scratch.take();
        messages.clear();
        // First, and in no run: what follows a refused statement is skipped, up to the Sync.
        let dropped = self.dropped.take();
        let query = query.filter(|_| dropped.is_empty());
        for name in &dropped {
            let _ = frontend::close(b'S', name, &mut messages);
        }
        let written = write(&mut messages);
        if written.is_err() {
            self.dropped.borrow_mut().extend(dropped);
        }
        let waiting = written.map(|()| self.connection.ask(&messages, answer, query));
        if messages.capacity() <= KEPT_BYTES_MAX {
            self.scratch.set(messages);
        }
        waiting
    }
}
