//! What tells two versions of an answer apart, and what a client says about the one it has (RFC 9110
//! sections 8.8 and 13).

use std::{fmt, time::SystemTime};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use sha2::{Digest, Sha256};

use super::{IntoResponse, Problem, Request, Response};

/// What is written otherwise in a tag; the comma, because not everybody takes lists of tags apart
/// with care.
const NOT_IN_TAGS: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%').add(b',');

/// Names one version of what is at an address: the value of `ETag`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityTag {
    weak: bool,
    /// With its quotes.
    quoted: String,
}

impl EntityTag {
    /// Makes one of the bytes themselves: the same bytes have the same.
    pub fn of(bytes: &[u8]) -> Self {
        let digest = Sha256::digest(bytes);
        let half = digest.get(..16).unwrap_or_default();
        Self::new(&data_encoding::BASE64URL_NOPAD.encode(half))
    }

    /// Makes one of a text that is another for every change by so much as a byte: a version's number,
    /// say. Characters that an `ETag` can't have are written as `%` and two hex digits a byte.
    pub fn new(text: &str) -> Self {
        let text = utf8_percent_encode(text, NOT_IN_TAGS);
        Self {
            weak: false,
            quoted: format!("\"{text}\""),
        }
    }

    /// Says that versions with this tag mean the same and may differ in bytes. Parts of such an answer
    /// can't be asked for.
    #[must_use]
    pub fn weak(mut self) -> Self {
        self.weak = true;
        self
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (weak, quoted) = match text.strip_prefix("W/") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
        (!inner.contains('"')).then(|| Self {
            weak,
            quoted: quoted.to_owned(),
        })
    }

    pub(super) fn in_header(value: &HeaderValue) -> Option<Self> {
        Self::parse(value.to_str().ok()?)
    }

    pub(super) fn is_the_same(&self, other: &Self) -> bool {
        !self.weak && !other.weak && self.quoted == other.quoted
    }

    fn means_the_same(&self, other: &Self) -> bool {
        self.quoted == other.quoted
    }
}

impl fmt::Display for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.weak { "W/" } else { "" })?;
        f.write_str(&self.quoted)
    }
}

/// An answer and the version it is. Clients that have that version are told so (304) and get nothing
/// else; clients that ask for a part (`Range`) get it.
#[derive(Debug, Clone)]
pub struct Versioned<T> {
    answer: T,
    tag: Option<EntityTag>,
    modified: Option<SystemTime>,
}

impl<T> Versioned<T> {
    /// Makes one with a tag.
    pub fn tagged(answer: T, tag: EntityTag) -> Self {
        Self {
            answer,
            tag: Some(tag),
            modified: None,
        }
    }

    /// Makes one with the time of its last change, which HTTP tells in whole seconds.
    pub fn modified(answer: T, at: SystemTime) -> Self {
        Self {
            answer,
            tag: None,
            modified: Some(at),
        }
    }

    /// Says when it was last changed, beside its tag.
    #[must_use]
    pub fn and_modified(mut self, at: SystemTime) -> Self {
        self.modified = Some(at);
        self
    }
}

impl<T: IntoResponse> IntoResponse for Versioned<T> {
    fn into_response(self) -> Response {
        let mut response = self.answer.into_response();
        let headers = response.headers_mut();
        let divisible = self.tag.as_ref().is_none_or(|tag| !tag.weak);
        let tag = self.tag.map(|tag| (header::ETAG, tag.to_string()));
        let modified = self.modified.map(|at| httpdate::fmt_http_date(told(at)));
        let modified = modified.map(|date| (header::LAST_MODIFIED, date));
        for (name, value) in tag.into_iter().chain(modified) {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        }
        if divisible {
            headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        }
        response
    }
}

impl Request {
    /// Refuses a request to change something (412) if the client says that it knows another version
    /// (`If-Match`, `If-Unmodified-Since`) or none (`If-None-Match: *`). `tag` is the version there is;
    /// `None`: there is nothing yet.
    pub fn require_version(
        &self,
        tag: Option<&EntityTag>,
        modified: Option<SystemTime>,
    ) -> Result<(), Problem> {
        if holds(self.headers(), tag, modified) {
            return Ok(());
        }
        Err(Problem::new(
            StatusCode::PRECONDITION_FAILED,
            "somebody has changed it since you read it; read it again",
        ))
    }
}

fn holds(headers: &HeaderMap, tag: Option<&EntityTag>, modified: Option<SystemTime>) -> bool {
    let mut wanted = headers.get_all(header::IF_MATCH).iter().peekable();
    let unchanged = if wanted.peek().is_some() {
        wanted.any(|value| names(value, tag, EntityTag::is_the_same))
    } else {
        let since = headers.get(header::IF_UNMODIFIED_SINCE).and_then(date);
        since.is_none_or(|since| modified.is_none_or(|at| whole_seconds(at) <= since))
    };
    let mut unwanted = headers.get_all(header::IF_NONE_MATCH).iter();
    unchanged && !unwanted.any(|value| names(value, tag, EntityTag::means_the_same))
}

/// Tells whether a list of tags, or the star, names this one.
fn names(
    value: &HeaderValue,
    tag: Option<&EntityTag>,
    equal: fn(&EntityTag, &EntityTag) -> bool,
) -> bool {
    let (Ok(text), Some(tag)) = (value.to_str(), tag) else {
        return false;
    };
    let listed = |text: &str| EntityTag::parse(text).is_some_and(|listed| equal(&listed, tag));
    // A comma between quotes belongs to the tag.
    let mut quoted = false;
    let mut between = |c: char| {
        quoted ^= c == '"';
        c == ',' && !quoted
    };
    text.trim() == "*" || text.split(&mut between).any(listed)
}

/// Tells whether a client that sent these wants another version than the one that a response is of.
pub(super) fn is_another(
    matches: &[HeaderValue],
    unmodified_since: Option<&HeaderValue>,
    response: &HeaderMap,
) -> bool {
    if !matches.is_empty() {
        let tag = response.get(header::ETAG).and_then(EntityTag::in_header);
        let same = |value| is_any(value) || names(value, tag.as_ref(), EntityTag::is_the_same);
        return !matches.iter().any(same);
    }
    let modified = response.get(header::LAST_MODIFIED).and_then(date);
    match (modified, unmodified_since.and_then(date)) {
        (Some(modified), Some(since)) => modified > since,
        _ => false,
    }
}

fn is_any(value: &HeaderValue) -> bool {
    value.as_bytes().trim_ascii() == b"*"
}

/// Tells whether a client that sent these has the version that a response is of.
pub(super) fn is_known(
    none_match: &[HeaderValue],
    modified_since: Option<&HeaderValue>,
    response: &HeaderMap,
) -> bool {
    if !none_match.is_empty() {
        let tag = response.get(header::ETAG).and_then(EntityTag::in_header);
        let known = |value| is_any(value) || names(value, tag.as_ref(), EntityTag::means_the_same);
        return none_match.iter().any(known);
    }
    let modified = response.get(header::LAST_MODIFIED).and_then(date);
    match (modified, modified_since.and_then(date)) {
        (Some(modified), Some(since)) => modified <= since,
        _ => false,
    }
}

/// Tells whether `If-Range` names exactly the version that a response is of.
pub(super) fn is_of_range(wanted: &HeaderValue, response: &HeaderMap) -> bool {
    if let Some(wanted) = EntityTag::in_header(wanted) {
        let tag = response.get(header::ETAG).and_then(EntityTag::in_header);
        return tag.is_some_and(|tag| tag.is_the_same(&wanted));
    }
    let modified = response.get(header::LAST_MODIFIED).and_then(date);
    modified.is_some() && modified == date(wanted)
}

fn date(value: &HeaderValue) -> Option<SystemTime> {
    httpdate::parse_http_date(value.to_str().ok()?).ok()
}

/// Returns a time that HTTP can tell: its years have four digits, and begin with 1970.
fn told(at: SystemTime) -> SystemTime {
    let year_10000 = std::time::Duration::from_hours(70_389_528);
    let last = SystemTime::UNIX_EPOCH + year_10000 - std::time::Duration::from_secs(1);
    at.clamp(SystemTime::UNIX_EPOCH, last)
}

fn whole_seconds(at: SystemTime) -> SystemTime {
    let since = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn headers(list: &[(header::HeaderName, &str)]) -> HeaderMap {
        let pair = |(name, value): &(header::HeaderName, &str)| {
            (name.clone(), HeaderValue::from_str(value).unwrap())
        };
        list.iter().map(pair).collect()
    }

    #[test]
    fn a_change_is_refused_to_who_knows_another_version() {
        let tag = EntityTag::new("7");
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(86_400_500);
        for (list, of_one, of_none) in [
            (&[][..], true, true),
            (&[(header::IF_MATCH, "\"7\"")], true, false),
            (&[(header::IF_MATCH, "\"6\", \"7\"")], true, false),
            (&[(header::IF_MATCH, "\"6,7\",\"7\"")], true, false),
            (&[(header::IF_MATCH, "\"6,7\"")], false, false),
            (&[(header::IF_MATCH, "*")], true, false),
            (&[(header::IF_MATCH, "W/\"7\"")], false, false),
            (&[(header::IF_MATCH, "7")], false, false),
            (&[(header::IF_MATCH, "\"6\"")], false, false),
            (&[(header::IF_NONE_MATCH, "*")], false, true),
            (&[(header::IF_NONE_MATCH, "W/\"7\"")], false, true),
            (
                &[(header::IF_UNMODIFIED_SINCE, "Fri, 02 Jan 1970 00:00:00 GMT")],
                true,
                true,
            ),
            (
                &[(header::IF_UNMODIFIED_SINCE, "Thu, 01 Jan 1970 23:59:59 GMT")],
                false,
                true,
            ),
        ] {
            let headers = headers(list);
            assert_eq!(holds(&headers, Some(&tag), Some(at)), of_one, "{headers:?}");
            assert_eq!(holds(&headers, None, None), of_none, "{headers:?}");
        }
    }

    #[test]
    fn times_that_http_cannot_tell_are_told_as_near_as_it_can() {
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        let after = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
        for (at, expected) in [
            (before, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (after, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            let response = Versioned::modified("x", at).into_response();
            let told = response.headers().get(header::LAST_MODIFIED).unwrap();
            assert_eq!(told.to_str().unwrap(), expected);
        }
    }

    #[test]
    fn parts_of_what_only_means_the_same_are_not_offered() {
        let offered = |tag| {
            let response = Versioned::tagged("x", tag).into_response();
            response.headers().contains_key(header::ACCEPT_RANGES)
        };
        assert!(offered(EntityTag::new("1")));
        assert!(!offered(EntityTag::new("1").weak()));
    }

    #[test]
    fn a_tag_is_written_as_it_is_read() {
        for tag in [
            EntityTag::of(b"x"),
            EntityTag::new("a \"b\" ü"),
            EntityTag::of(b"").weak(),
        ] {
            assert_eq!(EntityTag::parse(&tag.to_string()), Some(tag));
        }
        let texts = ["1 11", "11 1", "111", "ä", "ö", "", "1,2", "12", "%20", " "];
        for (one, text) in texts.iter().enumerate() {
            let tag = EntityTag::new(text);
            let sent = HeaderValue::try_from(tag.to_string()).unwrap();
            assert!(names(&sent, Some(&tag), EntityTag::is_the_same), "{text}");
            for other in texts.iter().skip(one + 1) {
                assert_ne!(tag, EntityTag::new(other));
            }
        }
        assert_ne!(EntityTag::of(b"x"), EntityTag::of(b"y"));
        // Services that are mounted make their own, and commas are allowed there.
        let comma = HeaderValue::from_static("\"1,2\"");
        let tag = EntityTag::in_header(&comma);
        let listed = HeaderValue::from_static("\"0\", \"1,2\"");
        assert!(names(&listed, tag.as_ref(), EntityTag::is_the_same));
        for none in ["", "\"", "x", "\"a\"b\"", "W/x"] {
            assert_eq!(EntityTag::parse(none), None, "{none}");
        }
    }
}
