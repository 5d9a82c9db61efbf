//! The form a handler's answer takes for one client: nothing if it has that version already, a part if
//! it wants one, compressed if it can unpack that.

use std::ops::Range;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use super::{
    Body, IntoResponse as _, Problem, Response, gzip::gzipped, negotiation::accepts_gzip,
    validators,
};

/// Bytes of a body that is worth compressing: below, it is one packet either way.
const COMPRESSED_BYTES_MIN: u64 = 1024;

/// What a request says about the form of its answer.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    matches: Vec<HeaderValue>,
    unmodified_since: Option<HeaderValue>,
    none_match: Vec<HeaderValue>,
    modified_since: Option<HeaderValue>,
    range: Option<HeaderValue>,
    if_range: Option<HeaderValue>,
    encodings: Vec<HeaderValue>,
    /// It has something secret with it.
    secret: bool,
    is_get: bool,
}

impl Wanted {
    /// Reads it from a request's headers; `None` if they say nothing of the kind.
    pub(super) fn of(method: &Method, headers: &HeaderMap) -> Option<Box<Self>> {
        Self::and_hosts(method, headers).0
    }

    /// The same, and how many hosts they name, in one look at them.
    pub(super) fn and_hosts(method: &Method, headers: &HeaderMap) -> (Option<Box<Self>>, usize) {
        let mut wanted: Option<Box<Self>> = None;
        let (mut secret, mut hosts) = (false, 0);
        for (name, value) in headers {
            let it = || Box::<Self>::default();
            match *name {
                header::HOST => hosts += 1,
                header::IF_MATCH => wanted.get_or_insert_with(it).matches.push(value.clone()),
                header::IF_UNMODIFIED_SINCE => {
                    wanted.get_or_insert_with(it).unmodified_since = Some(value.clone());
                }
                header::IF_NONE_MATCH => {
                    wanted.get_or_insert_with(it).none_match.push(value.clone());
                }
                header::IF_MODIFIED_SINCE => {
                    wanted.get_or_insert_with(it).modified_since = Some(value.clone());
                }
                header::RANGE => wanted.get_or_insert_with(it).range = Some(value.clone()),
                header::IF_RANGE => wanted.get_or_insert_with(it).if_range = Some(value.clone()),
                header::ACCEPT_ENCODING => {
                    wanted.get_or_insert_with(it).encodings.push(value.clone());
                }
                header::COOKIE | header::AUTHORIZATION => secret = true,
                _ => {}
            }
        }
        if *method != Method::GET && *method != Method::HEAD {
            // What changes something is answered as it is.
            return (None, hosts);
        }
        if let Some(wanted) = &mut wanted {
            wanted.secret = secret;
            wanted.is_get = *method == Method::GET;
        }
        (wanted, hosts)
    }

    /// Gives an answer the form that is wanted, if any is.
    pub(super) fn shape(wanted: Option<&Self>, response: &mut Response) {
        if let Some(wanted) = wanted {
            *response = wanted.apply(std::mem::take(response));
        } else {
            vary(response);
        }
    }

    fn apply(&self, mut response: Response) -> Response {
        if response.status() != StatusCode::OK {
            return if vary(&mut response) && self.packs() {
                packed(response)
            } else {
                response
            };
        }
        let unmodified = self.unmodified_since.as_ref();
        if validators::is_another(&self.matches, unmodified, response.headers()) {
            let detail = "it is another version by now; read it from its beginning";
            return Problem::new(StatusCode::PRECONDITION_FAILED, detail).into_response();
        }
        let packs = vary(&mut response) && self.packs();
        let since = self.modified_since.as_ref();
        if validators::is_known(&self.none_match, since, response.headers()) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            *response.body_mut() = Body::default();
            response.headers_mut().remove(header::CONTENT_TYPE);
            response.headers_mut().remove(header::CONTENT_LENGTH);
            if packs {
                // As the whole would have had it.
                weaken_tag(response.headers_mut());
            }
            return response;
        }
        match self.part(&mut response) {
            Part::Whole if packs => packed(response),
            Part::Whole => response,
            Part::Of(bytes, range) => {
                let content_range =
                    format!("bytes {}-{}/{}", range.start, range.end - 1, bytes.len());
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                in_part(response, &content_range, bytes.slice(range))
            }
            Part::Nowhere(length) => {
                *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
                in_part(response, &format!("bytes */{length}"), Bytes::new())
            }
        }
    }

    /// Finds out which part of the answer is wanted, if one is and can be had.
    fn part(&self, response: &mut Response) -> Part {
        let headers = response.headers();
        let divisible = headers
            .get(header::ACCEPT_RANGES)
            .map(HeaderValue::as_bytes)
            == Some(b"bytes");
        let Some(range) = self.range.as_ref().filter(|_| divisible && self.is_get) else {
            return Part::Whole;
        };
        if let Some(version) = &self.if_range
            && !validators::is_of_range(version, headers)
        {
            return Part::Whole;
        }
        let Some(bytes) = response.body().whole() else {
            return Part::Whole;
        };
        match range
            .to_str()
            .ok()
            .and_then(|text| parse_range(text, bytes.len()))
        {
            Some(Ok(range)) => Part::Of(bytes.clone(), range),
            Some(Err(Unsatisfiable)) => Part::Nowhere(bytes.len()),
            None => Part::Whole,
        }
    }

    /// Tells whether the client can unpack what is compressed, and nothing secret is in it.
    fn packs(&self) -> bool {
        !self.secret && accepts_gzip(&self.encodings)
    }
}

/// Compresses an answer.
fn packed(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    match gzipped(body) {
        Ok(body) => {
            let headers = &mut parts.headers;
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            headers.remove(header::CONTENT_LENGTH);
            headers.remove(header::ACCEPT_RANGES);
            weaken_tag(headers);
            Response::from_parts(parts, body)
        }
        Err(error) => {
            tracing::error!(%error, "an answer can't be compressed");
            parts.status = StatusCode::INTERNAL_SERVER_ERROR;
            Response::from_parts(parts, Body::default())
        }
    }
}

/// Tells caches that an answer may come compressed or not, if it may, however it came this time.
fn vary(response: &mut Response) -> bool {
    let may = is_compressible(response);
    if may {
        let vary = HeaderValue::from_static("accept-encoding");
        response.headers_mut().append(header::VARY, vary);
    }
    may
}

enum Part {
    Whole,
    Of(Bytes, Range<usize>),
    /// It is beyond the end; how many bytes there are.
    Nowhere(usize),
}

fn in_part(mut response: Response, content_range: &str, body: Bytes) -> Response {
    if let Ok(value) = HeaderValue::from_str(content_range) {
        response.headers_mut().insert(header::CONTENT_RANGE, value);
    }
    response.headers_mut().remove(header::CONTENT_LENGTH);
    *response.body_mut() = Body::from(body);
    response
}

/// The bytes are other ones now, though they mean the same.
fn weaken_tag(headers: &mut HeaderMap) {
    let tag = headers
        .get(header::ETAG)
        .and_then(validators::EntityTag::in_header);
    if let Some(Ok(weak)) = tag.map(|tag| HeaderValue::try_from(tag.weak().to_string())) {
        headers.insert(header::ETAG, weak);
    }
}

/// Tells whether it is worth trying: text of some length that nobody has compressed or forbids to.
fn is_compressible(response: &Response) -> bool {
    let size = http_body::Body::size_hint(response.body());
    if size
        .upper()
        .is_some_and(|upper| upper < COMPRESSED_BYTES_MIN)
    {
        return false;
    }
    let headers = response.headers();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let fixed = [header::CONTENT_ENCODING, header::CONTENT_RANGE];
    if fixed.iter().any(|name| headers.contains_key(name))
        || text(header::CACHE_CONTROL).is_some_and(|value| value.contains("no-transform"))
    {
        return false;
    }
    let media = text(header::CONTENT_TYPE).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    // Its receivers wait for each line.
    media != "text/event-stream"
        && (media.starts_with("text/")
            || media.ends_with("json")
            || media.ends_with("xml")
            || media == "application/javascript"
            || media == "application/wasm")
}

struct Unsatisfiable;

/// Reads `bytes=a-b`, `bytes=a-` or `bytes=-n`. `None`: it is none of these, or several, which nobody
/// need be given; the whole is the answer then.
fn parse_range(text: &str, length: usize) -> Option<Result<Range<usize>, Unsatisfiable>> {
    let (unit, wanted) = text.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = wanted.trim().split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // More than there can be is the same as beyond the end.
        digits.then(|| text.parse().unwrap_or(usize::MAX))
    };
    let range = match (first, last) {
        ("", last) => length.saturating_sub(number(last)?)..length,
        (first, "") => number(first)?..length,
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            first..last.saturating_add(1).min(length)
        }
    };
    Some(if range.start < range.end {
        Ok(range)
    } else {
        Err(Unsatisfiable)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read() {
        for (text, length, expected) in [
            ("bytes=0-4", 10, "0..5"),
            ("bytes=5-", 10, "5..10"),
            ("bytes=-3", 10, "7..10"),
            ("bytes=-30", 10, "0..10"),
            ("bytes=0-99999999999999999999999", 10, "0..10"),
            ("Bytes = 2-2", 10, "2..3"),
            ("bytes=10-", 10, "416"),
            ("bytes=99999999999999999999999-", 10, "416"),
            ("bytes=-0", 10, "416"),
            ("bytes=0-", 0, "416"),
            ("bytes=4-2", 10, "whole"),
            ("bytes=0-1,3-4", 10, "whole"),
            ("bytes=-", 10, "whole"),
            ("bytes=+1-2", 10, "whole"),
            ("lines=1-2", 10, "whole"),
            ("", 10, "whole"),
        ] {
            let found = match parse_range(text, length) {
                Some(Ok(range)) => format!("{range:?}"),
                Some(Err(Unsatisfiable)) => "416".to_owned(),
                None => "whole".to_owned(),
            };
            assert_eq!(found, expected, "{text}");
        }
    }
}
