//! Where browsers log in and out: routes of a plugin that the server registers by itself.

use std::sync::LazyLock;

use data_encoding::BASE64;
use hikyaku_event::PublicKey;
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{
    Html, IntoResponse, Json, Problem, Request, Response, Session, delete, get,
    page::STYLE,
    post,
    session::{no_sessions, set_cookie},
};
use crate::{
    PluginList, Server,
    plugin::{With, blocking},
    recorder::Observation,
    sessions::{SessionError, Sessions, WhoseSessions},
    worker::Worker,
};

/// The plugin.
pub(crate) struct Login(Sessions);

/// Adds the routes of sessions.
pub(crate) fn with_login<Plugins: PluginList>(
    server: Server<Plugins>,
    sessions: Sessions,
) -> Server<With<Login, Plugins>> {
    let path = sessions.options().path.clone();
    server
        .plugin(async move |_| Ok(Login(sessions)))
        .route(get(path.clone()), async |_: &Login, request: Request| {
            Login::show(&request)
        })
        .route(post(path.clone()), Login::log_in)
        .route(delete(path), Login::log_out)
}

/// What stands behind the `?` of a logout.
#[derive(Deserialize)]
struct LogOut {
    /// All sessions of the key, on whatever device.
    #[serde(default)]
    everywhere: bool,
}

impl Login {
    /// Shows the session, or a page with a button.
    fn show(request: &Request) -> Result<Response, Problem> {
        if request.preferred(&["application/json", "text/html"]) == Some("text/html") {
            return Ok(page());
        }
        Ok(with(&request.session()?, None))
    }

    /// Begins a session for whoever has signed this request.
    async fn log_in(&self, mut request: Request) -> Result<Response, Problem> {
        request.refuse_other_sites()?;
        let key = request.signer().await?;
        Worker::with_current(|worker| {
            let rates = &worker.shared.rates;
            let client = rates.enter(request.client_address());
            rates.login_from(client).map_err(too_fast)?;
            let begun = self.0.begin(key)?;
            let lifetime = self.0.options().lifetime;
            let cookie = set_cookie(&begun.text, lifetime, &worker.shared.relay.urls);
            let session = begun.token.id;
            tracing::info!(key = key.to_hex(), %session, client = %client.address, "logged in");
            worker.observe(vec![Observation::Authenticated(key, client.family)]);
            Ok(with(&Session::new(begun.token), Some(cookie)))
        })
        .unwrap_or_else(|| Err(no_sessions()))
    }

    /// Revokes the session, or all of its key's.
    async fn log_out(&self, request: Request) -> Result<Response, Problem> {
        let LogOut { everywhere } = request.query()?;
        let session = request.session()?;
        let whose = if everywhere {
            WhoseSessions::Of(session.key())
        } else {
            WhoseSessions::One {
                id: session.id(),
                ends_at: Some(session.ends_at()),
            }
        };
        let sessions = self.0.clone();
        let revoked: Result<_, SessionError> = blocking(move || sessions.revoke(whose)).await;
        revoked?;
        let (key, id) = (session.key().to_hex(), session.id());
        tracing::info!(key, session = %id, everywhere, "logged out");
        let mut response = StatusCode::NO_CONTENT.into_response();
        let urls = Worker::with_current(|worker| worker.shared.relay.urls.clone());
        if let Some(urls) = urls {
            let forget = set_cookie("", std::time::Duration::ZERO, &urls);
            keep_private(&mut response, Some(forget));
        }
        Ok(response)
    }
}

fn too_fast(seconds: u64) -> Problem {
    Problem::new(
        StatusCode::TOO_MANY_REQUESTS,
        format!("too many logins from your address; try again in {seconds} s"),
    )
}

fn with(session: &Session, cookie: Option<String>) -> Response {
    let key: PublicKey = session.key();
    let mut response = Json(json!({
        "pubkey": key.to_hex(),
        "session": session.id().to_string(),
        "ends_at": session.ends_at(),
    }))
    .into_response();
    keep_private(&mut response, cookie);
    response
}

fn keep_private(response: &mut Response, cookie: Option<String>) {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept, Cookie"));
    if let Some(Ok(cookie)) = cookie.map(HeaderValue::try_from) {
        headers.insert(header::SET_COOKIE, cookie);
    }
}

/// What the page does. `next` may lead to another page of this site, and nowhere else.
const SCRIPT: &str = "
const by = (id) => document.getElementById(id);
const say = (text) => { by('said').textContent = text; };
const url = location.origin + location.pathname;
const shown = (session) => {
  by('in').hidden = Boolean(session);
  by('out').hidden = by('everywhere').hidden = !session;
  say(session ? `You are logged in as ${session.pubkey}.` : 'You are not logged in.');
};
const problem = async (answer) => {
  try { return (await answer.json()).detail; } catch { return answer.statusText; }
};
const look = async () => {
  const answer = await fetch(url, { headers: { accept: 'application/json' } });
  shown(answer.ok ? await answer.json() : null);
};
by('in').onclick = async () => {
  if (!window.nostr) { say('This browser has no Nostr extension (NIP-07).'); return; }
  try {
    const event = await window.nostr.signEvent({
      kind: 27235,
      created_at: Math.floor(Date.now() / 1000),
      tags: [['u', url], ['method', 'POST']],
      content: '',
    });
    const answer = await fetch(url, {
      method: 'POST',
      headers: { authorization: 'Nostr ' + btoa(JSON.stringify(event)) },
    });
    if (!answer.ok) { say(await problem(answer)); return; }
    shown(await answer.json());
    const next = new URLSearchParams(location.search).get('next');
    const there = next && new URL(next, location.origin);
    if (there && there.origin === location.origin) location.assign(there);
  } catch (error) { say(String(error.message || error)); }
};
const leave = (query) => async () => {
  const answer = await fetch(url + query, { method: 'DELETE' });
  if (answer.ok) shown(null); else say(await problem(answer));
};
by('out').onclick = leave('');
by('everywhere').onclick = leave('?everywhere=true');
look();
";

static PAGE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Log in</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>Log in</h1>\n<p id=\"said\" role=\"status\"></p>\n\
         <p><button id=\"in\">Log in with your Nostr extension</button>\n\
         <button id=\"out\" hidden>Log out</button>\n\
         <button id=\"everywhere\" hidden>Log out on all devices</button></p>\n\
         </main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
});

/// The page runs this script, asks this server, and loads nothing else.
static CONTENT_SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = BASE64.encode(&Sha256::digest(SCRIPT));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

fn page() -> Response {
    let mut response = Html(PAGE.as_str()).into_response();
    keep_private(&mut response, None);
    if let Ok(policy) = HeaderValue::try_from(CONTENT_SECURITY_POLICY.as_str()) {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        headers.insert(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        );
    }
    response
}
