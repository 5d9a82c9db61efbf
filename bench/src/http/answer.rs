//! Reading an answer of HTTP/1.x: with a length, in chunks, or to the end of the connection.

use crate::error::{BenchError, Result};

/// More headers than any server sends.
const HEADERS_MAX: usize = 64;

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// The server ends the connection behind it.
    pub(crate) is_last: bool,
}

impl Answer {
    /// Reads one answer, if all of it is there; returns its length too. `ended` tells that nothing
    /// follows: the server has ended the connection.
    pub(crate) fn parse(bytes: &[u8], ended: bool) -> Result<Option<(usize, Self)>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let malformed = |why: &dyn std::fmt::Display| {
            BenchError::Wrong(format!("not an answer of HTTP/1: {why}"))
        };
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let begin = match response.parse(bytes).map_err(|error| malformed(&error))? {
            httparse::Status::Complete(length) => length,
            httparse::Status::Partial => return Ok(None),
        };
        let status = response.code.unwrap_or(0);
        let header = |name: &str| {
            let found = response
                .headers
                .iter()
                .find(|it| it.name.eq_ignore_ascii_case(name));
            found.and_then(|it| std::str::from_utf8(it.value).ok())
        };
        let has = |name: &str, word: &str| {
            header(name).is_some_and(|value| value.to_ascii_lowercase().contains(word))
        };
        let is_old = response.version == Some(0) && !has("connection", "keep-alive");
        let mut is_last = has("connection", "close") || is_old;
        let rest = bytes.get(begin..).unwrap_or_default();
        let read = if status == 204 || status == 304 {
            Some((0, Vec::new()))
        } else if has("transfer-encoding", "chunked") {
            chunks(rest).map_err(|why| malformed(&why))?
        } else {
            match header("content-length").map(|value| value.trim().parse::<usize>()) {
                Some(Ok(length)) => rest.get(..length).map(|body| (length, body.to_vec())),
                Some(Err(_)) => return Err(malformed(&"its length is no number")),
                // RFC 9112, 6.3: it ends where the connection ends.
                None => {
                    is_last = true;
                    ended.then(|| (rest.len(), rest.to_vec()))
                }
            }
        };
        Ok(read.map(|(length, body)| {
            let answer = Self {
                status,
                body,
                is_last,
            };
            (begin + length, answer)
        }))
    }
}

/// Reads chunks to the last, with what follows it; returns the length, and the chunks in one piece.
fn chunks(bytes: &[u8]) -> std::result::Result<Option<(usize, Vec<u8>)>, &'static str> {
    let mut at = 0;
    let mut body = Vec::new();
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let (header, length) = match httparse::parse_chunk_size(rest) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err("a chunk without a length"),
        };
        let length = usize::try_from(length).map_err(|_| "a chunk too long")?;
        at += header;
        if length == 0 {
            // Trailers end with an empty line, of which there may be nothing else.
            let rest = bytes.get(at..).unwrap_or_default();
            if rest.starts_with(b"\r\n") {
                return Ok(Some((at + 2, body)));
            }
            let end = rest.windows(4).position(|it| it == b"\r\n\r\n");
            return Ok(end.map(|end| (at + end + 4, body)));
        }
        let end = at.saturating_add(length).saturating_add(2);
        let Some(chunk) = bytes.get(at..end) else {
            return Ok(None);
        };
        let Some(chunk) = chunk.strip_suffix(b"\r\n") else {
            return Err("a chunk without an end");
        };
        body.extend_from_slice(chunk);
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_when_all_of_it_is_there() {
        for (text, body) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
                "hello",
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\na: b\r\n\r\n",
                "x",
            ),
            ("HTTP/1.1 204 No Content\r\n\r\n", ""),
        ] {
            for end in 0..text.len() {
                assert_eq!(
                    Answer::parse(&text.as_bytes()[..end], false).unwrap(),
                    None,
                    "{text}: {end}"
                );
            }
            let more = format!("{text}HTTP/1.1");
            let (length, answer) = Answer::parse(more.as_bytes(), false).unwrap().unwrap();
            assert_eq!(
                (length, answer.body.as_slice()),
                (text.len(), body.as_bytes())
            );
        }
    }

    #[test]
    fn what_has_no_length_ends_with_the_connection() {
        for text in [
            "HTTP/1.1 200 OK\r\n\r\nhello",
            "HTTP/1.0 200 OK\r\n\r\nhello",
        ] {
            assert_eq!(Answer::parse(text.as_bytes(), false).unwrap(), None);
            let (length, answer) = Answer::parse(text.as_bytes(), true).unwrap().unwrap();
            assert_eq!(
                (length, answer.body.as_slice()),
                (text.len(), &b"hello"[..])
            );
            assert!(answer.is_last);
        }
        let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello";
        assert_eq!(Answer::parse(cut, true).unwrap(), None);
    }

    #[test]
    fn what_is_no_answer_is_not_waited_for() {
        for text in [
            "hello\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nhello",
        ] {
            assert!(Answer::parse(text.as_bytes(), false).is_err(), "{text}");
        }
    }
}
