//! `hikyaku bench` against the real server: what passes, what must not, and what is reported. No
//! figure is judged: a test's machine has other things to do.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{Place, Relay};

/// Enough that every shape of question but one has answers, and little enough for a test.
const SMALL: [(&str, &str); 5] = [
    ("--events", "2000"),
    ("--operations", "300"),
    ("--questions", "3"),
    ("--rate", "300"),
    ("--subscribers", "8"),
];

/// Loads a relay a little, where it is not told how much.
fn small<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["bench", "relay", url, "--json", "report.json"];
    args.extend(more);
    for (option, value) in SMALL {
        if !more.contains(&option) {
            args.extend([option, value]);
        }
    }
    args
}

fn report(place: &Place) -> Value {
    let text = std::fs::read_to_string(place.path().join("report.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn url(relay: &Relay) -> String {
    format!("ws://{}", relay.address)
}

#[test]
fn every_phase_passes_and_is_reported() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let url = url(&relay);
    let more = [
        "--rounds",
        "1",
        "--seconds",
        "1",
        "--idle",
        "3",
        "--disk",
        ".",
        "--html",
        "page.html",
    ];
    let out = place.run(&small(&url, &more)).ok();
    assert!(out.contains("passed: every answer was right"), "{out}");
    let report = report(&place);
    assert_eq!(report["end"]["outcome"], "passed");
    let loads = report["loads"].as_array().unwrap();
    let parts: Vec<_> = loads
        .iter()
        .map(|load| load["part"].as_str().unwrap())
        .collect();
    assert_eq!(
        parts,
        [
            "publish, one at a time",
            "publish, closed loop",
            "publish, at a rate",
            "query, one at a time",
            "subscribe, closed loop",
            "subscribe, at a rate",
            "mixed, at a rate"
        ]
    );
    for load in loads {
        assert_eq!(load["failed"], 0, "{load}");
        assert!(load["achieved"].as_u64().unwrap() > 0, "{load}");
        let done: u64 = load["offered"].as_u64().unwrap() - load["dropped"].as_u64().unwrap();
        assert_eq!(load["achieved"], done, "what was sent was answered: {load}");
        assert!(load["server_cpu_seconds"].is_number() && load["bytes_sent"].as_u64() > Some(0));
    }
    // Eight listen to four of five hashtags: two deliveries for four of five events.
    let operations = loads[4]["operations"].as_array().unwrap();
    let (published, delivered) = (&operations[0]["done"], &operations[1]["done"]);
    assert_eq!(
        published.as_u64().unwrap() * 8 / 5,
        delivered.as_u64().unwrap()
    );
    assert_eq!(
        report["tables"].as_array().unwrap().len(),
        2,
        "the disk, idle connections"
    );
    let page = std::fs::read_to_string(place.path().join("page.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 2 * parts.len());
    for outside in ["src=", "href=", "url(", "@import", "<script"] {
        assert!(!page.contains(outside), "the page needs {outside}");
    }
    relay.stop();
}

#[test]
fn two_relays_are_loaded_in_turns_with_the_same() {
    let (first, second) = (Place::new(), Place::new());
    let (a, b) = (Relay::start(&first), Relay::start(&second));
    let (a_url, b_url) = (url(&a), url(&b));
    let more = [
        "--vs",
        &b_url,
        "--rounds",
        "2",
        "--seconds",
        "1",
        "--phases",
        "publish",
    ];
    first.run(&small(&a_url, &more)).ok();
    let report = report(&first);
    let loads = report["loads"].as_array().unwrap();
    let turns: String = loads
        .iter()
        .map(|load| load["at"].as_str().unwrap())
        .collect();
    assert_eq!(turns, "ABABABABABAB");
    for pair in loads.chunks(2) {
        assert_eq!(pair[0]["offered"], pair[1]["offered"]);
    }
    let comparison = &report["comparisons"][0];
    assert_eq!(comparison["ratios"].as_array().unwrap().len(), 2);
    assert!(
        report["notes"][0].as_str().unwrap().contains("nobody said"),
        "durability is asked for"
    );
    a.stop();
    b.stop();
}

#[test]
fn a_level_gives_points_for_what_was_done() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let url = url(&relay);
    place
        .run(&small(&url, &["--level", "1", "--seconds", "1"]))
        .ok();
    let report = report(&place);
    assert_eq!(report["loads"][0]["offered"], 100);
    // Ninety questions and ten events.
    assert_eq!(report["scores"][0]["points"], 90 + 10 * 5);
    relay.stop();
}

#[test]
fn a_climb_ends_where_the_target_breaks() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let url = url(&relay);
    // No relay answers within a nanosecond.
    let more = [
        "--level",
        "auto",
        "--seconds",
        "0.3",
        "--target-ms",
        "0.000001",
    ];
    place.run(&small(&url, &more)).ok();
    let report = report(&place);
    let notes = report["notes"].to_string();
    assert!(notes.contains("does not hold the first step"), "{notes}");
    assert_eq!(report["scores"].as_array().unwrap().len(), 0);
    relay.stop();
}

#[test]
fn an_interrupted_run_reports_what_it_has() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let url = url(&relay);
    let args = small(
        &url,
        &["--rounds", "1000", "--seconds", "1", "--phases", "publish"],
    );
    let mut child = place
        .command(&args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.find(|line| line.as_ref().unwrap().contains("round 1"));
    assert!(first.is_some());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    // Whatever it says from here on: a full pipe would stop it.
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let report = report(&place);
    assert_eq!(report["end"]["outcome"], "interrupted");
    assert!(!report["loads"].as_array().unwrap().is_empty());
    relay.stop();
}

#[test]
fn a_server_elsewhere_is_not_loaded_unasked() {
    let place = Place::new();
    let said = place
        .run(&["bench", "relay", "ws://192.0.2.1:7777"])
        .failed(2);
    assert!(said.contains("--i-own-this-server"), "{said}");
}

#[test]
fn generated_events_are_signed() {
    let place = Place::new();
    let corpus = place.run(&["bench", "generate", "--events", "500"]).ok();
    let imported = place
        .run_with(&["import", "--strict", "--json"], corpus.as_bytes())
        .json();
    let count = |name: &str| imported[name].as_u64().unwrap();
    assert!(count("stored") > 400, "{imported}");
    assert_eq!(imported["invalid"]["wrong_signature"], 0, "{imported}");
}

/// What is done to the events of an honest relay on their way.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Tampering {
    /// Nothing, but an AUTH greets whoever connects.
    Greeting,
    /// Nothing, but an answered subscription is closed, as rust-nostr's relay does it.
    Closing,
    Losing,
    Doubling,
    Swapping,
    Altering,
}

/// A proxy before a relay that tampers with the events behind the first so many.
fn tampering(relay: &Relay, how: Tampering, after: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let relay = relay.address.clone();
    let seen = Arc::new(AtomicUsize::new(0));
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let server = TcpStream::connect(&relay).unwrap();
            client.set_nodelay(true).unwrap();
            server.set_nodelay(true).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            // Both end when either side is gone.
            thread::spawn(move || std::io::copy(&mut from, &mut to));
            let seen = seen.clone();
            thread::spawn(move || pass(server, client, how, after, &seen));
        }
    });
    url
}

fn pass(
    server: TcpStream,
    mut client: TcpStream,
    how: Tampering,
    after: usize,
    seen: &AtomicUsize,
) -> Option<()> {
    let mut server = BufReader::new(server);
    let mut line = Vec::new();
    while line != b"\r\n" {
        line.clear();
        if server.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        client.write_all(&line).ok()?;
    }
    if how == Tampering::Greeting {
        client
            .write_all(&framed(br#"["AUTH","a challenge"]"#))
            .ok()?;
    }
    let mut held: Option<Vec<u8>> = None;
    loop {
        let (first, payload) = frame(&mut server)?;
        if first != 0x81 {
            client
                .write_all(&[&[first, payload.len() as u8], payload.as_slice()].concat())
                .ok()?;
            continue;
        }
        let is_event = payload.starts_with(b"[\"EVENT\"");
        let tampered = is_event && seen.fetch_add(1, Ordering::Relaxed) >= after;
        let mut out = framed(&payload);
        match how {
            Tampering::Closing => {
                let text = String::from_utf8_lossy(&payload);
                if let Some(rest) = text.strip_prefix("[\"EOSE\",\"") {
                    let name = rest.split('"').next()?;
                    let closed = format!("[\"CLOSED\",\"{name}\",\"\"]");
                    out.extend(framed(closed.as_bytes()));
                }
            }
            Tampering::Losing if tampered => out.clear(),
            Tampering::Doubling if tampered => out.extend(framed(&payload)),
            Tampering::Altering if tampered => {
                let text = String::from_utf8(payload).unwrap();
                out = framed(
                    text.replace("\"content\":\"", "\"content\":\"not ")
                        .as_bytes(),
                );
            }
            Tampering::Swapping if tampered && held.is_none() => {
                held = Some(std::mem::take(&mut out));
            }
            _ => out.extend(held.take().unwrap_or_default()),
        }
        client.write_all(&out).ok()?;
    }
}

/// Reads one frame of a server: its first byte, and its payload.
fn frame(server: &mut impl Read) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    server.read_exact(&mut head).ok()?;
    let length = match head[1] {
        126 => {
            let mut length = [0; 2];
            server.read_exact(&mut length).ok()?;
            usize::from(u16::from_be_bytes(length))
        }
        127 => {
            let mut length = [0; 8];
            server.read_exact(&mut length).ok()?;
            usize::try_from(u64::from_be_bytes(length)).unwrap()
        }
        short => usize::from(short),
    };
    let mut payload = vec![0; length];
    server.read_exact(&mut payload).ok()?;
    Some((head[0], payload))
}

fn framed(payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x81, 127];
    out.extend((payload.len() as u64).to_be_bytes());
    out.extend(payload);
    out
}

#[test]
fn a_greeting_is_not_taken_for_an_answer() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let url = tampering(&relay, Tampering::Greeting, 0);
    let more = [
        "--rounds",
        "1",
        "--seconds",
        "1",
        "--phases",
        "publish,query,subscribe",
    ];
    let out = place.run(&small(&url, &more)).ok();
    assert!(out.contains("passed"), "{out}");
    relay.stop();
}

#[test]
fn a_subscription_that_is_closed_behind_its_answer_is_answered() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let url = tampering(&relay, Tampering::Closing, 0);
    let more = [
        "--rounds",
        "1",
        "--seconds",
        "1",
        "--phases",
        "publish,query",
    ];
    let out = place.run(&small(&url, &more)).ok();
    assert!(out.contains("passed"), "{out}");
    relay.stop();
}

#[test]
fn a_wrong_answer_ends_the_run_without_a_score() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let honest = url(&relay);
    place
        .run(&small(&honest, &["--level", "1", "--seconds", "0.1"]))
        .ok();
    for (how, reason) in [
        (Tampering::Losing, "is missing"),
        (Tampering::Doubling, "came twice"),
        (Tampering::Swapping, "newest first"),
        (Tampering::Altering, "other fields"),
    ] {
        // At once: the check before the load finds it.
        let url = tampering(&relay, how, 0);
        let said = place
            .run(&small(&url, &["--level", "1", "--seconds", "1"]))
            .failed(1);
        assert!(said.contains(reason), "{how:?}: {said}");
        if how == Tampering::Altering {
            // Under load ids are compared; a client that read every field would be slower.
            continue;
        }
        // Behind the check, which compares some thousand events: the load finds it.
        let events = 6_000;
        let url = tampering(&relay, how, events);
        let more = [
            "--phases",
            "query",
            "--rounds",
            "50",
            "--operations",
            "3000",
            "--seconds",
            "2",
        ];
        let said = place.run(&small(&url, &more)).failed(1);
        assert!(
            said.contains(reason) && said.contains("query, one at a time"),
            "{how:?}: {said}"
        );
        let report = report(&place);
        assert_eq!(report["end"]["outcome"], "failed");
        assert_eq!(report["scores"].as_array().unwrap().len(), 0);
    }
    relay.stop();
}

#[test]
fn a_shape_that_a_relay_answers_wrongly_can_be_left_out_and_the_report_says_so() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let wrong = tampering(&relay, Tampering::Swapping, 0);
    let mut more = vec![
        "--phases",
        "query",
        "--rounds",
        "1",
        "--seconds",
        "1",
        "--one-by-one",
    ];
    for shape in [
        "timeline of 300",
        "notifications",
        "thread",
        "engagement of 70 notes",
        "profiles of 300",
        "hashtag",
        "ids (50)",
        "author page",
        "global (200)",
        "hashtag within follows",
        "two tags",
        "time window",
        "rare author, popular tag",
    ] {
        more.extend(["--without-shape", shape]);
    }
    place.run(&small(&wrong, &more)).ok();
    let report = report(&place);
    assert!(
        report["notes"]
            .to_string()
            .contains("not asked (--without-shape): timeline of 300,"),
        "{report}"
    );
    more.extend(["--without-shape", "nothing"]);
    let said = place.run(&small(&wrong, &more)).failed(2);
    assert!(said.contains("no question is left to ask"), "{said}");
    let said = place
        .run(&small(&wrong, &["--without-shape", "everything"]))
        .failed(2);
    assert!(said.contains("timeline of 300"), "{said}");
    relay.stop();
}

#[test]
fn a_lost_or_doubled_delivery_is_a_wrong_answer() {
    let place = Place::new();
    let relay = Relay::start(&place);
    for (how, reason) in [
        (Tampering::Losing, "never came"),
        (Tampering::Doubling, "delivered twice"),
    ] {
        let url = tampering(&relay, how, 6_000);
        let more = [
            "--phases",
            "subscribe",
            "--rounds",
            "50",
            "--operations",
            "3000",
            "--rate",
            "20000",
            "--seconds",
            "2",
            "--patience",
            "2",
        ];
        let said = place.run(&small(&url, &more)).failed(1);
        assert!(said.contains(reason), "{how:?}: {said}");
    }
    relay.stop();
}
