//! What a handler says when it can't answer.

use std::{borrow::Cow, error::Error, fmt};

use http::{HeaderValue, StatusCode, header};

use super::{Body, IntoResponse, Response};

/// A refusal or failure: a status, and a sentence for the client (RFC 9457).
///
/// Every error becomes one by `?`, as an internal error: the client hears no more than that, the
/// log has the error and its causes.
pub struct Problem {
    status: StatusCode,
    detail: Cow<'static, str>,
    cause: Option<Box<dyn Error>>,
}

impl Problem {
    /// Makes one with this status and this sentence for the client.
    pub fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            detail: detail.into(),
            cause: None,
        }
    }

    /// The request is not what it should be (400).
    pub fn bad_request(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// There is no such thing (404).
    pub fn not_found(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the sentence for the client.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl<E: Error + 'static> From<E> for Problem {
    fn from(error: E) -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            detail: "the server has failed; its operator can read why".into(),
            cause: Some(Box::new(error)),
        }
    }
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Problem")
            .field("status", &self.status)
            .field("detail", &self.detail)
            .field("cause", &self.cause)
            .finish()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        if let Some(cause) = &self.cause {
            let mut causes = cause.to_string();
            let mut next = cause.source();
            while let Some(error) = next {
                causes.push_str(": ");
                causes.push_str(&error.to_string());
                next = error.source();
            }
            tracing::error!(error = causes, "request failed");
        }
        let document = serde_json::json!({
            "status": self.status.as_u16(),
            "title": self.status.canonical_reason(),
            "detail": self.detail,
        });
        let mut response = Response::new(Body::from(document.to_string()));
        *response.status_mut() = self.status;
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if self.status == StatusCode::UNAUTHORIZED {
            super::signed::add_challenge(response.headers_mut());
        }
        response
    }
}
