//! Which pages of other origins a browser lets read the answers of routes (the Fetch standard's CORS).
//!
//! The relay's own answers at `/` may be read by all, as NIP-11 demands; this is about what plugins
//! answer.

use http::{HeaderMap, HeaderValue, header};

use super::Response;

/// How long a browser need not ask again: what Chromium takes at most.
const PREFLIGHT_SECONDS: &str = "7200";

/// Who else's pages may use the routes of a server. They can sign their requests (NIP-98); a browser's
/// session is never theirs, for cookies are not let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// None: all.
    origins: Option<Vec<String>>,
}

impl Cors {
    /// Lets pages of any origin use them.
    pub fn any() -> Self {
        Self { origins: None }
    }

    /// Lets pages of these origins use them: `https://app.example.com`, as browsers write it in
    /// `Origin`.
    pub fn origins<O: Into<String>>(origins: impl IntoIterator<Item = O>) -> Self {
        Self {
            origins: Some(origins.into_iter().map(Into::into).collect()),
        }
    }

    /// Answers what a browser asks before the request itself. The answer says already which methods the
    /// path has.
    pub(super) fn answer_preflight(request: &HeaderMap, response: &mut Response) {
        if !request.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
            return;
        }
        let headers = response.headers_mut();
        if let Some(methods) = headers.get(header::ALLOW).cloned() {
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        }
        // A handler reads what headers it likes; a star would not stand for `Authorization`.
        if let Some(wanted) = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        }
        headers.insert(
            header::ACCESS_CONTROL_MAX_AGE,
            HeaderValue::from_static(PREFLIGHT_SECONDS),
        );
    }

    /// Says in an answer who may read it, unless a handler has said so itself.
    pub(super) fn complete(&self, origin: Option<&HeaderValue>, response: &mut Response) {
        let headers = response.headers_mut();
        if headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN) {
            return;
        }
        let allowed = match &self.origins {
            None => HeaderValue::from_static("*"),
            Some(origins) => {
                // Or a cache would give one origin's answer to another.
                headers.append(header::VARY, HeaderValue::from_static("Origin"));
                let origin = origin.filter(|origin| {
                    let known = origins.iter().map(String::as_bytes);
                    known.into_iter().any(|known| known == origin.as_bytes())
                });
                let Some(origin) = origin else { return };
                origin.clone()
            }
        };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("*"),
        );
    }
}
