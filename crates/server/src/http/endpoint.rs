//! One connection while it speaks HTTP.

use std::{
    cell::Cell,
    future::poll_fn,
    net::IpAddr,
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hikyaku_observe::Statements;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;

use super::{
    Cors, IntoResponse, Problem, Request, Response,
    form::Wanted,
    owed::Owed,
    paced::{Pace, Paced},
    patience::Borne,
    recorded::{Record, Recorded},
    request_id::{self, RequestName},
    route::Found,
    site::{Answer, Site, text},
};
use crate::{
    ServerConfig,
    address::{AddressCounts, AddressPermit, forwarded_client},
    plugin::{Call, CallFailure, HandlerId},
    stream::Stream,
    worker::Worker,
};

/// Bytes of a request's head. hyper takes no less than 8 kB.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Requests that one connection of HTTP/2 may have under way; what browsers use at most.
const STREAMS_MAX: u32 = 100;
/// Bytes of an answer in HTTP/2 that wait for the client.
const SEND_BYTES_MAX: usize = 64 * 1024;

/// A connection that has become a WebSocket; nothing of HTTP is left.
#[derive(Debug)]
pub(crate) struct Upgraded {
    pub(crate) stream: Stream,
    /// What the client has sent already. A copy: the bytes themselves would keep hyper's whole
    /// buffer alive.
    pub(crate) received: Vec<u8>,
    /// The client, as far as we can know.
    pub(crate) client: IpAddr,
    pub(crate) permit: Option<AddressPermit>,
    /// The line of the access log that tells its end.
    pub(crate) record: Option<Record>,
}

/// Speaks HTTP until the client upgrades (or goes away, or does nothing for too long: `None`).
pub(crate) async fn serve(
    worker: &Rc<Worker>,
    stream: Stream,
    peer: IpAddr,
    permit: Option<AddressPermit>,
) -> Option<Upgraded> {
    let config = &worker.shared.config;
    let endpoint = Endpoint {
        worker,
        peer,
        behind_proxy: config
            .trusted_proxies
            .iter()
            .any(|range| range.contains(peer)),
        permit: Cell::new(permit),
        upgraded: Cell::new(None),
        opened: Cell::new(None),
        borne: None,
    };
    if stream.speaks_http_2() {
        serve_http_2(&endpoint, stream, &Pace::new(worker.now())).await;
        return None;
    }
    let bearing = worker.borne.bear(worker.now());
    let borne = &bearing.borne;
    let endpoint = Endpoint {
        borne: Some(Rc::clone(borne)),
        ..endpoint
    };
    let mut connection = http1::Builder::new()
        // The worker looks after that for all connections together.
        .header_read_timeout(None)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(
            TokioIo::new(Paced::new(stream, worker, &borne.pace)),
            service_fn(|request| endpoint.answer(request)),
        );
    let mut told = false;
    let ended = poll_fn(|cx| {
        borne.is_served_by(cx);
        loop {
            if let Poll::Ready(ended) = connection.poll_without_shutdown(cx) {
                return Poll::Ready(Some(ended));
            }
            if borne.is_overdue(worker.now(), &worker.patience) {
                return Poll::Ready(None);
            }
            if told || !borne.is_draining() {
                return Poll::Pending;
            }
            told = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
    });
    let Some(ended) = ended.await else {
        tracing::debug!(%peer, "http connection closed: nothing moves");
        return None;
    };
    ended
        .inspect_err(|error| tracing::debug!(%peer, %error, "http connection failed"))
        .ok()?;
    let parts = connection.into_parts();
    let mut stream = parts.io.into_inner().into_inner();
    let Some(client) = endpoint.upgraded.get() else {
        if stream.is_encrypted() {
            // Without a goodbye the client could not tell an answer's end from somebody who cut it.
            let _ = tokio::time::timeout(config.close_timeout, stream.shutdown()).await;
        }
        return None;
    };
    Some(Upgraded {
        client,
        stream,
        received: parts.read_buf.to_vec(),
        permit: endpoint.permit.take(),
        record: endpoint.opened.take(),
    })
}

/// Speaks HTTP/2 until the client goes away or nothing moves for too long.
async fn serve_http_2(endpoint: &Endpoint<'_>, stream: Stream, pace: &Pace) {
    let (worker, peer) = (endpoint.worker, endpoint.peer);
    let owed = Owed::new(worker);
    let connection = http2::Builder::new(OnThisWorker)
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .max_send_buf_size(SEND_BYTES_MAX)
        .serve_connection(
            TokioIo::new(Paced::new(stream, worker, pace)),
            service_fn(|request| {
                let (answer, owed) = (endpoint.answer(request), Rc::clone(&owed));
                async move { answer.await.map(|response| owed.watch(response)) }
            }),
        );
    let mut connection = pin!(connection);
    let mut draining = worker.phase();
    let mut told = false;
    let ended = loop {
        tokio::select! {
            biased;
            ended = &mut connection => break ended,
            () = draining.begin_to_drain(), if !told => {
                told = true;
                connection.as_mut().graceful_shutdown();
            }
            () = worker.silence_of(&pace.moved) => {
                tracing::debug!(%peer, "http connection closed: nothing moves");
                return;
            }
            () = worker.silence_of(&owed.moved) => {
                if !owed.is_settled() {
                    tracing::debug!(%peer, "http connection closed: answers are not taken");
                    return;
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "http connection failed");
    }
}

/// Runs what answers the requests of HTTP/2 on the thread that accepted them.
#[derive(Debug, Clone, Copy)]
struct OnThisWorker;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for OnThisWorker {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

/// What answers the requests of one connection.
struct Endpoint<'a> {
    worker: &'a Rc<Worker>,
    peer: IpAddr,
    /// The peer speaks for others.
    behind_proxy: bool,
    permit: Cell<Option<AddressPermit>>,
    /// The client that has become a WebSocket.
    upgraded: Cell<Option<IpAddr>>,
    /// What the access log will tell of its end.
    opened: Cell<Option<Record>>,
    /// The connection, as the worker sees it, if it speaks HTTP/1.1.
    borne: Option<Rc<Borne>>,
}

impl Endpoint<'_> {
    fn answer(&self, request: http::Request<Incoming>) -> Recorded {
        let headers = request.headers();
        let id = self.name(headers);
        let record = self.worker.shared.config.access_log.as_ref();
        let record = record.map(|log| Record::of(log, &request, self.client(headers), &id));
        // In HTTP/1.1 hyper leaves the body away.
        let bare = request.method() == Method::HEAD && request.version() == Version::HTTP_2;
        let whole = http_body::Body::is_end_stream(request.body());
        let answering = match self.answering(request, id) {
            Begun::Answered(response) => Answering::Now(Some(response)),
            Begun::Called(mut called) => {
                // What is answered at once is gone before hyper reads on: its buffer is free again then.
                let mut polled = Poll::Pending;
                if let Some(borne) = self.borne.as_ref().filter(|_| whole) {
                    borne.during(|cx| polled = called.poll(cx));
                }
                match polled {
                    Poll::Ready(response) => Answering::Now(Some(response)),
                    Poll::Pending => Answering::Called(Box::new(called)),
                }
            }
        };
        if let Some(borne) = &self.borne {
            borne.has_request();
        }
        if let (Answering::Now(Some(response)), Some(record)) = (&answering, &record)
            && response.status() == StatusCode::SWITCHING_PROTOCOLS
        {
            self.opened.set(Some(record.of_its_end()));
        }
        Recorded {
            answering,
            bare,
            record,
            borne: self.borne.clone(),
        }
    }

    fn answering(&self, request: http::Request<Incoming>, id: RequestName) -> Begun {
        let shared = &self.worker.shared;
        let path = request.uri().path();
        let (wanted, hosts) = Wanted::and_hosts(request.method(), request.headers());
        if !may_name_hosts(hosts, request.version()) {
            let mut response = Problem::bad_request("name one `Host`").into_response();
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
            return Begun::answered(response, id);
        }
        // A WebSocket's client is told in its own words, once there is one.
        let is_told_there = path == "/" && Site::is_upgrade(&request);
        if !is_told_there && let Some(refusal) = self.refusal(&request) {
            return Begun::answered(refusal, id);
        }
        if shared.routes.is_empty() || path == "/" && Site::claims(&request) {
            return self.answer_for_the_relay(&request, id);
        }
        match shared.routes.find(request.method(), path) {
            Found::Nothing => self.answer_for_the_relay(&request, id),
            Found::Answer(mut response) => {
                if let Some(cors) = &shared.config.cors {
                    if request.method() == Method::OPTIONS {
                        Cors::answer_preflight(request.headers(), &mut response);
                    }
                    cors.complete(request.headers().get(header::ORIGIN), &mut response);
                }
                Begun::answered(response, id)
            }
            Found::Handler(handler, parameters, limits) => {
                let Some((called, handler)) = self.worker.plugins.hooks.routes.get(handler) else {
                    return self.answer_for_the_relay(&request, id);
                };
                let client = self.client(request.headers());
                let max = (limits.body_bytes_max).unwrap_or(shared.config.body_bytes_max);
                let cors = shared.config.cors.as_ref();
                let method = request.method().clone();
                let origin = cors.and_then(|_| request.headers().get(header::ORIGIN).cloned());
                let request = Request::new(request, parameters, client, id.clone(), max);
                let caller = &self.worker.plugins.caller;
                Begun::Called(Called {
                    worker: Rc::clone(self.worker),
                    handler: *called,
                    method,
                    statements: None,
                    id,
                    wanted,
                    origin,
                    call: caller.call_for(*called, handler(request), limits.timeout),
                })
            }
        }
    }

    fn answer_for_the_relay(&self, request: &http::Request<Incoming>, id: RequestName) -> Begun {
        let begun = Instant::now();
        let mut response = self.response_of_the_relay(request);
        let upgrades = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if !upgrades {
            let wanted = Wanted::of(request.method(), request.headers());
            Wanted::shape(wanted.as_deref(), &mut response);
        }
        let route = match request.uri().path() {
            "/" if upgrades => "/ (WebSocket)",
            "/" => "/",
            _ => "(no such route)",
        };
        let failed = response.status().is_server_error();
        let requests = &self.worker.requests;
        requests.http(request.method(), route, begun.elapsed(), failed, None);
        if upgrades {
            Begun::Answered(response)
        } else {
            Begun::answered(response, id)
        }
    }

    /// Returns what a client hears whose address is kept out.
    fn refusal(&self, request: &http::Request<Incoming>) -> Option<Response> {
        let reason = self.worker.ban_of(self.client(request.headers()), &[])?;
        let begun = Instant::now();
        let detail = format!("blocked: {reason}");
        let mut response = Problem::new(StatusCode::FORBIDDEN, detail).into_response();
        if request.uri().path() == "/" {
            // As all that the relay itself says.
            let all = HeaderValue::from_static("*");
            let headers = response.headers_mut();
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, all);
        } else if let Some(cors) = &self.worker.shared.config.cors {
            cors.complete(request.headers().get(header::ORIGIN), &mut response);
        }
        let requests = &self.worker.requests;
        requests.http(request.method(), "(banned)", begun.elapsed(), false, None);
        Some(response)
    }

    fn response_of_the_relay(&self, request: &http::Request<Incoming>) -> Response {
        let shared = &self.worker.shared;
        match shared.site.answer(request) {
            Answer::Respond(response) => response,
            Answer::Upgrade(response) => {
                let client = self.client(request.headers());
                if self.admit(client, &shared.addresses) {
                    let named = request.headers().contains_key("x-forwarded-for");
                    let arrivals = &shared.addresses.arrivals;
                    arrivals.note(client, named && !self.behind_proxy);
                    self.upgraded.set(Some(client));
                    response
                } else {
                    text(
                        StatusCode::TOO_MANY_REQUESTS,
                        "too many connections from your address\n",
                    )
                }
            }
        }
    }

    /// Returns the request's name: the one that a trusted proxy has given it, or a new one.
    fn name(&self, headers: &HeaderMap) -> RequestName {
        let given = self.behind_proxy.then(|| request_id::given(headers));
        given
            .flatten()
            .unwrap_or_else(|| self.worker.request_ids.make())
    }

    /// Finds out who the client is.
    fn client(&self, headers: &HeaderMap) -> IpAddr {
        if !self.behind_proxy {
            return self.peer;
        }
        let config: &ServerConfig = &self.worker.shared.config;
        let forwarded = headers.get_all("x-forwarded-for");
        forwarded_client(
            self.peer,
            &config.trusted_proxies,
            forwarded
                .iter()
                .map(|value| value.to_str().unwrap_or_default()),
        )
    }

    /// Counts a client's connection. Where the peer itself is the client it has been counted before
    /// it said anything.
    fn admit(&self, client: IpAddr, counts: &Arc<AddressCounts>) -> bool {
        if !self.behind_proxy {
            return true;
        }
        let permit = counts.enter(client);
        let admitted = permit.is_some();
        self.permit.set(permit);
        admitted
    }
}

/// Tells whether a request may name so many hosts (RFC 9112 section 3.2): what another server on the way
/// could read otherwise is for nobody. HTTP/1.0 need not name one, HTTP/2 does it in the address.
fn may_name_hosts(hosts: usize, version: Version) -> bool {
    hosts == 1 || hosts == 0 && version != Version::HTTP_11
}

/// An answer that is there, or a handler that is to make it.
enum Begun {
    Answered(Response),
    Called(Called),
}

impl Begun {
    fn answered(mut response: Response, id: RequestName) -> Self {
        let headers = response.headers_mut();
        headers.insert(request_id::HEADER, id.into_value());
        Self::Answered(response)
    }
}

/// An answer that is there, or under way.
pub(super) enum Answering {
    Now(Option<Response>),
    /// Boxed: it is handed on, and is larger than an answer.
    Called(Box<Called>),
}

impl Answering {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Response> {
        match self {
            Self::Now(response) => Poll::Ready(response.take().unwrap_or_default()),
            Self::Called(called) => called.poll(cx),
        }
    }
}

/// A handler's call, what is to be taken down of it, and put on its answer.
pub(super) struct Called {
    call: Call<Response>,
    worker: Rc<Worker>,
    handler: HandlerId,
    method: Method,
    statements: Option<Box<Statements>>,
    id: RequestName,
    wanted: Option<Box<Wanted>>,
    /// Whose page has asked, if that matters.
    origin: Option<HeaderValue>,
}

impl Called {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Response> {
        let Self { call, id, .. } = self;
        let statements = &mut self.statements;
        let mut polled = Poll::Pending;
        request_id::during(id, || {
            Statements::within(statements, || polled = Pin::new(call).poll(cx));
        });
        let mut response = match polled {
            Poll::Ready(Ok(response)) => response,
            Poll::Ready(Err(failure)) => refusal(failure),
            Poll::Pending => return Poll::Pending,
        };
        self.complete(&mut response);
        Poll::Ready(response)
    }

    fn complete(&self, response: &mut Response) {
        if response.body().whole().is_none() {
            let body = std::mem::take(response.body_mut());
            let caller = &self.worker.plugins.caller;
            *response.body_mut() = body.watched(caller, self.handler);
        }
        Wanted::shape(self.wanted.as_deref(), response);
        if let Some(cors) = &self.worker.shared.config.cors {
            cors.complete(self.origin.as_ref(), response);
        }
        let headers = response.headers_mut();
        headers.insert(request_id::HEADER, self.id.clone().into_value());
        self.take_down(self.call.took(), response.status().is_server_error());
    }

    fn take_down(&self, took: Duration, failed: bool) {
        let place = usize::from(self.handler.0);
        let name = self.worker.shared.handlers.names.get(place);
        let route = name.map_or("(a route)", |name| name.task.as_str());
        let requests = &self.worker.requests;
        let statements = self.statements.as_deref();
        requests.route(place, &self.method, route, took, failed, statements);
    }
}

/// Returns what a client hears whose request's handler has failed.
fn refusal(failure: CallFailure) -> Response {
    let (status, detail) = match failure {
        CallFailure::Panicked => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "the server has failed; its operator can read why",
        ),
        CallFailure::TooSlow => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the answer took too long, try again later",
        ),
    };
    Problem::new(status, detail).into_response()
}
