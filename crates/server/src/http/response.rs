//! What a handler may return.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use super::{Body, Problem};

/// An answer to a request.
pub type Response = http::Response<Body>;

/// Becomes an answer: what handlers return.
pub trait IntoResponse {
    /// Makes the answer.
    fn into_response(self) -> Response;
}

/// A value sent as JSON.
#[derive(Debug, Clone, Copy)]
pub struct Json<T>(pub T);

/// A text sent as HTML.
#[derive(Debug, Clone, Copy)]
pub struct Html<T>(pub T);

impl IntoResponse for Response {
    fn into_response(self) -> Response {
        self
    }
}

impl IntoResponse for () {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl IntoResponse for StatusCode {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::default());
        *response.status_mut() = self;
        response
    }
}

impl IntoResponse for &'static str {
    fn into_response(self) -> Response {
        typed("text/plain; charset=utf-8", self.as_bytes())
    }
}

impl IntoResponse for String {
    fn into_response(self) -> Response {
        typed("text/plain; charset=utf-8", self)
    }
}

impl IntoResponse for Bytes {
    fn into_response(self) -> Response {
        typed("application/octet-stream", self)
    }
}

impl IntoResponse for Body {
    fn into_response(self) -> Response {
        Response::new(self)
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(json) => typed("application/json", json),
            Err(error) => Problem::from(error).into_response(),
        }
    }
}

impl<T: Into<Bytes>> IntoResponse for Html<T> {
    fn into_response(self) -> Response {
        typed("text/html; charset=utf-8", self.0)
    }
}

impl<T: IntoResponse> IntoResponse for (StatusCode, T) {
    fn into_response(self) -> Response {
        let mut response = self.1.into_response();
        *response.status_mut() = self.0;
        response
    }
}

impl<T: IntoResponse, E: IntoResponse> IntoResponse for Result<T, E> {
    fn into_response(self) -> Response {
        match self {
            Ok(answer) => answer.into_response(),
            Err(refusal) => refusal.into_response(),
        }
    }
}

fn typed(content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(body));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
