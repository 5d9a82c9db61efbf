//! Browsers' sessions by configuration: they outlast kill -9, what is revoked stays revoked, at one node
//! and at all, and the log says who has logged in by which request.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
};

use hikyaku_event::testing::{Author, EventBuilder};
use hikyaku_postgres::testing::Cluster;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    program::{Place, Relay},
    websocket::Client,
};

const ORIGIN: &str = "http://relay.example.com";

static NEXT: AtomicU64 = AtomicU64::new(0);

fn enable(mut command: Command) -> Command {
    command
        .env("HIKYAKU_PUBLIC_URL", "ws://relay.example.com")
        .env("HIKYAKU_SESSIONS_ENABLED", "true")
        .env("HIKYAKU_TIMEOUTS_CLOSE_SECONDS", "1")
        .env("HIKYAKU_WORKERS", "2");
    command
}

fn serve(place: &Place) -> Relay {
    Relay::spawn(enable(place.command(&["serve", "--listen", "127.0.0.1:0"])))
}

fn run(place: &Place, arguments: &[&str]) -> crate::program::Ended {
    crate::program::ended(enable(place.command(arguments)))
}

/// Sends a request to the sessions' path; returns status, head and body.
fn ask(relay: &Relay, method: &str, query: &str, headers: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(&relay.address).unwrap();
    let request = format!(
        "{method} /session{query} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}

/// Signs a login that no other one is the same as.
fn login(author: &Author) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let event = EventBuilder::new(27_235)
        .created_at(now.unwrap().as_secs())
        .content(&NEXT.fetch_add(1, Ordering::Relaxed).to_string())
        .tag(["u", &format!("{ORIGIN}/session")])
        .tag(["method", "POST"])
        .sign(author);
    format!("Authorization: Nostr {}\r\n", base64(event.json()))
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number = three
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let number = number << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = DIGITS[number >> (18 - 6 * place) & 63];
            text.push(if place <= three.len() {
                digit.into()
            } else {
                '='
            });
        }
    }
    text
}

/// A browser that is logged in: its cookie, and its session's name.
struct Browser {
    cookie: String,
    session: String,
}

impl Browser {
    fn log_in(relay: &Relay, author: &Author) -> Self {
        let (status, head, body) = ask(relay, "POST", "", &login(author));
        assert_eq!(status, 200, "{head} {body}");
        let set = head
            .lines()
            .find_map(|line| line.strip_prefix("set-cookie: "))
            .unwrap();
        let body: Value = serde_json::from_str(&body).unwrap();
        Self {
            cookie: format!("Cookie: {}\r\n", set.split(';').next().unwrap()),
            session: body["session"].as_str().unwrap().to_owned(),
        }
    }

    fn is_logged_in(&self, relay: &Relay) -> bool {
        let (status, head, _) = ask(relay, "GET", "", &self.cookie);
        assert!(status == 200 || status == 401, "{head}");
        status == 200
    }

    fn log_out(&self, relay: &Relay, query: &str) {
        let headers = format!("{}Origin: {ORIGIN}\r\n", self.cookie);
        let (status, head, body) = ask(relay, "DELETE", query, &headers);
        assert_eq!(status, 204, "{head} {body}");
    }
}

#[test]
fn sessions_and_what_was_revoked_outlast_a_kill() {
    let place = Place::new();
    let relay = serve(&place);
    let [one, other] = [1, 2].map(Author::new);
    let browsers = [
        Browser::log_in(&relay, &one),
        Browser::log_in(&relay, &one),
        Browser::log_in(&relay, &other),
        Browser::log_in(&relay, &other),
        Browser::log_in(&relay, &other),
    ];
    let good = |relay: &Relay| {
        browsers
            .each_ref()
            .map(|browser| browser.is_logged_in(relay))
    };
    browsers[2].log_out(&relay, "");
    let key = one.pubkey().to_hex();
    let said = run(&place, &["sessions", "revoke", &key]).ok();
    assert!(
        said.starts_with(&format!("revoked {key}: all sessions")),
        "{said}"
    );
    let expected = [false, false, false, true, true];
    assert_eq!(good(&relay), expected);
    relay.signal(Signal::KILL);
    relay.wait();
    let relay = serve(&place);
    assert_eq!(good(&relay), expected);
    assert!(Browser::log_in(&relay, &one).is_logged_in(&relay));
    relay.stop();

    // At rest, too; and by its name.
    let name = &browsers[3].session;
    run(&place, &["sessions", "revoke", name]).ok();
    let listed = run(&place, &["sessions", "revoked", "--json"]).json();
    let mut listed: Vec<_> = listed["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["who"].as_str().unwrap().to_owned())
        .collect();
    listed.sort_unstable();
    let mut revoked = vec![key, name.clone(), browsers[2].session.clone()];
    revoked.sort_unstable();
    assert_eq!(listed, revoked);
    let relay = serve(&place);
    assert_eq!(good(&relay), [false, false, false, false, true]);
    relay.stop();
    let refused = run(&place, &["sessions", "revoke", "somebody"]).failed(2);
    assert!(refused.contains("public key"), "{refused}");
    let refused = place.run(&["sessions", "revoked"]).failed(1);
    assert!(refused.contains("sessions.enabled"), "{refused}");
}

#[test]
fn who_logs_out_at_one_node_is_logged_out_at_all() {
    let cluster = Cluster::start(&[]);
    let url = cluster.url();
    let start = |place: &Place| {
        let command = place.command(&["serve", "--listen", "127.0.0.1:0", "--store", &url]);
        Relay::spawn(enable(command))
    };
    let places = [Place::new(), Place::new()];
    let [here, there] = [start(&places[0]), start(&places[1])];
    let author = Author::new(1);
    let browsers = [(); 4].map(|()| Browser::log_in(&here, &author));
    assert!(browsers.iter().all(|browser| browser.is_logged_in(&there)));
    // What is revoked there is known here in a moment, and at a node that comes later.
    browsers[0].log_out(&there, "");
    while browsers[0].is_logged_in(&here) {}
    assert!(browsers[1].is_logged_in(&here));
    here.signal(Signal::KILL);
    here.wait();
    browsers[1].log_out(&there, "");
    let here = start(&places[0]);
    let good = |relay: &Relay| {
        browsers
            .each_ref()
            .map(|browser| browser.is_logged_in(relay))
    };
    assert_eq!(good(&here), [false, false, true, true]);
    // A node whose connections are cut hears of it all the same.
    cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'hikyaku%'");
    let revoke = ["sessions", "revoke", &browsers[2].session, "--store", &url];
    run(&places[0], &revoke).ok();
    while browsers[2].is_logged_in(&there) {}
    browsers[3].log_out(&here, "?everywhere=true");
    while browsers[3].is_logged_in(&there) {}
    assert_eq!(good(&here), [false; 4]);
    // Who logs in now is believed at both.
    let again = Browser::log_in(&there, &author);
    assert!(again.is_logged_in(&there) && again.is_logged_in(&here));
    here.stop();
    there.stop();
}

#[test]
fn a_signature_that_one_node_has_taken_is_refused_at_the_others() {
    let cluster = Cluster::start(&[]);
    let url = cluster.url();
    let places = [Place::new(), Place::new()];
    let [here, there] = places.each_ref().map(|place| {
        let command = place.command(&["serve", "--listen", "127.0.0.1:0", "--store", &url]);
        Relay::spawn(enable(command))
    });
    let mut subscriber = Client::connect(&there.address);
    subscriber.send(&json!(["REQ", "fleeting", {"kinds": [20_001]}]));
    assert_eq!(subscriber.next().unwrap()[0], "EOSE");
    let author = Author::new(1);
    let signed = login(&author);
    assert_eq!(ask(&here, "POST", "", &signed).0, 200);
    // What a node tells is heard in the order it was told.
    let fleeting = EventBuilder::new(20_001)
        .created_at(1_700_000_000)
        .sign(&author);
    let mut publisher = Client::connect(&here.address);
    assert_eq!(publisher.publish(fleeting.json())[2], true);
    assert_eq!(subscriber.next().unwrap()[0], "EVENT");
    let (status, _, body) = ask(&there, "POST", "", &signed);
    assert_eq!(status, 401);
    assert!(body.contains("used already"), "{body}");
    here.stop();
    there.stop();
}

#[test]
fn what_a_request_has_logged_has_its_name() {
    for (format, expected) in [
        ("text", " request_id=proxy-7"),
        ("json", ",\"request_id\":\"proxy-7\"}"),
    ] {
        let place = Place::new();
        let mut command = enable(place.command(&["serve", "--listen", "127.0.0.1:0"]));
        command
            .env("HIKYAKU_TRUSTED_PROXIES", "127.0.0.1")
            .env("HIKYAKU_LOG_FORMAT", format);
        let relay = Relay::spawn(command);
        let author = Author::new(1);
        let headers = login(&author) + "X-Request-Id: proxy-7\r\n";
        let (status, head, body) = ask(&relay, "POST", "", &headers);
        assert_eq!(status, 200, "{head} {body}");
        assert!(head.contains("x-request-id: proxy-7"), "{head}");
        relay.signal(Signal::TERM);
        let (_, log) = relay.wait();
        let named: Vec<_> = log
            .lines()
            .filter(|line| line.contains("request_id"))
            .collect();
        let [line] = named[..] else {
            panic!("{log}");
        };
        assert!(
            line.contains("logged in") && line.ends_with(expected),
            "{line}"
        );
        assert!(line.contains(&author.pubkey().to_hex()), "{line}");
    }
}
