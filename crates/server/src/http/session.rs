//! Who a request is from: by the session that its browser has begun, or by its own signature.

use std::{net::IpAddr, time::Duration};

use hikyaku_event::{PublicKey, Timestamp};
use hikyaku_relay::RelayUrls;
use hikyaku_store::SessionId;
use http::{HeaderMap, HeaderName, Method, StatusCode, header};

use super::{
    Problem, Request,
    signed::{is_our_authority, is_signed},
};
use crate::{
    clock::unix_now,
    sessions::{Sessions, Token},
    worker::Worker,
};

/// The cookie's name where the server is reached by TLS. The prefix has browsers refuse it from anybody
/// but this very host (RFC 6265bis).
const NAME_WITH_TLS: &str = "__Host-hikyaku-session";
/// The cookie's name where it is not.
const NAME: &str = "hikyaku-session";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A session of a browser: somebody has logged in there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session(Token);

impl Session {
    /// Returns whose it is.
    pub fn key(&self) -> PublicKey {
        self.0.key
    }

    /// Returns its name, by which it can be revoked.
    pub fn id(&self) -> SessionId {
        self.0.id
    }

    /// Returns when it ends (Unix seconds).
    pub fn ends_at(&self) -> Timestamp {
        self.0.ends_at
    }

    pub(super) fn new(token: Token) -> Self {
        Self(token)
    }
}

impl Request {
    /// Returns the session that the request's cookie is of. Refused are whoever has none, or one that
    /// has ended or was revoked (401), a client that is banned (403), and requests to change something
    /// (all methods but GET, HEAD and OPTIONS) that another site may have had the browser send (403):
    /// browsers say where a request is from, in `Sec-Fetch-Site` or `Origin`.
    ///
    /// It costs a look into memory. What a handler answers by it is for this browser alone: it should
    /// say `Cache-Control: private` or `no-store`.
    pub fn session(&self) -> Result<Session, Problem> {
        Worker::with_current(|worker| {
            let sessions = worker.shared.config.sessions.as_ref();
            let sessions = sessions.ok_or_else(no_sessions)?;
            let urls = &worker.shared.relay.urls;
            let session = session_of(self.headers(), sessions, urls, unix_now())?;
            if !is_safe(self.method()) && site(self.headers(), urls) != Site::Ours {
                return Err(Problem::new(
                    StatusCode::FORBIDDEN,
                    "the request does not say that it is from a page of this site \
                     (`Sec-Fetch-Site` or `Origin`)",
                ));
            }
            refuse_banned(worker, self.client_address(), &session.key())?;
            Ok(session)
        })
        .unwrap_or_else(|| Err(no_sessions()))
    }

    /// Returns the key that the request is from: the one that has signed it ([`Request::signer`]), or
    /// if it is not signed, the one whose [session](Request::session) it has. Reads the body of a
    /// signed request.
    pub async fn member(&mut self) -> Result<PublicKey, Problem> {
        // A proxy before the site may have words of its own with the browser there.
        if is_signed(self.headers()) {
            return self.signer().await;
        }
        Ok(self.session()?.key())
    }

    /// Refuses a request that says itself that another site has had the browser send it.
    pub(super) fn refuse_other_sites(&self) -> Result<(), Problem> {
        let site = Worker::with_current(|worker| {
            let urls = &worker.shared.relay.urls;
            site(self.headers(), urls)
        });
        if site == Some(Site::Another) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "the request is from a page of another site",
            ));
        }
        Ok(())
    }
}

pub(super) fn no_sessions() -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "this server has no sessions")
}

/// Refuses a client that is kept out.
pub(super) fn refuse_banned(
    worker: &Worker,
    address: IpAddr,
    key: &PublicKey,
) -> Result<(), Problem> {
    match worker.ban_of(address, &[*key]) {
        Some(reason) => Err(Problem::new(
            StatusCode::FORBIDDEN,
            format!("you are banned: {reason}"),
        )),
        None => Ok(()),
    }
}

fn session_of(
    headers: &HeaderMap,
    sessions: &Sessions,
    urls: &RelayUrls,
    now: Timestamp,
) -> Result<Session, Problem> {
    let text = cookie(headers, name(urls));
    let text = text.ok_or_else(|| Problem::new(StatusCode::UNAUTHORIZED, "log in first"))?;
    let token = sessions.check(text, now);
    token.map(Session).ok_or_else(|| {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "the session has ended; log in again",
        )
    })
}

/// Tells whether a method changes nothing (RFC 9110 section 9.2.1).
pub(super) fn is_safe(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS].contains(method)
}

/// Whose page a browser has sent a request for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Site {
    /// One of ours, or nobody's: the person in front of it has asked for it.
    Ours,
    /// It is not said: no browser, or an old one.
    Unknown,
    Another,
}

fn site(headers: &HeaderMap, urls: &RelayUrls) -> Site {
    // What a page can't set decides, if it is there.
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return match site.as_bytes() {
            b"same-origin" | b"none" => Site::Ours,
            _ => Site::Another,
        };
    }
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Site::Unknown;
    };
    let origin = origin.to_str().ok().and_then(|text| text.split_once("://"));
    match origin {
        Some((scheme, authority)) if is_our_authority(scheme, authority, urls) => Site::Ours,
        _ => Site::Another,
    }
}

fn has_tls(urls: &RelayUrls) -> bool {
    urls.canonical().starts_with("wss:")
}

fn name(urls: &RelayUrls) -> &'static str {
    if has_tls(urls) { NAME_WITH_TLS } else { NAME }
}

/// Finds a cookie's value. HTTP/2 may spread cookies over several headers.
fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b';'))
        .map(<[u8]>::trim_ascii)
        .find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// Returns what has a browser keep a session's text, or with an empty text forget it.
pub(super) fn set_cookie(text: &str, lifetime: Duration, urls: &RelayUrls) -> String {
    let secure = if has_tls(urls) { "; Secure" } else { "" };
    format!(
        "{}={text}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax{secure}",
        name(urls),
        lifetime.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(list: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        for (list, expected) in [
            (&["hikyaku-session=x"][..], Some("x")),
            (&["a=1; hikyaku-session=x; b=2"], Some("x")),
            (&["a=1;hikyaku-session=x"], Some("x")),
            (&["a=1", "hikyaku-session=x"], Some("x")),
            (&["hikyaku-session="], Some("")),
            (&["hikyaku-session"], None),
            (&["my-hikyaku-session=x"], None),
            (&["hikyaku-sessions=x"], None),
            (&[""], None),
            (&[], None),
        ] {
            let list: Vec<_> = list.iter().map(|text| (header::COOKIE, *text)).collect();
            let headers = headers(&list);
            let found = cookie(&headers, NAME);
            assert_eq!(found, expected.map(str::as_bytes), "{headers:?}");
        }
    }

    #[test]
    fn a_page_of_another_site_is_known_by_what_the_browser_says() {
        let urls = RelayUrls::public("wss://relay.example.com/nostr").unwrap();
        let ours = "https://relay.example.com";
        for (list, expected) in [
            (&[][..], Site::Unknown),
            (&[(SEC_FETCH_SITE, "same-origin")], Site::Ours),
            (&[(SEC_FETCH_SITE, "none")], Site::Ours),
            (&[(SEC_FETCH_SITE, "same-site")], Site::Another),
            (&[(SEC_FETCH_SITE, "cross-site")], Site::Another),
            (&[(SEC_FETCH_SITE, "")], Site::Another),
            (
                &[(SEC_FETCH_SITE, "cross-site"), (header::ORIGIN, ours)],
                Site::Another,
            ),
            (&[(header::ORIGIN, ours)], Site::Ours),
            (
                &[(header::ORIGIN, "https://relay.example.com:443")],
                Site::Ours,
            ),
            (
                &[(header::ORIGIN, "https://relay.example.com:444")],
                Site::Another,
            ),
            (
                &[(header::ORIGIN, "http://relay.example.com")],
                Site::Another,
            ),
            (
                &[(header::ORIGIN, "wss://relay.example.com")],
                Site::Another,
            ),
            (
                &[(header::ORIGIN, "https://relay.example.com.evil.net")],
                Site::Another,
            ),
            (
                &[(header::ORIGIN, "https://relay.example.com/nostr")],
                Site::Another,
            ),
            (&[(header::ORIGIN, "null")], Site::Another),
            (&[(header::ORIGIN, "")], Site::Another),
        ] {
            assert_eq!(site(&headers(list), &urls), expected, "{list:?}");
        }
    }

    #[test]
    fn a_cookie_is_for_this_host_alone_and_by_tls_never_sent_without() {
        let hour = Duration::from_hours(1);
        let urls = RelayUrls::public("wss://relay.example.com").unwrap();
        assert_eq!(
            set_cookie("x", hour, &urls),
            "__Host-hikyaku-session=x; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax; Secure"
        );
        let urls = RelayUrls::listening(([127, 0, 0, 1], 7777).into());
        assert_eq!(
            set_cookie("", Duration::ZERO, &urls),
            "hikyaku-session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"
        );
    }
}
