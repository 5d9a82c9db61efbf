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
    // Of three events the first is for those who listen to the first of the groups: two of eight.
    let mixed = loads[6]["operations"].as_array().unwrap();
    let delivery = mixed.iter().find(|it| it["operation"] == "delivery");
    assert_eq!(delivery.unwrap()["done"], 2, "{mixed:?}");
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
    interrupt_when(&place, &args, "round 1");
    let report = report(&place);
    assert_eq!(report["end"]["outcome"], "interrupted");
    assert!(!report["loads"].as_array().unwrap().is_empty());
    relay.stop();
}

/// Starts a command, sends it SIGINT when it says this, and waits for its end.
pub(crate) fn interrupt_when(place: &Place, args: &[&str], said: &str) {
    let mut child = place
        .command(args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.find(|line| line.as_ref().unwrap().contains(said));
    assert!(first.is_some(), "it ended without saying {said}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    // Whatever it says from here on: a full pipe would stop it.
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn an_interrupted_climb_says_how_far_it_came() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let url = url(&relay);
    // Long steps and a far target: a machine that is busy for a moment breaks nothing.
    let more = [
        "--level",
        "auto",
        "--seconds",
        "3",
        "--target-ms",
        "60000",
        "--events",
        "500",
    ];
    interrupt_when(&place, &small(&url, &more), "auto, 100/s, A, round 1");
    let report = report(&place);
    assert_eq!(report["end"]["outcome"], "interrupted");
    let notes = report["notes"].to_string();
    assert!(notes.contains("A holds 100 operations a second"), "{notes}");
    assert!(notes.contains("the climb was interrupted"), "{notes}");
    assert_eq!(report["scores"].as_array().unwrap().len(), 1);
    relay.stop();
}

#[test]
fn a_generator_and_a_run_that_still_prepares_end_when_they_are_interrupted() {
    let place = Place::new();
    let mut child = place
        .command(&["bench", "generate", "--events", "100000000"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut last = Vec::new();
    lines.read_to_end(&mut last).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(last.last(), Some(&b'\n'), "the last event is whole");

    let relay = Relay::start(&place);
    let url = url(&relay);
    let args = small(&url, &["--events", "5000000"]);
    interrupt_when(&place, &args, "making a corpus");
    relay.stop();
}

#[test]
fn a_server_that_says_nothing_is_not_called_wrong_when_the_run_is_interrupted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let place = Place::new();
    let mut child = place
        .command(&small(&url, &["--events", "100"]))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The first connection only finds out that somebody listens.
    let (_first, _) = listener.accept().unwrap();
    let (mut second, _) = listener.accept().unwrap();
    let mut request = [0; 16];
    second.read_exact(&mut request).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(report(&place)["end"]["outcome"], "interrupted");
}

#[test]
fn numbers_that_no_run_can_carry_out_are_refused_at_once() {
    let place = Place::new();
    // Nobody listens there: what is refused is refused before anybody is asked.
    let relay = ["bench", "relay", "ws://127.0.0.1:1"];
    let tables = ["bench", "tables", "127.0.0.1:1"];
    let http = ["bench", "http", "http://127.0.0.1:1"];
    for (command, option, values) in [
        (
            &relay[..],
            "--rate",
            &["inf", "0", "-5", "nan", "1e300"][..],
        ),
        (&relay, "--seconds", &["0", "-1", "1e300"]),
        (&relay, "--patience", &["0", "nan"]),
        (&relay, "--window", &["0", "1001"]),
        (&relay, "--connections", &["0"]),
        (&relay, "--operations", &["0", "3000000"]),
        (&relay, "--questions", &["0"]),
        (&relay, "--target-ms", &["0", "nan"]),
        (&tables, "--rate", &["inf", "0"]),
        (&tables, "--seconds", &["0"]),
        (&tables, "--operations", &["0"]),
        (&tables, "--value-bytes", &["0"]),
        (&http, "--rate", &["inf", "0"]),
        (&http, "--seconds", &["nan"]),
        (&http, "--operations", &["0"]),
    ] {
        for value in values {
            let typed = format!("{option}={value}");
            let said = place.run(&[command, &[&typed]].concat()).failed(2);
            assert!(said.contains(option), "{typed}: {said}");
        }
    }
    let long = [&relay[..], &["--level", "3", "--seconds", "3600"]].concat();
    let said = place.run(&long).failed(2);
    assert!(said.contains("are 36000000"), "{said}");
}

#[test]
fn no_part_has_more_operations_than_was_said() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let url = url(&relay);
    let more = [
        "--phases",
        "mixed",
        "--rate",
        "1000",
        "--seconds",
        "2",
        "--operations",
        "50",
        "--rounds",
        "1",
    ];
    place.run(&small(&url, &more)).ok();
    assert_eq!(report(&place)["loads"][0]["offered"], 50);
    let more = ["--level", "2", "--seconds", "1", "--operations", "40"];
    place.run(&small(&url, &more)).ok();
    assert_eq!(report(&place)["loads"][0]["offered"], 40);
    relay.stop();
}

#[test]
fn a_report_that_can_not_be_written_is_told_before_the_load() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let url = url(&relay);
    let said = place
        .run(&["bench", "relay", &url, "--json", "nowhere/report.json"])
        .failed(1);
    assert!(said.contains("nowhere/report.json"), "{said}");
    assert!(!said.contains("making a corpus"), "{said}");
    relay.stop();
}

#[test]
fn a_data_folder_is_weighed_and_a_relay_is_started_by_the_commands() {
    let place = Place::new();
    let corpus = place.run(&["bench", "generate", "--events", "300"]).ok();
    place.write("corpus.jsonl", &corpus);
    place.run_with(&["import"], corpus.as_bytes()).ok();
    let data = place.data();
    let data = data.to_str().unwrap();
    let weighed = place
        .run(&["bench", "disk", data, "corpus.jsonl", "--json"])
        .json();
    let rows = weighed.as_array().unwrap();
    assert_eq!(rows[0]["what"], "JSON of the stored events");
    assert!(rows[0]["MB"].as_f64() > Some(0.0), "{weighed}");
    assert_eq!(rows.last().unwrap()["what"], "data folder");

    let program = env!("CARGO_BIN_EXE_hikyaku");
    let args = ["bench", "start", "--server", program, "--data", "started"];
    let more = ["--rounds", "1", "--events", "200", "--json"];
    let started = place.run(&[&args[..], &more].concat()).json();
    let rows = started.as_array().unwrap();
    let counted: Vec<_> = rows
        .iter()
        .map(|row| (&row["after"], &row["starts"]))
        .collect();
    assert_eq!(
        counted,
        [
            (&"a clean stop".into(), &1.into()),
            (&"kill -9".into(), &1.into())
        ]
    );
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
    /// Of what is delivered live, everything is lost; answers are left alone.
    LosingLive,
    DoublingLive,
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
        let is_event = match how {
            Tampering::LosingLive | Tampering::DoublingLive => {
                payload.starts_with(b"[\"EVENT\",\"live\"")
            }
            _ => payload.starts_with(b"[\"EVENT\""),
        };
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
            Tampering::Losing | Tampering::LosingLive if tampered => out.clear(),
            Tampering::Doubling | Tampering::DoublingLive if tampered => {
                out.extend(framed(&payload));
            }
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
            // Behind the end of an answer it would be missing there, not out of its place.
            _ if !is_event => out = [held.take().unwrap_or_default(), out].concat(),
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

#[test]
fn a_lost_or_doubled_delivery_of_a_mixed_load_is_a_wrong_answer() {
    let place = Place::new();
    let relay = Relay::start(&place);
    let honest = url(&relay);
    let level = ["--level", "1", "--seconds", "0.2"];
    place.run(&small(&honest, &level)).ok();
    for (how, reason) in [
        (Tampering::LosingLive, "never came"),
        (Tampering::DoublingLive, "delivered twice"),
    ] {
        let url = tampering(&relay, how, 0);
        for load in [
            &["--phases", "mixed", "--rounds", "1"][..],
            &["--level", "1"],
            &["--level", "auto"],
        ] {
            let bounds = ["--seconds", "0.5", "--patience", "2"];
            let said = place.run(&small(&url, &[load, &bounds].concat())).failed(1);
            assert!(said.contains(reason), "{how:?}, {load:?}: {said}");
            let report = report(&place);
            assert_eq!(report["scores"].as_array().unwrap().len(), 0);
        }
    }
    relay.stop();
}
