//! The operator's address: `GET /metrics`, and nothing else.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use super::Metrics;

/// How long a scrape may take.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Answers scrapes, one connection at a time; never returns.
pub(crate) async fn serve(listener: TcpListener, metrics: Metrics) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "metrics connection not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let service = service_fn(|request: Request<Incoming>| {
            std::future::ready(Ok::<_, Infallible>(answer(&request, &metrics)))
        });
        let connection = http1::Builder::new()
            .keep_alive(false)
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service);
        // A scraper that goes away harms nobody but itself.
        let _ = tokio::time::timeout(TIME_MAX, connection).await;
    }
}

fn answer<B>(request: &Request<B>, metrics: &Metrics) -> Response<Full<Bytes>> {
    let (status, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => (StatusCode::OK, metrics.render()),
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, "use GET\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, "see /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
    );
    response
}
