//! The same query, asked again and again in one turn of the worker's loop: a run, which ends with one
//! Sync for all of them.

use bytes::BytesMut;
use postgres_protocol::{IsNull, message::frontend};

use super::reply::Answer;

/// Questions of one run. What they save is saved with far fewer, and the first waits for the last.
const QUESTIONS_MAX: usize = 64;

/// What makes a run's transaction one that only reads, prepared when a connection is made.
const READ_ONLY: (&str, &str) = (
    "read_only",
    "select pg_catalog.set_config('transaction_read_only', 'on', true)",
);

/// A run that has no Sync yet.
pub(super) struct Run {
    /// What is asked, if others may ask it too.
    query: Option<u64>,
    /// Where it begins in what is to be sent.
    start: usize,
    /// How many questions it has, with the one that makes it read only.
    pub(super) questions: usize,
}

impl Run {
    pub(super) fn new(query: Option<u64>, start: usize) -> Self {
        Self {
            query,
            start,
            questions: 0,
        }
    }

    /// Tells whether this may be asked with it.
    pub(super) fn takes(&self, query: Option<u64>) -> bool {
        query.is_some() && self.query == query && self.questions < QUESTIONS_MAX
    }

    /// Puts before its only question what says that it only reads.
    pub(super) fn begin(self, out: &mut BytesMut) -> Self {
        let first = out.split_off(self.start);
        let (no_formats, no_values) = (None::<i16>, None::<()>);
        let is_null = |(), _: &mut BytesMut| Ok(IsNull::Yes);
        // Neither fails: the name has no zero in it.
        let _ = frontend::bind(
            "",
            READ_ONLY.0,
            no_formats,
            no_values,
            is_null,
            no_formats,
            out,
        );
        let _ = frontend::execute("", 0, out);
        out.extend_from_slice(&first);
        self.and_one_more()
    }

    pub(super) fn and_one_more(mut self) -> Self {
        self.questions += 1;
        self
    }
}

/// Returns what prepares a connection for runs.
pub(super) fn preparation() -> BytesMut {
    let mut messages = BytesMut::new();
    let _ = frontend::parse(READ_ONLY.0, READ_ONLY.1, None, &mut messages);
    messages
}

/// Makes of an answer one of a run in which something was refused: what was refused stays so, unless it
/// was because of the run, and all others are to be asked again.
pub(super) fn undo(answer: &mut Answer) {
    let must_be_alone = match answer {
        Answer::Unwanted => return,
        Answer::Failed(error) if !error.is_of_transaction() => return,
        Answer::Failed(_) => true,
        _ => false,
    };
    *answer = Answer::Undone { must_be_alone };
}
