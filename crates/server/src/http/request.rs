//! A request, as a handler sees it.

use std::{any::type_name, fmt, net::IpAddr, str::FromStr};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::de::DeserializeOwned;

use super::{Problem, request_id::RequestName};

/// A request to one of the routes. Its body is read when it is asked for.
///
/// It is handed from one future to another, so it is a pointer.
pub struct Request(Box<Inner>);

struct Inner {
    request: http::Request<Incoming>,
    /// The body, once it has been read.
    read: Option<Bytes>,
    parameters: Parameters,
    client: IpAddr,
    id: RequestName,
    body_bytes_max: usize,
}

/// What stands in the path where the route has `{names}`, decoded.
pub(crate) type Parameters = Vec<(String, String)>;

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", self.0.request.method())
            .field("uri", self.0.request.uri())
            .field("client", &self.0.client)
            .finish_non_exhaustive()
    }
}

impl Request {
    pub(crate) fn new(
        request: http::Request<Incoming>,
        parameters: Parameters,
        client: IpAddr,
        id: RequestName,
        body_bytes_max: usize,
    ) -> Self {
        Self(Box::new(Inner {
            request,
            read: None,
            parameters,
            client,
            id,
            body_bytes_max,
        }))
    }

    /// Returns the method.
    pub fn method(&self) -> &Method {
        self.0.request.method()
    }

    /// Returns the address, as the client wrote it.
    pub fn uri(&self) -> &Uri {
        self.0.request.uri()
    }

    /// Returns the headers.
    pub fn headers(&self) -> &HeaderMap {
        self.0.request.headers()
    }

    /// Returns the client's address; behind a trusted proxy, the one that the proxy speaks for.
    pub fn client_address(&self) -> IpAddr {
        self.0.client
    }

    /// Returns what stands in the path at the route's `{name}`, as a `T`. What is no `T` is refused
    /// (400), and so is a name that the route has not: that is the handler's mistake.
    pub fn param<T: FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<T, Problem> {
        let value = self
            .0
            .parameters
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
            .ok_or_else(|| Problem::bad_request(format!("the path has no parameter `{name}`")))?;
        value.parse().map_err(|error| {
            Problem::bad_request(format!("`{value}` in the path is no {name}: {error}"))
        })
    }

    /// Returns the parameters behind the `?`, as a `T`. What is no `T` is refused (400).
    pub fn query<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let query = self.0.request.uri().query().unwrap_or_default();
        serde_html_form::from_str(query).map_err(|error| {
            Problem::bad_request(format!("the parameters behind the `?` are wrong: {error}"))
        })
    }

    /// Reads the body, as JSON of a `T`. Refused are another content type (415), too many bytes
    /// (413), and what is no `T` (400), with where and why.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T, Problem> {
        let content_type = self.0.request.headers().get(header::CONTENT_TYPE);
        let is_json = content_type
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split(';').next())
            .map(|value| value.trim().to_ascii_lowercase())
            .is_some_and(|value| {
                value == "application/json"
                    || value.starts_with("application/") && value.ends_with("+json")
            });
        if !is_json {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body must be JSON, and say so: `content-type: application/json`",
            ));
        }
        let body = self.bytes().await?;
        serde_json::from_slice(&body).map_err(|error| {
            let wanted = type_name::<T>().rsplit("::").next().unwrap_or_default();
            Problem::bad_request(format!("the body is no JSON of a {wanted}: {error}"))
        })
    }

    /// Reads the body. One with more bytes than the server allows is refused (413).
    pub async fn bytes(mut self) -> Result<Bytes, Problem> {
        self.read().await
    }

    /// Reads the body, and keeps it.
    pub(super) async fn read(&mut self) -> Result<Bytes, Problem> {
        if let Some(read) = &self.0.read {
            return Ok(read.clone());
        }
        let max = self.0.body_bytes_max;
        let too_large = move || {
            Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body has more than {max} bytes"),
            )
        };
        // What says that it is too large need not be read.
        let announced = http_body::Body::size_hint(self.0.request.body()).lower();
        if announced > max as u64 {
            return Err(too_large());
        }
        match Limited::new(self.0.request.body_mut(), max).collect().await {
            Ok(body) => {
                let body = body.to_bytes();
                self.0.read = Some(body.clone());
                Ok(body)
            }
            Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
            Err(_) => Err(Problem::bad_request("the body has broken off")),
        }
    }

    /// Returns the request's name, which the answer and the log have too (`X-Request-Id`).
    pub fn id(&self) -> &str {
        self.0.id.as_str()
    }

    /// Gives the request to whoever wants to read it by themselves. A body that has been read already is
    /// not in it.
    pub fn into_inner(self) -> http::Request<Incoming> {
        self.0.request
    }
}
