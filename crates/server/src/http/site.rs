//! Which answer a request gets.

use std::sync::Arc;

use bytes::Bytes;
use hikyaku_members::Members;
use hikyaku_relay::RelayInformation;
use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode, Version,
    header::{self, HeaderName},
};

use super::{
    Body, Response,
    negotiation::list,
    page::{self, Figures},
};
use crate::{recorder::seen_today, websocket::accept_key};

/// Everything there is to be served, shared by all.
#[derive(Debug)]
pub(crate) struct Site {
    document: Bytes,
    information: RelayInformation,
    public_url: Option<String>,
    members: Option<Arc<Members>>,
}

/// The answer to a request.
pub(super) enum Answer {
    /// Send this.
    Respond(Response),
    /// Send this, and the connection is a WebSocket.
    Upgrade(Response),
}

impl Site {
    pub(crate) fn new(
        information: &RelayInformation,
        document: String,
        public_url: Option<String>,
        members: Option<Arc<Members>>,
    ) -> Self {
        Self {
            document: document.into(),
            information: information.clone(),
            public_url,
            members,
        }
    }

    /// Writes the page for people, with the figures of this moment.
    fn page(&self) -> Bytes {
        let figures = self.members.as_deref().map(|members| Figures {
            members: members.len() as u64,
            seen_today: seen_today(members),
        });
        page::render(&self.information, self.public_url.as_deref(), figures).into()
    }

    /// Tells whether a request to `/` is the relay's in any case: others may answer the rest.
    pub(super) fn claims<B>(request: &Request<B>) -> bool {
        *request.method() == Method::OPTIONS
            || Self::is_upgrade(request)
            || wants_information(request.headers())
    }

    /// Tells whether a request wants a WebSocket.
    pub(super) fn is_upgrade<B>(request: &Request<B>) -> bool {
        has_token(request.headers(), &header::UPGRADE, "websocket")
    }

    pub(super) fn answer<B>(&self, request: &Request<B>) -> Answer {
        if request.uri().path() != "/" {
            return Answer::Respond(text(
                StatusCode::NOT_FOUND,
                "there is nothing at this path\n",
            ));
        }
        if Self::is_upgrade(request) {
            return upgrade(request);
        }
        Answer::Respond(match *request.method() {
            Method::OPTIONS => respond(StatusCode::NO_CONTENT, "text/plain", Bytes::new()),
            Method::GET | Method::HEAD if wants_information(request.headers()) => respond(
                StatusCode::OK,
                "application/nostr+json",
                self.document.clone(),
            ),
            Method::GET | Method::HEAD => {
                let mut page = respond(StatusCode::OK, "text/html; charset=utf-8", self.page());
                page.headers_mut().insert(
                    header::CONTENT_SECURITY_POLICY,
                    HeaderValue::from_static(page::CONTENT_SECURITY_POLICY),
                );
                page
            }
            _ => {
                let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
                refusal.headers_mut().insert(
                    header::ALLOW,
                    HeaderValue::from_static("GET, HEAD, OPTIONS"),
                );
                refusal
            }
        })
    }
}

/// Answers the opening handshake (RFC 6455 section 4.2).
fn upgrade<B>(request: &Request<B>) -> Answer {
    let headers = request.headers();
    if headers
        .get(header::SEC_WEBSOCKET_VERSION)
        .map(HeaderValue::as_bytes)
        != Some(b"13")
    {
        let mut refusal = text(StatusCode::UPGRADE_REQUIRED, "use WebSocket version 13\n");
        refusal.headers_mut().insert(
            header::SEC_WEBSOCKET_VERSION,
            HeaderValue::from_static("13"),
        );
        return Answer::Respond(refusal);
    }
    let accept = headers
        .get(header::SEC_WEBSOCKET_KEY)
        .filter(|_| request.method() == Method::GET && request.version() == Version::HTTP_11)
        .filter(|_| has_token(headers, &header::CONNECTION, "upgrade"))
        .and_then(|key| accept_key(key.as_bytes()))
        .and_then(|accept| HeaderValue::try_from(accept).ok());
    let Some(accept) = accept else {
        let refusal = text(StatusCode::BAD_REQUEST, "not a WebSocket handshake\n");
        return Answer::Respond(refusal);
    };
    let mut response = Response::new(Body::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().extend([
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::CONNECTION, HeaderValue::from_static("Upgrade")),
        (header::SEC_WEBSOCKET_ACCEPT, accept),
    ]);
    Answer::Upgrade(response)
}

/// Tells whether a comma-separated header has the token, in any case.
fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|part| part.trim().eq_ignore_ascii_case(token))
}

fn wants_information(headers: &HeaderMap) -> bool {
    list(headers, &header::ACCEPT)
        .any(|(media, weight)| weight > 0 && media.eq_ignore_ascii_case("application/nostr+json"))
}

pub(super) fn text(status: StatusCode, body: &'static str) -> Response {
    respond(
        status,
        "text/plain; charset=utf-8",
        Bytes::from_static(body.as_bytes()),
    )
}

/// Makes a response that pages of any origin may read, as NIP-11 demands.
fn respond(status: StatusCode, content_type: &'static str, body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().extend(
        [
            (header::CONTENT_TYPE, content_type),
            (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, "*"),
            (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, OPTIONS"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            // Caches must not mix up what the address shows to browsers and to clients.
            (header::VARY, "Accept"),
        ]
        .map(|(name, value)| (name, HeaderValue::from_static(value))),
    );
    response
}
