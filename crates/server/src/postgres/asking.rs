//! A statement that a handler asks, from the first time it is polled to its answer.

use std::{
    panic::Location,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Instant,
};

use super::{
    PostgresError,
    connection::Waiting,
    database::Inner,
    lane::{InUse, Lane, Parameters},
    reply::Answer,
    row::Row,
    statement::Prepared,
};

/// What is asked: a text, its values, and where it stands.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) sql: &'a str,
    pub(super) parameters: Parameters<'a>,
    /// Whether its rows are wanted, or only how many it changes.
    pub(super) wants_rows: bool,
}

/// What a handler waits for. Where the connection is there and the statement prepared, which is so but
/// for the first time, it goes out with the first poll, and nothing is allocated.
pub(super) struct Asking<'a, T> {
    database: &'a Inner,
    question: Question<'a>,
    site: &'static Location<'static>,
    /// Makes of the answer what was asked for.
    finish: fn(Answer) -> Result<T, PostgresError>,
    begun: Option<(Instant, InUse<'a>)>,
    stage: Stage<'a>,
}

enum Stage<'a> {
    New,
    Waiting(Waiting, Rc<Prepared>),
    /// The connection is to be made, or the statement to be prepared.
    Slow(Pin<Box<dyn Future<Output = Result<Answer, PostgresError>> + 'a>>),
    Ended,
}

impl<'a, T> Asking<'a, T> {
    pub(super) fn new(
        database: &'a Inner,
        question: Question<'a>,
        site: &'static Location<'static>,
        finish: fn(Answer) -> Result<T, PostgresError>,
    ) -> Self {
        Self {
            database,
            question,
            site,
            finish,
            begun: None,
            stage: Stage::New,
        }
    }

    fn begin(&mut self) -> Result<Stage<'a>, PostgresError> {
        let question = self.question;
        let lane = self.database.lane();
        self.begun = Some((Instant::now(), lane.enter()));
        Ok(match lane.ask(question)? {
            Some((waiting, statement)) => Stage::Waiting(waiting, statement),
            None => Stage::Slow(Box::pin(self.database.ask_slowly(lane, question))),
        })
    }

    fn lane(&self) -> &'a Rc<Lane> {
        let used = self.begun.as_ref();
        used.map_or_else(|| self.database.lane(), |(_, used)| used.lane())
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answer, PostgresError>> {
        loop {
            match &mut self.stage {
                Stage::New => self.stage = self.begin()?,
                Stage::Waiting(waiting, statement) => match ready!(Pin::new(waiting).poll(cx)) {
                    Answer::Failed(error) if error.is_outdated() => {
                        let (database, outdated) = (self.database, Rc::clone(statement));
                        let again = self
                            .lane()
                            .ask_anew(&database.target, self.question, outdated);
                        self.stage = Stage::Slow(Box::pin(again));
                    }
                    Answer::Undone { must_be_alone } => {
                        statement
                            .must_be_alone
                            .update(|before| before | must_be_alone);
                        let again = self.database.ask_slowly(self.lane(), self.question);
                        self.stage = Stage::Slow(Box::pin(again));
                    }
                    answer => return Poll::Ready(Ok(answer)),
                },
                Stage::Slow(asking) => return asking.as_mut().poll(cx),
                Stage::Ended => panic!("polled after its end"),
            }
        }
    }
}

impl<T> Future for Asking<'_, T> {
    type Output = Result<T, PostgresError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let answer = ready!(this.poll_answer(cx));
        this.stage = Stage::Ended;
        let begun = this.begun.take();
        let answer = match answer? {
            Answer::Failed(error) => return Poll::Ready(Err(error)),
            answer => answer,
        };
        if let Some((begun, _)) = begun {
            hikyaku_observe::statement(this.question.sql, this.site, begun.elapsed());
        }
        Poll::Ready((this.finish)(answer))
    }
}

/// Returns an answer's rows.
pub(super) fn rows(answer: Answer) -> Result<Vec<Row>, PostgresError> {
    match answer {
        Answer::Rows(rows, _) => Ok(rows),
        Answer::Failed(error) => Err(error),
        _ => Ok(Vec::new()),
    }
}

/// Returns the row of an answer that has one.
pub(super) fn one(answer: Answer) -> Result<Row, PostgresError> {
    optional(answer)?.ok_or(PostgresError::Rows(0))
}

/// Returns the row of an answer that has one at most.
pub(super) fn optional(answer: Answer) -> Result<Option<Row>, PostgresError> {
    let mut rows = rows(answer)?;
    match (rows.pop(), rows.len()) {
        (row, 0) => Ok(row),
        (_, more) => Err(PostgresError::Rows(more + 1)),
    }
}

/// Returns how many rows an answer says were changed.
pub(super) fn changed(answer: Answer) -> Result<u64, PostgresError> {
    match answer {
        Answer::Changed(changed) => Ok(changed),
        Answer::Failed(error) => Err(error),
        _ => Ok(0),
    }
}
