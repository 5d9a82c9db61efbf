//! The form of answers: versions, parts, compression; and the names of requests.

use std::{
    io::Read,
    sync::Arc,
    time::{Duration, SystemTime},
};

use flate2::read::GzDecoder;
use hikyaku_server::{
    Cors, EntityTag, IntoResponse, Json, NoPlugins, Problem, Request, Response, Server,
    ServerConfig, Versioned, With, current_request, get, put,
};
use hikyaku_store::testing::NaiveStore;

use crate::{
    relay::{Relay, config},
    wire::Wire,
};

const TEXT: &str = "0123456789";

fn server() -> Server<With<(), NoPlugins>> {
    site(config())
}

fn site(config: ServerConfig) -> Server<With<(), NoPlugins>> {
    let long = || "a line of text\n".repeat(10_000);
    Server::new(config, Arc::new(NaiveStore::new()))
        .plugin(async |_| Ok(()))
        .route(get("/short"), async |(): &(), _: Request| {
            let at = SystemTime::UNIX_EPOCH + Duration::from_hours(24);
            Versioned::tagged(TEXT, EntityTag::new("v1")).and_modified(at)
        })
        .route(put("/short"), async |(): &(), request: Request| {
            request.require_version(Some(&EntityTag::new("v1")), None)
        })
        .route(get("/plain"), async |(): &(), _: Request| TEXT)
        .route(get("/long"), async move |(): &(), _: Request| {
            let text = long();
            let tag = EntityTag::of(text.as_bytes());
            Versioned::tagged(text, tag)
        })
        .route(get("/picture"), async |(): &(), _: Request| {
            let mut response = "x".repeat(10_000).into_response();
            let headers = response.headers_mut();
            headers.insert("content-type", "image/png".parse().unwrap());
            response
        })
        .route(
            get("/either"),
            async |(): &(), request: Request| match request
                .preferred(&["text/plain", "application/json"])
            {
                Some("application/json") => Ok(Json("x").into_response()),
                Some(_) => Ok("x".into_response()),
                None => Err(Problem::new(406.try_into()?, "text or JSON only")),
            },
        )
        .route(get("/name"), async |(): &(), request: Request| {
            tokio::task::yield_now().await;
            let both = format!("{} {}", request.id(), current_request().unwrap_or_default());
            Ok::<Response, Problem>(both.into_response())
        })
}

/// Asks on a connection of its own; returns the head in lower case, and the body.
async fn ask(relay: &Relay, request_line: &str, headers: &str) -> (String, Vec<u8>) {
    let request =
        format!("{request_line} HTTP/1.1\r\nHost: r\r\nConnection: close\r\n{headers}\r\n");
    let answer = Wire::request_bytes(relay.address, request.as_bytes()).await;
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head.to_lowercase(), answer[end + 4..].to_vec())
}

/// Checks status, a text of the head, and the body of `GET /short`.
async fn check(relay: &Relay, headers: &str, status: u16, has: &str, body: &str) {
    let (head, found) = ask(relay, "GET /short", headers).await;
    assert!(
        head.starts_with(&format!("http/1.1 {status} ")),
        "{headers}: {head}"
    );
    assert!(head.contains(has), "{headers}: {head}");
    assert_eq!(String::from_utf8(found).unwrap(), body, "{headers}");
}

#[tokio::test]
async fn who_has_the_version_is_not_sent_it_again() {
    let relay = Relay::serve(server());
    let date = "Fri, 02 Jan 1970 00:00:00 GMT";
    for known in [
        "If-None-Match: \"v1\"\r\n",
        "If-None-Match: \"v0\", W/\"v1\"\r\n",
        "If-None-Match: \"v0\"\r\nIf-None-Match: \"v1\"\r\n",
        "If-None-Match: *\r\n",
        &format!("If-Modified-Since: {date}\r\n"),
    ] {
        check(&relay, known, 304, "etag: \"v1\"", "").await;
    }
    for other in [
        "",
        "If-None-Match: \"v2\"\r\n",
        "If-None-Match: v1\r\n",
        "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n",
        "If-Modified-Since: yesterday\r\n",
        // The tag says more than the time.
        &format!("If-None-Match: \"v2\"\r\nIf-Modified-Since: {date}\r\n"),
    ] {
        check(&relay, other, 200, "last-modified: fri, 02 jan 1970", TEXT).await;
    }
    for (condition, status) in [("\"v1\"", 204), ("\"v0\"", 412), ("W/\"v1\"", 412)] {
        let (head, _) = ask(&relay, "PUT /short", &format!("If-Match: {condition}\r\n")).await;
        assert!(
            head.starts_with(&format!("http/1.1 {status} ")),
            "{condition}: {head}"
        );
    }
}

#[tokio::test]
async fn who_wants_a_part_gets_it() {
    let relay = Relay::serve(server());
    for (headers, status, has, body) in [
        (
            "Range: bytes=2-4\r\n",
            206,
            "content-range: bytes 2-4/10",
            "234",
        ),
        (
            "Range: bytes=-2\r\n",
            206,
            "content-range: bytes 8-9/10",
            "89",
        ),
        ("Range: bytes=7-\r\n", 206, "content-length: 3", "789"),
        ("Range: bytes=10-\r\n", 416, "content-range: bytes */10", ""),
        (
            "Range: bytes=0-1,3-4\r\n",
            200,
            "accept-ranges: bytes",
            TEXT,
        ),
        ("Range: lines=1-2\r\n", 200, "", TEXT),
        ("Range: bytes=0-1\r\nIf-Range: \"v1\"\r\n", 206, "", "01"),
        ("Range: bytes=0-1\r\nIf-Range: \"v0\"\r\n", 200, "", TEXT),
        ("Range: bytes=0-1\r\nIf-Range: W/\"v1\"\r\n", 200, "", TEXT),
        (
            "Range: bytes=0-1\r\nIf-Range: Fri, 02 Jan 1970 00:00:00 GMT\r\n",
            206,
            "",
            "01",
        ),
        ("Range: bytes=0-1\r\nIf-None-Match: \"v1\"\r\n", 304, "", ""),
        ("Range: bytes=0-1\r\nIf-Match: \"v1\"\r\n", 206, "", "01"),
        ("If-Match: \"v0\", \"v1\"\r\n", 200, "", TEXT),
        ("If-Match: *\r\n", 200, "", TEXT),
        (
            "If-Unmodified-Since: Fri, 02 Jan 1970 00:00:00 GMT\r\n",
            200,
            "",
            TEXT,
        ),
    ] {
        check(&relay, headers, status, has, body).await;
    }
    // Parts of two versions are never put together.
    for headers in [
        "If-Match: \"v0\"\r\nRange: bytes=0-1\r\n",
        "If-Match: W/\"v1\"\r\n",
        "If-Match: \"v0\"\r\nIf-None-Match: \"v1\"\r\n",
        "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n",
    ] {
        let (head, _) = ask(&relay, "GET /short", headers).await;
        assert!(head.starts_with("http/1.1 412 "), "{headers}: {head}");
    }
    // One that does not say that it has parts has none.
    let (head, body) = ask(&relay, "GET /plain", "Range: bytes=0-1\r\n").await;
    assert!(
        head.starts_with("http/1.1 200 ") && body == TEXT.as_bytes(),
        "{head}"
    );
    let (head, body) = ask(&relay, "HEAD /short", "Range: bytes=0-1\r\n").await;
    assert!(
        head.starts_with("http/1.1 200 ") && body.is_empty(),
        "{head}"
    );
    assert!(head.contains("content-length: 10"), "{head}");
}

#[tokio::test]
async fn pages_of_other_origins_read_what_they_are_let() {
    let app = "Origin: https://app.example\r\n";
    let preflight = format!(
        "{app}Access-Control-Request-Method: PUT\r\n\
         Access-Control-Request-Headers: authorization, content-type\r\n"
    );
    let start = |cors| {
        let mut config = config();
        config.cors = cors;
        let mut server = site(config).route(get("/own"), async |(): &(), _: Request| {
            let mut response = "x".into_response();
            let headers = response.headers_mut();
            headers.insert(
                "access-control-allow-origin",
                "https://mine.example".parse().unwrap(),
            );
            response
        });
        server = server.route(get("/panic"), async |(): &(), _: Request| -> &str {
            panic!("on purpose")
        });
        Relay::serve(server)
    };
    let allowed = "access-control-allow-origin";
    // Unless it is said, nobody may.
    let relay = start(None);
    for request in ["GET /short", "OPTIONS /short", "DELETE /short"] {
        let (head, _) = ask(&relay, request, &preflight).await;
        assert!(!head.contains("access-control"), "{request}: {head}");
    }
    let some = Cors::origins(["https://app.example"]);
    for (cors, origin) in [(Cors::any(), "*"), (some.clone(), "https://app.example")] {
        let relay = start(Some(cors));
        // Errors are to be read, too.
        for request in [
            "GET /short",
            "DELETE /short",
            "OPTIONS /short",
            "GET /panic",
        ] {
            let (head, _) = ask(&relay, request, &preflight).await;
            assert!(
                head.contains(&format!("{allowed}: {origin}\r\n")),
                "{request}: {head}"
            );
            assert!(!head.contains("credentials"), "{head}");
        }
        let (head, _) = ask(&relay, "OPTIONS /short", &preflight).await;
        for line in [
            "204 no content",
            "access-control-allow-methods: get, put, head, options",
            "access-control-allow-headers: authorization, content-type",
            "access-control-max-age: 7200",
        ] {
            assert!(head.contains(line), "{line}: {head}");
        }
        let (head, _) = ask(&relay, "GET /own", app).await;
        assert!(
            head.contains(&format!("{allowed}: https://mine.example")),
            "{head}"
        );
        assert_eq!(head.matches(allowed).count(), 1, "{head}");
    }
    let relay = start(Some(some));
    for origin in [
        "",
        "Origin: https://app.example.evil\r\n",
        "Origin: null\r\n",
    ] {
        let (head, _) = ask(&relay, "GET /short", origin).await;
        assert!(!head.contains(allowed), "{origin}: {head}");
        assert!(head.contains("vary: origin"), "{origin}: {head}");
    }
}

#[tokio::test]
async fn long_texts_are_compressed_for_who_can_unpack_them() {
    let relay = Relay::serve(server());
    let (plain, text) = ask(&relay, "GET /long", "").await;
    assert!(plain.contains("vary: accept-encoding") && !plain.contains("content-encoding"));
    let (head, packed) = ask(&relay, "GET /long", "Accept-Encoding: br, gzip\r\n").await;
    assert!(head.contains("content-encoding: gzip"), "{head}");
    assert!(head.contains("etag: w/\""), "{head}");
    assert!(packed.len() * 10 < text.len());
    let mut unpacked = Vec::new();
    GzDecoder::new(&dechunked(&packed)[..])
        .read_to_end(&mut unpacked)
        .unwrap();
    assert_eq!(unpacked, text);
    let tag = head
        .lines()
        .find_map(|line| line.strip_prefix("etag: w/"))
        .unwrap();
    // Its letters are in lower case here, its digits and quotes are not.
    let original = plain
        .lines()
        .find_map(|line| line.strip_prefix("etag: "))
        .unwrap();
    assert_eq!(tag, original);
    // Who has it is told so with what the whole would have had.
    for (headers, tag) in [
        ("", "etag: \""),
        ("Accept-Encoding: gzip\r\n", "etag: w/\""),
    ] {
        let headers = format!("{headers}If-None-Match: *\r\n");
        let (head, _) = ask(&relay, "GET /long", &headers).await;
        assert!(head.starts_with("http/1.1 304 "), "{head}");
        assert!(head.contains("vary: accept-encoding"), "{head}");
        assert!(head.contains(tag), "{head}");
    }
    for (path, headers) in [
        ("/short", "Accept-Encoding: gzip\r\n"),
        ("/picture", "Accept-Encoding: gzip\r\n"),
        ("/long", "Accept-Encoding: gzip;q=0\r\n"),
        ("/long", "Accept-Encoding: gzip\r\nCookie: a=b\r\n"),
        ("/long", "Accept-Encoding: gzip\r\nRange: bytes=0-3000\r\n"),
    ] {
        let (head, _) = ask(&relay, &format!("GET {path}"), headers).await;
        assert!(
            !head.contains("content-encoding"),
            "{path} {headers}: {head}"
        );
    }
}

/// Puts the chunks of a body together.
fn dechunked(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = std::str::from_utf8(&rest[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return whole;
        }
        whole.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 4 + length..];
    }
}

#[tokio::test]
async fn the_client_chooses_among_media_types() {
    let relay = Relay::serve(server());
    for (accept, expected) in [
        ("application/json", "application/json"),
        ("text/*;q=0.3, application/json;q=0.2", "text/plain"),
        ("image/png", "406"),
    ] {
        let (head, _) = ask(&relay, "GET /either", &format!("Accept: {accept}\r\n")).await;
        assert!(head.contains(expected), "{accept}: {head}");
    }
}

#[tokio::test]
async fn a_request_has_a_name_and_only_a_trusted_proxy_may_give_it() {
    let name = |head: &str| {
        let mut lines = head.lines();
        lines
            .find_map(|line| line.strip_prefix("x-request-id: "))
            .unwrap()
            .to_owned()
    };
    let relay = Relay::serve(server());
    for path in ["/name", "/nothing", "/"] {
        let (head, body) = ask(&relay, &format!("GET {path}"), "X-Request-Id: mine\r\n").await;
        let name = name(&head);
        assert!(name.len() == 16 && name != "mine", "{head}");
        if path == "/name" {
            assert_eq!(String::from_utf8(body).unwrap(), format!("{name} {name}"));
        }
    }
    drop(relay);
    let mut config = config();
    config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let relay = Relay::with(config, Arc::new(NaiveStore::new()));
    let (head, _) = ask(&relay, "GET /", "X-Request-Id: mine\r\n").await;
    assert_eq!(name(&head), "mine");
    let (head, _) = ask(&relay, "GET /", "X-Request-Id: <b>\r\n").await;
    assert_eq!(name(&head).len(), 16);
}
