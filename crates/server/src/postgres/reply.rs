//! What the database answers, taken apart and given to the question that it belongs to.

use std::{io, sync::Arc, task::Waker};

use bytes::{Buf, BytesMut};
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{
    BIND_COMPLETE_TAG, CLOSE_COMPLETE_TAG, Header, Message, NO_DATA_TAG, PARSE_COMPLETE_TAG,
};
use tokio_postgres::types::Oid;

use super::{
    PostgresError,
    connection::Questions,
    error::DatabaseError,
    row::{Column, Row},
};

/// The longest message: PostgreSQL's values are shorter than 1 GiB.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// An answer, as far as it has come. What it is at first says what is gathered of it.
pub(super) enum Answer {
    /// The rows of a statement of these columns.
    Rows(Vec<Row>, Arc<[Column]>),
    /// How many rows a statement has changed.
    Changed(u64),
    /// What a statement that is prepared is given and gives.
    Description(Description),
    /// Something beside it was refused, so that nothing was carried out; or it can't be carried out beside
    /// others.
    Undone { must_be_alone: bool },
    /// It is refused, or can't come any more.
    Failed(PostgresError),
    /// Nobody waits for it.
    Unwanted,
}

/// What a statement is given and gives, by the numbers of the types.
#[derive(Default)]
pub(super) struct Description {
    pub(super) parameters: Vec<Oid>,
    pub(super) columns: Vec<(String, Oid)>,
}

/// Takes all messages that have come wholly; those who wait for the answers that end with them are
/// added to `woken`. An error is one of the whole connection.
pub(super) fn take(
    inbound: &mut BytesMut,
    questions: &mut Questions,
    woken: &mut Vec<Waker>,
) -> io::Result<()> {
    while let Some(header) = Header::parse(inbound)? {
        let length = usize::try_from(header.len()).unwrap_or(usize::MAX);
        if length > MESSAGE_BYTES_MAX {
            return Err(broken("a message is longer than any of the database's"));
        }
        if inbound.len() <= length {
            break;
        }
        match header.tag() {
            // They say nothing, and there are one or two for each statement.
            BIND_COMPLETE_TAG | PARSE_COMPLETE_TAG | CLOSE_COMPLETE_TAG | NO_DATA_TAG => {
                inbound.advance(length + 1);
            }
            _ => {
                if let Some(message) = Message::parse(inbound)? {
                    take_message(message, questions, woken)?;
                }
            }
        }
    }
    Ok(())
}

fn take_message(
    message: Message,
    questions: &mut Questions,
    woken: &mut Vec<Waker>,
) -> io::Result<()> {
    match message {
        Message::ReadyForQuery(body) => {
            if !questions.end_answers(woken) {
                return Err(broken("the database answers what was not asked"));
            }
            if body.status() != b'I' {
                return Err(broken(
                    "a statement has begun a transaction, which would take those of other handlers in",
                ));
            }
            return Ok(());
        }
        Message::NoticeResponse(body) => {
            let notice = DatabaseError::parse(body.fields())?;
            tracing::debug!(%notice, "the database says");
            return Ok(());
        }
        Message::ParameterStatus(_) | Message::NotificationResponse(_) => return Ok(()),
        _ => {}
    }
    let Some(answer) = questions.current() else {
        return Err(match message {
            Message::ErrorResponse(body) => io::Error::other(DatabaseError::parse(body.fields())?),
            _ => broken("the database answers what was not asked"),
        });
    };
    match (message, answer) {
        (Message::DataRow(fields), Answer::Rows(rows, columns)) => {
            rows.push(Row::new(columns, fields)?);
        }
        (Message::CommandComplete(body), answer) => {
            if let Answer::Changed(changed) = answer {
                let count = body.tag()?.rsplit(' ').next();
                *changed = count.and_then(|count| count.parse().ok()).unwrap_or(0);
            }
            questions.carried_out();
        }
        (Message::EmptyQueryResponse, _) => questions.carried_out(),
        (Message::ParameterDescription(body), Answer::Description(description)) => {
            description.parameters = body.parameters().collect()?;
        }
        (Message::RowDescription(body), Answer::Description(description)) => {
            let column = |field: postgres_protocol::message::backend::Field<'_>| {
                Ok((field.name().to_owned(), field.type_oid()))
            };
            description.columns = body.fields().map(column).collect()?;
        }
        (Message::ErrorResponse(body), _) => {
            let error = DatabaseError::parse(body.fields())?;
            if ["FATAL", "PANIC"].contains(&error.severity()) {
                return Err(io::Error::other(error));
            }
            questions.refuse(PostgresError::Database(error));
        }
        (Message::CopyOutResponse(_), answer) => {
            if !matches!(answer, Answer::Unwanted) {
                *answer = Answer::Failed(PostgresError::Copy);
            }
        }
        (
            Message::DataRow(_)
            | Message::ParameterDescription(_)
            | Message::RowDescription(_)
            | Message::CopyData(_)
            | Message::CopyDone,
            _,
        ) => {}
        (Message::CopyInResponse(_), _) => {
            return Err(broken("a plugin's statement can't be a COPY"));
        }
        _ => return Err(broken("the database says what it can't say now")),
    }
    Ok(())
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Takes arbitrary bytes of a server, whole and in two parts: nothing panics, and both come to the same.
/// The first byte says where they are parted.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn fuzz_replies(data: &[u8]) {
    let Some((cut, bytes)) = data.split_first() else {
        return;
    };
    let (first, rest) = bytes.split_at(bytes.len().min(usize::from(*cut)));
    let (whole, parted) = (taken(&[bytes]), taken(&[first, rest]));
    assert_eq!(whole, parted, "the split makes a difference");
}

/// Returns what comes of some questions, in words, and why their connection ends.
#[cfg(any(test, feature = "testing"))]
fn taken(pieces: &[&[u8]]) -> (Vec<String>, Option<String>) {
    let (mut questions, mut inbound) = (Questions::default(), BytesMut::new());
    for answer in [
        Answer::Rows(Vec::new(), Vec::new().into()),
        Answer::Changed(0),
        Answer::Description(Description::default()),
        Answer::Unwanted,
    ] {
        questions.ask(answer);
        questions.end_run(1);
    }
    // A run of two.
    for _ in 0..2 {
        questions.ask(Answer::Rows(Vec::new(), Vec::new().into()));
    }
    questions.end_run(2);
    let end = pieces.iter().find_map(|piece| {
        inbound.extend_from_slice(piece);
        let taken = take(&mut inbound, &mut questions, &mut Vec::new());
        taken.err().map(|error| error.to_string())
    });
    let answers = questions.slots.iter().map(|(key, slot)| {
        let answer = match &slot.answer {
            Answer::Rows(rows, _) => {
                // There is no column that they could have.
                assert!(rows.iter().all(|row| row.try_get::<_, i32>(0).is_err()));
                format!("{} rows", rows.len())
            }
            Answer::Changed(changed) => format!("{changed} changed"),
            Answer::Description(description) => {
                format!("{:?} {:?}", description.parameters, description.columns)
            }
            Answer::Undone { must_be_alone } => format!("undone {must_be_alone}"),
            Answer::Failed(error) => format!("{error:?}"),
            Answer::Unwanted => "nothing".to_owned(),
        };
        format!("{key} {answer} {}", slot.is_whole)
    });
    (answers.collect(), end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[tag], &length[..], body].concat()
    }

    proptest! {
        #[test]
        fn no_bytes_of_a_server_are_a_panic(
            messages in proptest::collection::vec(
                (prop::sample::select(&b"123ACDEGHINRSTZcdnstx"[..]), any::<Vec<u8>>()), 0..12,
            ),
            cut in any::<u8>(),
        ) {
            let messages = messages.iter().flat_map(|(tag, body)| message(*tag, body));
            fuzz_replies(&std::iter::once(cut).chain(messages).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_a_server_may_not_say_ends_the_connection() {
        let mut many = vec![b'D'];
        many.extend_from_slice(&u32::MAX.to_be_bytes());
        let mut long = vec![b'D'];
        long.extend_from_slice(&0x7000_0000_u32.to_be_bytes());
        for (bytes, reason) in [
            (many, "length"),
            (long, "longer than any"),
            (message(b'D', &[0, 1]), "number of columns"),
            (message(b'G', &[0, 0, 0]), "COPY"),
            (message(b'Z', b"T"), "transaction"),
            (message(b's', b""), "can't say now"),
            (message(b'?', b""), "unknown"),
            (message(b'E', b"SFATAL\0C57P01\0Mgoing\0\0"), "FATAL: going"),
            (message(b'Z', b"I").repeat(6), "was not asked"),
        ] {
            let error = taken(&[&bytes]).1.unwrap_or_default();
            assert!(error.contains(reason), "{error}");
        }
    }
}
