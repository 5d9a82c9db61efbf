//! Requests that a Nostr key has signed (NIP-98).

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use data_encoding::BASE64_NOPAD;
use hikyaku_event::{Event, EventId, PublicKey, Timestamp};
use hikyaku_relay::RelayUrls;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use sha2::{Digest, Sha256};

use super::{
    Problem, Request,
    session::{is_safe, refuse_banned},
};
use crate::{clock::unix_now, neighbours, worker::Worker};

/// The kind of such an event.
const KIND: u16 = 27235;

/// How far its time may be from ours, in seconds.
const WINDOW_SECONDS: u64 = 60;

/// Events that are remembered: 1,000 logins a second. Those of one address are limited far below that.
const REMEMBERED_MAX: usize = 120_000;

impl Request {
    /// Returns the key that has signed this very request: an event of kind 27235 in `Authorization:
    /// Nostr <base64>`, with this address, this method, this body (`payload`), and a time within 60
    /// seconds of ours. Whoever has not signed is refused (401).
    ///
    /// An event is good for one request that changes something (docs/http.md says what that means for
    /// several nodes), and not if it is from before this server's start, which does not remember what was
    /// used then. It is good for any number of the same GET or HEAD within its time: two of one second
    /// can't be signed differently.
    ///
    /// The address must be the relay's own (`public_url`; without one, the listen address or localhost),
    /// with `http` for `ws` and `https` for `wss`. The `Host` header is not believed: a request that was
    /// signed for another server could be passed on to this one.
    ///
    /// A body is read here, and kept for [`json`](Self::json) and [`bytes`](Self::bytes).
    ///
    /// A banned key or address is refused (403). Each try takes one event of what the client's address
    /// may publish (429).
    pub async fn signer(&mut self) -> Result<PublicKey, Problem> {
        let header = self.headers().get(header::AUTHORIZATION);
        let event = event_of(header).map_err(refusal)?;
        let body = self.read().await?;
        let signed = SignedRequest {
            method: self.method(),
            uri: self.uri(),
            body: &body,
        };
        let client = self.client_address();
        Worker::with_current(|worker| {
            let (shared, now) = (&worker.shared, unix_now());
            let checked = signed.check(&event, &shared.relay.urls, now);
            checked.map_err(refusal)?;
            let rated = shared.rates.event_from(shared.rates.enter(client));
            rated.map_err(|seconds| {
                let detail = format!("too many from your address; try again in {seconds} s");
                Problem::new(StatusCode::TOO_MANY_REQUESTS, detail)
            })?;
            let verified = event
                .verify_id()
                .and_then(|()| worker.verifier.borrow_mut().verify(&event));
            verified.map_err(|_| refusal("the event's signature is wrong"))?;
            refuse_banned(worker, client, &event.pubkey())?;
            if is_safe(self.method()) {
                return Ok(event.pubkey());
            }
            if shared.signed_once.may_have_forgotten(event.created_at()) {
                return Err(refusal(
                    "the event is from before this server's start; sign another one",
                ));
            }
            match shared.signed_once.note(event.id(), now) {
                Noted::First => {
                    if let Some(neighbours) = &shared.neighbours {
                        neighbours::tell_used(&**neighbours, event.id());
                    }
                    Ok(event.pubkey())
                }
                Noted::Again => Err(refusal("the event has been used already; sign another one")),
                Noted::NoRoom => Err(Problem::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "too many sign requests just now; try again in a minute",
                )),
            }
        })
        .unwrap_or_else(|| Err(refusal("it can't be checked here")))
    }
}

fn refusal(reason: &'static str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, reason)
}

/// What an event must be about.
struct SignedRequest<'a> {
    method: &'a Method,
    uri: &'a Uri,
    body: &'a [u8],
}

impl SignedRequest<'_> {
    /// Says what is wrong with an event, but for its signature.
    fn check(&self, event: &Event, urls: &RelayUrls, now: Timestamp) -> Result<(), &'static str> {
        let value = |name: &str| {
            let mut named = event.tags().filter(|tag| tag.name() == name);
            named.next().and_then(|tag| tag.value())
        };
        if event.kind().0 != KIND {
            return Err("the event is not of kind 27235 (NIP-98)");
        }
        if event.created_at().abs_diff(now) > WINDOW_SECONDS {
            return Err("the event's time is too far from this server's clock");
        }
        if !value("u").is_some_and(|url| self.is_at(&url, urls)) {
            return Err("the event's `u` is not the address of this request");
        }
        let same_method = |method: &str| method.eq_ignore_ascii_case(self.method.as_str());
        if !value("method").is_some_and(|method| same_method(&method)) {
            return Err("the event's `method` is not this request's");
        }
        let hash = || data_encoding::HEXLOWER.encode(&Sha256::digest(self.body));
        match value("payload") {
            None if self.body.is_empty() => Ok(()),
            None => Err("the event has no `payload`, the SHA-256 of the body"),
            Some(payload) if payload.eq_ignore_ascii_case(&hash()) => Ok(()),
            Some(_) => Err("the event's `payload` is not the SHA-256 of the body"),
        }
    }

    /// Tells whether an address is ours, with the path and parameters of this request.
    fn is_at(&self, url: &str, urls: &RelayUrls) -> bool {
        let Some((scheme, rest)) = url.split_once("://") else {
            return false;
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let target = if target.is_empty() { "/" } else { target };
        let ours = self
            .uri
            .path_and_query()
            .map_or("/", |target| target.as_str());
        target == ours && is_our_authority(&scheme.to_ascii_lowercase(), authority, urls)
    }
}

/// Tells whether a host and port mean this server, by `http` or `https` as its clients know it.
pub(super) fn is_our_authority(scheme: &str, authority: &str, urls: &RelayUrls) -> bool {
    let scheme = match scheme {
        "http" => "ws",
        "https" => "wss",
        _ => return false,
    };
    // The relay itself may be below a path of its address; its routes are not.
    let canonical = urls.canonical();
    let host = canonical.find("://").map_or(0, |at| at + 3);
    let path = canonical.get(host..).and_then(|rest| rest.find('/'));
    let path = path.and_then(|at| canonical.get(host + at..)).unwrap_or("");
    !authority.contains(['/', '?', '#']) && urls.names_us(&format!("{scheme}://{authority}{path}"))
}

/// Reads the event that a header carries.
fn event_of(header: Option<&HeaderValue>) -> Result<Event, &'static str> {
    const MISSING: &str = "sign the request: `Authorization: Nostr <base64 of an event>` (NIP-98)";
    let text = header
        .and_then(|value| value.to_str().ok())
        .ok_or(MISSING)?;
    let token = token_of(text).ok_or(MISSING)?;
    // Not everybody pads.
    let json = BASE64_NOPAD
        .decode(token.trim().trim_end_matches('=').as_bytes())
        .map_err(|_| "what follows `Nostr` is no base64")?;
    Event::parse(&json).map_err(|_| "what follows `Nostr` is no event")
}

fn token_of(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("nostr").then_some(token)
}

/// Tells whether a request says that a Nostr key has signed it.
pub(super) fn is_signed(headers: &HeaderMap) -> bool {
    let header = headers.get(header::AUTHORIZATION);
    let text = header.and_then(|value| value.to_str().ok());
    text.is_some_and(|text| token_of(text).is_some())
}

/// Adds what a refusal for want of a signature must say.
pub(super) fn add_challenge(headers: &mut HeaderMap) {
    headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Nostr"));
}

/// What became of noting an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noted {
    First,
    /// It has been used already.
    Again,
    /// Too many are remembered. Nobody gets in by driving others out.
    NoRoom,
}

/// The events that have been used, for as long as they could be used again.
#[derive(Debug)]
pub(crate) struct SignedOnce {
    /// What was used before, nobody here remembers.
    since: Timestamp,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    events: HashMap<EventId, Timestamp>,
    /// When those that can't be used again were last looked for.
    swept_at: Timestamp,
}

impl SignedOnce {
    /// Begins to remember.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            since: now,
            used: Mutex::default(),
        }
    }

    /// Tells whether an event of that time may have been used without being remembered here.
    fn may_have_forgotten(&self, created_at: Timestamp) -> bool {
        created_at < self.since
    }

    /// Notes an event.
    pub(crate) fn note(&self, event: EventId, now: Timestamp) -> Noted {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.events.len() >= REMEMBERED_MAX && used.swept_at != now {
            used.swept_at = now;
            // An event may be from a window ahead, and be used until a window later.
            used.events.retain(|_, at| now <= *at + 2 * WINDOW_SECONDS);
        }
        if used.events.contains_key(&event) {
            return Noted::Again;
        }
        if used.events.len() >= REMEMBERED_MAX {
            return Noted::NoRoom;
        }
        used.events.insert(event, now);
        Noted::First
    }
}

#[cfg(test)]
mod tests {
    use hikyaku_event::testing::{Author, EventBuilder};

    use super::*;

    const NOW: Timestamp = 1_700_000_000;

    fn event(tags: &[[&str; 2]]) -> EventBuilder {
        let event = EventBuilder::new(KIND).created_at(NOW);
        tags.iter().fold(event, |event, tag| event.tag(*tag))
    }

    fn check(event: &EventBuilder, body: &[u8]) -> Result<(), &'static str> {
        let urls = RelayUrls::public("wss://relay.example.com/nostr").unwrap();
        let uri = "/api/a%20b?x=1".parse().unwrap();
        let signed = SignedRequest {
            method: &Method::POST,
            uri: &uri,
            body,
        };
        signed.check(&event.sign(&Author::new(1)), &urls, NOW)
    }

    #[test]
    fn an_event_must_be_about_this_very_request() {
        let url = "https://relay.example.com/api/a%20b?x=1";
        let hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let good = [["u", url], ["method", "post"], ["payload", hash]];
        check(&event(&good), b"hello").unwrap();
        check(&event(&good).created_at(NOW - 60), b"hello").unwrap();
        check(&event(&good[..2]), b"").unwrap();
        let shouted = url.replace("https", "HTTPS");
        check(&event(&[["u", &shouted], ["method", "post"]]), b"").unwrap();
        for (event, body, word) in [
            (event(&good[..2]), &b"hello"[..], "payload"),
            (event(&good), b"hullo", "payload"),
            (event(&good).created_at(NOW - 61), b"hello", "time"),
            (event(&good).created_at(NOW + 61), b"hello", "time"),
            (event(&good[..1]), b"", "method"),
            (event(&[["u", url], ["method", "PUT"]]), b"", "method"),
            (event(&good[1..]), b"hello", "`u`"),
        ] {
            let said = check(&event, body).unwrap_err();
            assert!(said.contains(word), "{said}");
        }
        for other in [
            "https://relay.example.com/api/a%20b",
            "https://relay.example.com/api/a%20b?x=2",
            "https://relay.example.com.evil.net/api/a%20b?x=1",
            "HTTPS://relay.example.com.evil.net/api/a%20b?x=1",
            "https://relay.example.com:444/api/a%20b?x=1",
            "http://relay.example.com/api/a%20b?x=1",
            "wss://relay.example.com/api/a%20b?x=1",
            "/api/a%20b?x=1",
            "",
        ] {
            let said = check(&event(&[["u", other], ["method", "POST"]]), b"").unwrap_err();
            assert!(said.contains("`u`"), "{other}: {said}");
        }
    }

    #[test]
    fn what_was_used_is_remembered_as_long_as_it_could_be_used() {
        let used = SignedOnce::new(NOW);
        let id = |n: usize| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&n.to_le_bytes());
            EventId::new(bytes)
        };
        assert_eq!(used.note(id(0), NOW), Noted::First);
        assert_eq!(used.note(id(0), NOW + 1), Noted::Again);
        for n in 1..REMEMBERED_MAX {
            assert_eq!(used.note(id(n), NOW), Noted::First);
        }
        let later = NOW + 2 * WINDOW_SECONDS;
        assert_eq!(used.note(id(REMEMBERED_MAX), later), Noted::NoRoom);
        assert_eq!(used.note(id(0), later), Noted::Again);
        assert_eq!(used.note(id(REMEMBERED_MAX), later + 1), Noted::First);
    }
}
