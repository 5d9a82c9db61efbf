//! Services of others under a path: axum's routers, tower's layers.

use std::net::IpAddr;

use bytes::Bytes;
use http::{Uri, uri::PathAndQuery};
use hyper::body::Incoming;

use super::{Body, BodyError, IntoResponse, Problem, Request, Response};

/// The client's address, among the extensions of a request to a mounted service; behind a trusted
/// proxy, the one that the proxy speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// What can be mounted under a path: any `tower` service of HTTP requests, an `axum::Router` say.
/// Each worker has a clone of its own.
pub trait Service: Clone + Send + 'static {
    /// Answers a request, whose path is what is below the service's own.
    fn answer(&mut self, request: http::Request<Incoming>) -> impl Future<Output = Response>;
}

impl<S, B> Service for S
where
    S: tower_service::Service<http::Request<Incoming>, Response = http::Response<B>>
        + Clone
        + Send
        + 'static,
    S::Error: Into<BodyError>,
    B: http_body::Body<Data = Bytes> + 'static,
    B::Error: Into<BodyError>,
{
    async fn answer(&mut self, request: http::Request<Incoming>) -> Response {
        if let Err(error) = std::future::poll_fn(|cx| self.poll_ready(cx)).await {
            return failed(error.into());
        }
        match self.call(request).await {
            Ok(response) => response.map(Body::new),
            Err(error) => failed(error.into()),
        }
    }
}

fn failed(error: BodyError) -> Response {
    let error: Box<dyn std::error::Error> = error;
    tracing::error!(%error, "a mounted service has failed");
    Problem::new(
        http::StatusCode::INTERNAL_SERVER_ERROR,
        "the server has failed; its operator can read why",
    )
    .into_response()
}

/// Has a service answer a request to what is at `prefix` or below it. A [`Session`](super::Session)
/// that may be used for it is among its extensions.
pub(crate) async fn call_service<S: Service>(
    mut service: S,
    prefix: &str,
    request: Request,
) -> Response {
    let client = request.client_address();
    let session = request.session().ok();
    let mut request = request.into_inner();
    request.extensions_mut().insert(ClientAddress(client));
    if let Some(session) = session {
        request.extensions_mut().insert(session);
    }
    if let Some(below) = below(request.uri(), prefix) {
        *request.uri_mut() = below;
    }
    service.answer(request).await
}

/// Returns the address as it looks from below the prefix.
fn below(uri: &Uri, prefix: &str) -> Option<Uri> {
    let rest = uri.path_and_query()?.as_str().strip_prefix(prefix)?;
    let rest: PathAndQuery = if rest.starts_with('/') {
        rest.parse().ok()?
    } else {
        format!("/{rest}").parse().ok()?
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(rest);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_sees_its_own_paths() {
        for (uri, expected) in [
            ("/app", "/"),
            ("/app/", "/"),
            ("/app/x/y?z=1", "/x/y?z=1"),
            ("/app?z=1", "/?z=1"),
            ("http://h/app/x", "http://h/x"),
        ] {
            let uri: Uri = uri.parse().unwrap();
            assert_eq!(below(&uri, "/app").unwrap().to_string(), expected);
        }
    }
}
