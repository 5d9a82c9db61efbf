//! `hikyaku bench http` against routes of the real server, and against one that changes its mind.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    thread,
};

use serde_json::Value;

use crate::program::{Place, Relay};

fn args<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["bench", "http", url, "--operations", "300", "--rounds", "2"];
    args.extend(["--seconds", "1", "--rate", "300", "--json", "report.json"]);
    args.extend(more);
    args
}

fn report(place: &Place) -> Value {
    let text = std::fs::read_to_string(place.path().join("report.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_route_of_two_servers_is_loaded_in_turns() {
    let (first, second) = (Place::new(), Place::new());
    let (a, b) = (Relay::start(&first), Relay::start(&second));
    let (a_url, b_url) = (
        format!("http://{}/", a.address),
        format!("http://{}/", b.address),
    );
    let more = [
        "--vs",
        &b_url,
        "--header",
        "Accept: application/nostr+json",
        "--connections",
        "1,3",
        "--reconnect",
        "50",
        "--html",
        "page.html",
        // Each names itself in its document.
        "--varying",
    ];
    let out = first.run(&args(&a_url, &more)).ok();
    assert!(out.contains("passed: every answer was right"), "{out}");
    let report = report(&first);
    let loads = report["loads"].as_array().unwrap();
    let turns: String = loads
        .iter()
        .map(|load| load["at"].as_str().unwrap())
        .collect();
    assert_eq!(turns, "ABABABABABAB");
    for load in loads {
        assert_eq!(load["failed"], 0, "{load}");
        assert_eq!(load["achieved"], load["offered"], "{load}");
        assert!(load["achieved"].as_u64() > Some(0), "{load}");
    }
    let page = std::fs::read_to_string(first.path().join("page.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 2 * 3);
    a.stop();
    b.stop();
}

/// A server whose body is another one from this answer on.
fn changing(from: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut answered = 0;
        // One connection after the other: whoever waits is served when the one before is gone.
        for client in listener.incoming() {
            let mut client = client.unwrap();
            client.set_nodelay(true).unwrap();
            let lines = BufReader::new(client.try_clone().unwrap()).lines();
            for line in lines.map_while(Result::ok) {
                if !line.is_empty() {
                    continue;
                }
                answered += 1;
                let body = if answered >= from { "wrong" } else { "right" };
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
                if client
                    .write_all(format!("{head}{body}").as_bytes())
                    .is_err()
                {
                    break;
                }
            }
        }
    });
    url
}

#[test]
fn an_answer_that_changes_ends_the_run() {
    let place = Place::new();
    let one = ["--connections", "1"];
    place.run(&args(&changing(usize::MAX), &one)).ok();
    let said = place.run(&args(&changing(400), &one)).failed(1);
    assert!(said.contains("another body than the first one"), "{said}");
    assert_eq!(report(&place)["end"]["outcome"], "failed");
}

#[test]
fn an_interrupted_run_of_a_route_reports_what_it_has() {
    let place = Place::new();
    let url = changing(usize::MAX);
    let mut args = args(&url, &["--connections", "1"]);
    args.retain(|it| *it != "2");
    let at = args.iter().position(|it| *it == "--rounds").unwrap();
    args.insert(at + 1, "1000");
    crate::bench::interrupt_when(&place, &args, "1 connection, A, round 1");
    let report = report(&place);
    assert_eq!(report["end"]["outcome"], "interrupted");
    assert!(!report["loads"].as_array().unwrap().is_empty());
}

#[test]
fn a_route_elsewhere_is_not_loaded_unasked() {
    let said = Place::new()
        .run(&["bench", "http", "http://192.0.2.1/"])
        .failed(2);
    assert!(said.contains("--i-own-this-server"), "{said}");
}
