//! Requests that are written to the access log: what is known when they come, and what their answer's
//! body then turns out to be.

use std::{
    convert::Infallible,
    net::IpAddr,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Instant,
};

use bytes::Bytes;
use http::{HeaderName, Version, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::{Body, Response, endpoint::Answering, patience::Borne, request_id::RequestName};
use crate::{
    access_log::{AccessLog, Line, shortened},
    clock::unix_now_us,
};

/// A line that is written when this is dropped.
#[derive(Debug)]
pub(crate) struct Record {
    log: AccessLog,
    came: Instant,
    /// Taken when it is written.
    line: Option<Box<Line>>,
}

impl Record {
    /// Begins the line of a request.
    pub(super) fn of(
        log: &AccessLog,
        request: &http::Request<Incoming>,
        client: IpAddr,
        id: &RequestName,
    ) -> Self {
        let text = |name: HeaderName| Some(request.headers().get(name)?.as_bytes());
        let referer = text(header::REFERER).map(|text| {
            let end = text.iter().position(|byte| b"?#".contains(byte));
            shortened(end.and_then(|end| text.get(..end)).unwrap_or(text))
        });
        let line = Line {
            came_us: unix_now_us(),
            client: client.to_canonical(),
            method: shortened(request.method().as_str().as_bytes()),
            path: shortened(request.uri().path().as_bytes()),
            protocol: match request.version() {
                Version::HTTP_10 => "HTTP/1.0",
                Version::HTTP_2 => "HTTP/2.0",
                _ => "HTTP/1.1",
            },
            status: 0,
            bytes: 0,
            took: std::time::Duration::ZERO,
            referer,
            agent: text(header::USER_AGENT).map(shortened),
            id: shortened(id.as_bytes()),
        };
        Self {
            log: log.clone(),
            came: Instant::now(),
            line: Some(Box::new(line)),
        }
    }

    /// Begins the line that tells a WebSocket's end.
    pub(super) fn of_its_end(&self) -> Self {
        let line = self.line.clone().map(|mut line| {
            line.protocol = "WebSocket";
            line.status = http::StatusCode::SWITCHING_PROTOCOLS.as_u16();
            line
        });
        Self {
            log: self.log.clone(),
            came: self.came,
            line,
        }
    }

    /// Says how many bytes have been sent.
    pub(crate) fn sent(&mut self, bytes: u64) {
        if let Some(line) = &mut self.line {
            line.bytes = bytes;
        }
    }

    /// Has the line written when the answer has been sent, or cannot be.
    fn follow(mut self, response: Response) -> Response {
        if let Some(line) = &mut self.line {
            line.status = response.status().as_u16();
        }
        let mut bytes = 0;
        response.map(|body| {
            Body::new(body.inspect_frame(move |frame| {
                bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
                self.sent(bytes);
            }))
        })
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Some(mut line) = self.line.take() {
            line.took = self.came.elapsed();
            self.log.take(line);
        }
    }
}

/// An answer that is written down if there is a log. One whose client goes away before it is there has
/// the status 0.
pub(super) struct Recorded {
    pub(super) answering: Answering,
    /// The answer's head is wanted, without its body.
    pub(super) bare: bool,
    pub(super) record: Option<Record>,
    /// The connection that awaits the next request when this one is answered.
    pub(super) borne: Option<Rc<Borne>>,
}

impl Future for Recorded {
    type Output = Result<Response, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut response = ready!(self.answering.poll(cx));
        if self.bare {
            take_body(&mut response);
        }
        if let Some(record) = self.record.take() {
            response = record.follow(response);
        }
        if let Some(borne) = self.borne.take() {
            borne.hand_over(&mut response);
        }
        Poll::Ready(Ok(response))
    }
}

/// Leaves an answer's head, which tells the length of the body that it would have had.
fn take_body(response: &mut Response) {
    let body = std::mem::take(response.body_mut());
    if let Some(length) = http_body::Body::size_hint(&body).exact() {
        let told = response.headers_mut().entry(header::CONTENT_LENGTH);
        told.or_insert(length.into());
    }
}
