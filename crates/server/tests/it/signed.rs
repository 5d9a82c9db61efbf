//! Requests that a Nostr key has signed (NIP-98).

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use data_encoding::BASE64;
use hikyaku_event::testing::{Author, EventBuilder};
use hikyaku_server::{Problem, Request, Server, get, post};
use hikyaku_store::testing::NaiveStore;

use crate::{
    client::now,
    relay::{Relay, config},
    routes::request,
};

fn site() -> Relay {
    let server = Server::new(config(), Arc::new(NaiveStore::new()))
        .plugin(async |_| Ok(()))
        .route(get("/who"), who)
        .route(post("/who"), who)
        .route(get("/member"), async |(): &(), mut request: Request| {
            Ok::<_, Problem>(request.member().await?.to_hex())
        })
        .route(post("/count"), async |(): &(), mut request: Request| {
            request.signer().await?;
            let list: Vec<u32> = request.json().await?;
            Ok::<_, Problem>(list.len().to_string())
        });
    Relay::serve(server)
}

fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_secs()
}

async fn who((): &(), mut request: Request) -> Result<String, Problem> {
    Ok(request.signer().await?.to_hex())
}

fn header(event: &EventBuilder, author: &Author) -> String {
    let token = BASE64.encode(event.sign(author).json());
    format!("Authorization: Nostr {token}\r\n")
}

#[tokio::test]
async fn who_signs_a_request_is_known_once() {
    let relay = site();
    let author = Author::new(1);
    let url = format!("http://{}/who", relay.address);
    let event = |method| now(27235).tag(["u", &url]).tag(["method", method]);
    let signed = header(&event("POST"), &author);
    let (_, answer) = request(relay.address, "POST", "/who", &signed, "").await;
    assert_eq!(
        (answer.status, answer.body),
        (200, author.pubkey().to_hex())
    );
    // What only reads may be read again: two reads of one second have the same event. Nobody pads.
    let read = header(&event("GET"), &author).replace("=\r\n", "\r\n");
    for _ in 0..2 {
        let (_, answer) = request(relay.address, "GET", "/who", &read, "").await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    // On whichever worker it comes again.
    for _ in 0..4 {
        let (_, answer) = request(relay.address, "POST", "/who", &signed, "").await;
        assert_eq!(answer.status, 401, "{answer:?}");
        assert!(answer.body.contains("used already"), "{answer:?}");
        assert!(
            answer.head.contains("www-authenticate: nostr"),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn what_was_signed_before_the_start_is_good_for_reading_alone() {
    let relay = site();
    let author = Author::new(1);
    let url = format!("http://{}/who", relay.address);
    for (method, status) in [("GET", 200), ("POST", 401)] {
        let event = now(27235).tag(["u", &url]).tag(["method", method]);
        // The server may have forgotten that it was used.
        let event = event.created_at(unix_now() - 30);
        let (_, answer) =
            request(relay.address, method, "/who", &header(&event, &author), "").await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    // A proxy's password is not what says who a member is.
    let basic = "Authorization: Basic eDp5\r\n";
    let (_, answer) = request(relay.address, "GET", "/member", basic, "").await;
    assert!(answer.body.contains("has no sessions"), "{answer:?}");
}

#[tokio::test]
async fn a_body_is_signed_with_its_request() {
    let relay = site();
    let author = Author::new(1);
    let url = format!("http://localhost:{}/count", relay.address.port());
    let hash = "a615eeaee21de5179de080de8c3052c8da901138406ba71c38c032845f7d54f4";
    let json = "Content-Type: application/json\r\n";
    for (body, status) in [("[1,2,3]", 200), ("[1,2,4]", 401), ("", 401)] {
        let event = now(27235)
            .tag(["u", &url])
            .tag(["method", "POST"])
            .tag(["payload", hash]);
        let event = event.content(body);
        let headers = format!("{json}{}", header(&event, &author));
        let (_, answer) = request(relay.address, "POST", "/count", &headers, body).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
}

#[tokio::test]
async fn who_signs_something_else_is_refused() {
    let relay = site();
    let author = Author::new(1);
    let url = format!("http://{}/who", relay.address);
    let good = || now(27235).tag(["u", &url]).tag(["method", "GET"]);
    let forged = {
        let event = good().sign(&author);
        let json = String::from_utf8(event.json().to_vec()).unwrap();
        let (sig, other) = (event.sig(), good().content("x").sign(&author).sig());
        let hex = |sig: hikyaku_event::Signature| data_encoding::HEXLOWER.encode(sig.as_bytes());
        let json = json.replace(&hex(sig), &hex(other));
        format!(
            "Authorization: Nostr {}\r\n",
            BASE64.encode(json.as_bytes())
        )
    };
    for headers in [
        String::new(),
        "Authorization: Basic eDp5\r\n".to_owned(),
        "Authorization: Nostr\r\n".to_owned(),
        "Authorization: Nostr !!!\r\n".to_owned(),
        "Authorization: Nostr e30=\r\n".to_owned(),
        header(&now(1).tag(["u", &url]).tag(["method", "GET"]), &author),
        header(&good().created_at(1_700_000_000), &author),
        header(
            &now(27235)
                .tag(["u", "http://evil.net/who"])
                .tag(["method", "GET"]),
            &author,
        ),
        header(
            &now(27235).tag(["u", &url]).tag(["method", "POST"]),
            &author,
        ),
        forged,
    ] {
        let (_, answer) = request(relay.address, "GET", "/who", &headers, "").await;
        assert_eq!(answer.status, 401, "{headers} {answer:?}");
    }
}
