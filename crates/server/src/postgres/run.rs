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

/// Whether any of these names may be that of what writes: a function may catch the error that it would
/// get, and answer as if it had written.
pub(super) const MAY_WRITE: &str = "select exists (select from pg_catalog.pg_proc \
        where provolatile = 'v' and proname = any($1::pg_catalog.name[])) \
    or exists (select from pg_catalog.pg_class \
        where relkind in ('v', 'f') and relname = any($1::pg_catalog.name[]))";
/// What a longer name is cut to.
const NAME_BYTES_MAX: usize = 63;

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

/// Returns the words of a text that may be asked in runs: a plain query, and not one about the catalogue,
/// which is asked of what has just been prepared. What may be a procedure, which can end the transaction,
/// or has names in quotes, is none.
pub(super) fn words(sql: &str) -> Option<Vec<String>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
    let words = sql.split(|c| !is_part(c)).filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(str::to_ascii_lowercase).collect();
    let begins = ["select", "values", "table", "with"];
    let is_plain = begins.contains(&words.first()?.as_str()) && !sql.contains('"');
    let fit = words
        .iter()
        .all(|word| word.len() <= NAME_BYTES_MAX && word != "pg_catalog");
    (is_plain && fit).then_some(words)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_queries_are_asked_in_runs() {
        let words = |sql| words(sql).map(|words| words.join(" "));
        let plain = "  SELECT f(a.b) FROM t WHERE x=$1";
        assert_eq!(words(plain).unwrap(), "select f a b from t where x $1");
        assert!(words("values ($1)").is_some());
        let long = format!("select {}", "x".repeat(64));
        for other in [
            "",
            "call p($1)",
            "do 'begin end'",
            "insert into t values ($1) returning x",
            "explain analyze select 1",
            "select \"F\"(1)",
            "select 1 from pg_catalog.pg_proc",
            MAY_WRITE,
            &long,
        ] {
            assert_eq!(words(other), None, "{other}");
        }
    }
}
