//! Browsers' sessions: a login with a signed request, a cookie, what is refused, and logging out.

use std::{
    net::SocketAddr,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use data_encoding::BASE64;
use hikyaku_event::testing::{Author, EventBuilder};
use hikyaku_server::{
    Problem, Request, Server, ServerConfig, ServerError, Session, SessionOptions, Sessions,
    WhoseSessions, delete, get, post,
};
use hikyaku_store::{Ban, testing::NaiveStore};
use hikyaku_tables::{MemoryOptions, MemoryTable, Table};
use proptest::prelude::*;
use serde_json::Value;

use crate::{
    client::now,
    relay::{Relay, config},
    wire::Wire,
};

static NEXT: AtomicU64 = AtomicU64::new(0);

const SAME_SITE: &str = "Sec-Fetch-Site: same-origin\r\n";

/// What came back.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Returns `name=text` of the cookie that is set.
    fn cookie(&self) -> &str {
        let set = self.header("set-cookie").unwrap();
        set.split(';').next().unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

async fn ask(address: SocketAddr, method: &str, path: &str, headers: &str) -> Answer {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: r\r\nConnection: close\r\nContent-Length: 0\r\n{headers}\r\n"
    );
    let answer = Wire::request(address, &request).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

fn table() -> Arc<dyn Table> {
    Arc::new(MemoryTable::new(MemoryOptions::default(), None))
}

fn sessions(table: Arc<dyn Table>) -> Sessions {
    Sessions::in_table(table, SessionOptions::default()).unwrap()
}

fn with_sessions() -> ServerConfig {
    ServerConfig {
        sessions: Some(sessions(table())),
        ..config()
    }
}

/// A site that says who asks: by the session alone, or by a signature too.
fn site(config: ServerConfig) -> Relay {
    let who = async |(): &(), request: Request| Ok::<_, Problem>(request.session()?.key().to_hex());
    let mounted = axum::Router::new().route(
        "/who",
        axum::routing::any(async |request: axum::extract::Request| {
            let session = request.extensions().get::<Session>();
            session.map_or("nobody".to_owned(), |session| session.key().to_hex())
        }),
    );
    let server = Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(async |_| Ok(()))
        .route(get("/who"), who)
        .route(post("/who"), who)
        .route(delete("/who"), who)
        .route(get("/member"), async |(): &(), mut request: Request| {
            Ok::<_, Problem>(request.member().await?.to_hex())
        })
        .mount("/app", mounted);
    Relay::serve(server)
}

fn signed(event: &EventBuilder, author: &Author) -> String {
    let token = BASE64.encode(event.sign(author).json());
    format!("Authorization: Nostr {token}\r\n")
}

fn signature(origin: &str, method: &str, path: &str, author: &Author) -> String {
    let url = format!("{origin}{path}");
    // Else two of one second are one event.
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let event = now(27235)
        .tag(["u", &url])
        .tag(["method", method])
        .content(&id.to_string());
    signed(&event, author)
}

async fn log_in(address: SocketAddr, author: &Author) -> Answer {
    let headers = signature(&format!("http://{address}"), "POST", "/session", author);
    ask(address, "POST", "/session", &headers).await
}

fn with_cookie(cookie: &str) -> String {
    format!("Cookie: theme=dark; {cookie}; a=b\r\n")
}

#[tokio::test]
async fn who_has_logged_in_once_is_known_until_logging_out() {
    let relay = site(with_sessions());
    let author = Author::new(1);
    let answer = log_in(relay.address, &author).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let set = answer.header("set-cookie").unwrap();
    assert!(
        set.ends_with("; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax"),
        "{set}"
    );
    let told = answer.json();
    assert_eq!(told["pubkey"], author.pubkey().to_hex());
    let cookie = with_cookie(answer.cookie());
    // On whichever worker.
    for path in ["/who", "/member", "/app/who"].repeat(4) {
        let answer = ask(relay.address, "GET", path, &cookie).await;
        assert_eq!(
            (answer.status, &*answer.body),
            (200, &*author.pubkey().to_hex())
        );
    }
    let answer = ask(relay.address, "GET", "/session", &cookie).await;
    assert_eq!((answer.status, answer.json()), (200, told));

    let other = with_cookie(log_in(relay.address, &author).await.cookie());
    let headers = format!("{cookie}{SAME_SITE}");
    let answer = ask(relay.address, "DELETE", "/session", &headers).await;
    assert_eq!(answer.status, 204, "{answer:?}");
    let set = answer.header("set-cookie").unwrap();
    assert!(
        set.starts_with("hikyaku-session=; Path=/; Max-Age=0;"),
        "{set}"
    );
    for _ in 0..4 {
        let answer = ask(relay.address, "GET", "/who", &cookie).await;
        assert_eq!(answer.status, 401, "{answer:?}");
        assert_eq!(answer.header("www-authenticate"), Some("Nostr"));
        let answer = ask(relay.address, "GET", "/app/who", &cookie).await;
        assert_eq!(answer.body, "nobody");
        assert_eq!(ask(relay.address, "GET", "/who", &other).await.status, 200);
    }
}

#[tokio::test]
async fn who_logs_out_everywhere_is_logged_out_on_every_device_and_can_log_in_again() {
    let relay = site(with_sessions());
    let [one, other] = [1, 2].map(Author::new);
    let first = with_cookie(log_in(relay.address, &one).await.cookie());
    let second = with_cookie(log_in(relay.address, &one).await.cookie());
    let others = with_cookie(log_in(relay.address, &other).await.cookie());
    let headers = format!("{first}{SAME_SITE}");
    let path = "/session?everywhere=true";
    let answer = ask(relay.address, "DELETE", path, &headers).await;
    assert_eq!(answer.status, 204, "{answer:?}");
    let again = with_cookie(log_in(relay.address, &one).await.cookie());
    for (cookie, status) in [(first, 401), (second, 401), (others, 200), (again, 200)] {
        let answer = ask(relay.address, "GET", "/who", &cookie).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
}

#[tokio::test]
async fn what_another_site_has_a_browser_send_changes_nothing() {
    let relay = site(with_sessions());
    let answer = log_in(relay.address, &Author::new(1)).await;
    let cookie = with_cookie(answer.cookie());
    let ours = format!("Origin: http://{}\r\n", relay.address);
    for (headers, status) in [
        ("", 403),
        (SAME_SITE, 200),
        ("Sec-Fetch-Site: none\r\n", 200),
        ("Sec-Fetch-Site: same-site\r\n", 403),
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        (&format!("Sec-Fetch-Site: cross-site\r\n{ours}"), 403),
        (&ours, 200),
        ("Origin: null\r\n", 403),
        ("Origin: http://evil.example\r\n", 403),
        // Host is what the client says, and no proof.
        ("Origin: http://r\r\n", 403),
    ] {
        for method in ["POST", "DELETE"] {
            let headers = format!("{cookie}{headers}");
            let answer = ask(relay.address, method, "/who", &headers).await;
            assert_eq!(answer.status, status, "{method} {headers} {answer:?}");
            let answer = ask(relay.address, method, "/app/who", &headers).await;
            assert_eq!(answer.body == "nobody", status == 403, "{answer:?}");
        }
        // What changes nothing is answered: SameSite and CORS keep it from the other site.
        let headers = format!("{cookie}{headers}");
        let answer = ask(relay.address, "GET", "/who", &headers).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    // Nor does another site log anybody out, or in as somebody else.
    let headers = format!("{cookie}Sec-Fetch-Site: cross-site\r\n");
    let answer = ask(relay.address, "DELETE", "/session", &headers).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    let origin = format!("http://{}", relay.address);
    let login = signature(&origin, "POST", "/session", &Author::new(2));
    let headers = format!("{login}Origin: http://evil.example\r\n");
    let answer = ask(relay.address, "POST", "/session", &headers).await;
    assert_eq!(answer.status, 403, "{answer:?}");
}

#[tokio::test]
async fn forged_truncated_and_foreign_cookies_are_refused() {
    let relay = site(with_sessions());
    let foreign = site(with_sessions());
    let author = Author::new(1);
    let good = log_in(relay.address, &author).await.cookie().to_owned();
    let foreign = log_in(foreign.address, &author).await.cookie().to_owned();
    let text = good.strip_prefix("hikyaku-session=").unwrap();
    let mut cookies = vec![
        foreign,
        "hikyaku-session=".to_owned(),
        "hikyaku-session".to_owned(),
        format!("__Host-hikyaku-session={text}"),
        format!("hikyaku-session=\"{text}\""),
        format!("{good}A"),
        format!("hikyaku-session={}", "A".repeat(text.len())),
        format!("hikyaku-session={}", "A".repeat(10_000)),
    ];
    cookies.extend((0..good.len()).step_by(7).map(|end| good[..end].to_owned()));
    for at in (0..text.len()).step_by(7) {
        let mut forged = text.as_bytes().to_vec();
        forged[at] = if forged[at] == b'x' { b'y' } else { b'x' };
        let forged = String::from_utf8(forged).unwrap();
        cookies.push(format!("hikyaku-session={forged}"));
    }
    for cookie in cookies {
        let answer = ask(relay.address, "GET", "/who", &with_cookie(&cookie)).await;
        assert_eq!(answer.status, 401, "{cookie}");
    }
    let answer = ask(relay.address, "GET", "/who", &with_cookie(&good)).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn behind_tls_the_cookie_is_for_this_host_and_tls_alone() {
    let relay = site(ServerConfig {
        public_url: Some("wss://relay.example.com".to_owned()),
        ..with_sessions()
    });
    let author = Author::new(1);
    let origin = "https://relay.example.com";
    let headers = signature(origin, "POST", "/session", &author);
    let answer = ask(relay.address, "POST", "/session", &headers).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let set = answer.header("set-cookie").unwrap();
    assert!(set.starts_with("__Host-hikyaku-session="), "{set}");
    assert!(set.ends_with("; HttpOnly; SameSite=Lax; Secure"), "{set}");
    let cookie = with_cookie(answer.cookie());
    for (headers, status) in [
        ("Origin: https://relay.example.com\r\n", 200),
        ("Origin: http://relay.example.com\r\n", 403),
    ] {
        let headers = format!("{cookie}{headers}");
        let answer = ask(relay.address, "POST", "/who", &headers).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    // One that a page without TLS could have set is not looked at.
    let plain = with_cookie(answer.cookie().strip_prefix("__Host-").unwrap());
    assert_eq!(ask(relay.address, "GET", "/who", &plain).await.status, 401);
}

#[tokio::test]
async fn a_login_needs_a_signature_for_this_very_login() {
    let relay = site(with_sessions());
    let origin = format!("http://{}", relay.address);
    let author = Author::new(1);
    let once = signature(&origin, "POST", "/session", &author);
    let statuses = [
        ("", 401),
        (&*signature(&origin, "GET", "/session", &author), 401),
        (&signature(&origin, "POST", "/who", &author), 401),
        (
            &signature("http://evil.example", "POST", "/session", &author),
            401,
        ),
        (&once, 200),
        (&once, 401),
    ];
    for (headers, status) in statuses {
        let answer = ask(relay.address, "POST", "/session", headers).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.header("set-cookie").is_some(), status == 200);
    }
    // Where both are, the signature says who it is.
    let cookie = with_cookie(log_in(relay.address, &author).await.cookie());
    let other = Author::new(2);
    let both = signature(&origin, "GET", "/member", &other) + &cookie;
    let answer = ask(relay.address, "GET", "/member", &both).await;
    assert_eq!(answer.body, other.pubkey().to_hex());
    let wrong = signature(&origin, "GET", "/who", &other) + &cookie;
    let answer = ask(relay.address, "GET", "/member", &wrong).await;
    assert_eq!(answer.status, 401, "{answer:?}");
}

#[tokio::test]
async fn a_banned_key_can_not_log_in_and_its_sessions_are_refused() {
    let relay = site(with_sessions());
    let author = Author::new(1);
    let cookie = with_cookie(log_in(relay.address, &author).await.cookie());
    relay.bans.set(&[Ban {
        who: author.pubkey().to_hex(),
        reason: "no more".to_owned(),
        since: 0,
        until: None,
    }]);
    // Each worker takes the list in its turn.
    let mut refused = 0;
    while refused < 8 {
        let answer = ask(relay.address, "GET", "/who", &cookie).await;
        refused = if answer.status == 403 { refused + 1 } else { 0 };
    }
    let mut answer = log_in(relay.address, &author).await;
    while answer.status == 200 {
        answer = log_in(relay.address, &author).await;
    }
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(
        answer.body.contains("you are banned: no more"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn logins_have_a_rate() {
    let mut config = with_sessions();
    config.unlimited_addresses.clear();
    config.rates.logins_per_address.per_minute = 1;
    config.rates.logins_per_address.burst = 3;
    let relay = site(config);
    for number in 0..3 {
        let answer = log_in(relay.address, &Author::new(number + 1)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let answer = log_in(relay.address, &Author::new(9)).await;
    assert_eq!(answer.status, 429, "{answer:?}");
    assert!(answer.body.contains("too many logins"), "{answer:?}");
}

#[tokio::test]
async fn the_operator_revokes_while_the_server_runs_and_a_restart_forgets_nothing() {
    let kept = table();
    let running = sessions(Arc::clone(&kept));
    let relay = site(ServerConfig {
        sessions: Some(running.clone()),
        ..config()
    });
    let [one, other] = [1, 2].map(Author::new);
    let ones = with_cookie(log_in(relay.address, &one).await.cookie());
    let answer = log_in(relay.address, &other).await;
    let name = answer.json()["session"].as_str().unwrap().parse().unwrap();
    let others = with_cookie(answer.cookie());
    let stays = with_cookie(log_in(relay.address, &other).await.cookie());
    running.revoke(WhoseSessions::Of(one.pubkey())).unwrap();
    let whose = WhoseSessions::One {
        id: name,
        ends_at: None,
    };
    running.revoke(whose).unwrap();
    let expected = [(&ones, 401), (&others, 401), (&stays, 200)];
    for (cookie, status) in expected {
        assert_eq!(
            ask(relay.address, "GET", "/who", cookie).await.status,
            status
        );
    }
    drop(relay);
    let relay = site(ServerConfig {
        sessions: Some(sessions(kept)),
        ..config()
    });
    for (cookie, status) in expected {
        assert_eq!(
            ask(relay.address, "GET", "/who", cookie).await.status,
            status
        );
    }
}

#[tokio::test]
async fn without_sessions_there_is_no_login() {
    let relay = site(config());
    let cookie = with_cookie("hikyaku-session=x");
    assert_eq!(ask(relay.address, "GET", "/who", &cookie).await.status, 401);
    assert_eq!(log_in(relay.address, &Author::new(1)).await.status, 404);
}

#[tokio::test]
async fn the_page_runs_its_own_script_and_no_other() {
    use sha2::{Digest, Sha256};
    let relay = site(with_sessions());
    let accept = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";
    let answer = ask(relay.address, "GET", "/session", accept).await;
    assert_eq!(answer.status, 200);
    let (_, script) = answer.body.split_once("<script>").unwrap();
    let (script, _) = script.split_once("</script>").unwrap();
    let hash = BASE64.encode(&Sha256::digest(script));
    let policy = answer.header("content-security-policy").unwrap();
    assert!(
        policy.contains(&format!("script-src 'sha256-{hash}';")),
        "{policy}"
    );
    assert!(!answer.body.contains("onclick=\""));
}

#[test]
fn the_path_of_the_login_may_be_nobody_elses() {
    let server = Server::new(with_sessions(), Arc::new(NaiveStore::new()))
        .plugin(async |_| Ok(()))
        .route(get("/session"), async |(): &(), _: Request| "mine");
    let error = server.bind().unwrap_err();
    assert!(
        matches!(&error, ServerError::Route { route, .. } if route == "GET /session"),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_cookie_that_nobody_has_made_lets_anybody_in(cookie in "[!-:<-~ ]{0,200}") {
        static RELAY: LazyLock<Relay> = LazyLock::new(|| site(with_sessions()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let status = runtime.block_on(async {
            let headers = format!("Cookie: hikyaku-session={cookie}\r\n");
            ask(RELAY.address, "GET", "/who", &headers).await.status
        });
        prop_assert_eq!(status, 401);
    }
}
