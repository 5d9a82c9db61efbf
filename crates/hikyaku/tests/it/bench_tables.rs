//! `hikyaku bench tables` against the real table server, and against one that is wrong on purpose.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::Value;

use crate::program::Place;

const SMALL: [&str; 14] = [
    "--keys",
    "500",
    "--operations",
    "2000",
    "--seconds",
    "1",
    "--rate",
    "2000",
    "--connections",
    "3",
    "--value-bytes",
    "8",
    "--json",
    "report.json",
];

/// Every part there is: a part more needs to be thought of here too.
const PARTS: usize = 13;

/// A running table server; killed when dropped.
struct Tables(Child, String);

impl Tables {
    fn start(place: &Place, tables: &[&str]) -> Self {
        let mut args = vec![
            "tables",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--workers",
            "1",
        ];
        for table in tables {
            args.extend(["--open", table]);
        }
        let mut command = place.command(&args);
        let mut server = Self(
            command.stderr(Stdio::piped()).spawn().unwrap(),
            String::new(),
        );
        let mut lines = BufReader::new(server.0.stderr.take().unwrap()).lines();
        let mut said = String::new();
        while server.1.is_empty() {
            let line = lines.next().unwrap_or_else(|| panic!("not ready: {said}"));
            let line = line.unwrap();
            if let Some((_, address)) = line.split_once("tables are ready at ") {
                address.clone_into(&mut server.1);
            }
            said += &line;
        }
        // What else it says is nobody's business here, but must be read.
        thread::spawn(move || lines.for_each(drop));
        server
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn args<'a>(address: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["bench", "tables", address];
    args.extend(SMALL);
    args.extend(more);
    if !more.contains(&"--rounds") {
        args.extend(["--rounds", "1"]);
    }
    args
}

fn report(place: &Place) -> Value {
    let text = std::fs::read_to_string(place.path().join("report.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn every_part_of_the_load_of_tables_passes() {
    let (first, second) = (Place::new(), Place::new());
    let a = Tables::start(&first, &["all=*"]);
    let fixed = [
        "numbers=numbers.fixed?width=8&limit=128m",
        "lists=lists.fixed?width=64&limit=1g",
    ];
    let b = Tables::start(&second, &fixed);
    let more = [
        "--vs",
        &b.1,
        "--lists",
        "lists:",
        "--html",
        "page.html",
        "--distribution",
        "zipf",
    ];
    let out = first.run(&args(&a.1, &more)).ok();
    assert!(out.contains("passed: every answer was right"), "{out}");
    let report = report(&first);
    let loads = report["loads"].as_array().unwrap();
    assert_eq!(loads.len(), 2 * PARTS);
    for load in loads {
        assert_eq!(
            (&load["failed"], &load["dropped"]),
            (&0.into(), &0.into()),
            "{load}"
        );
        assert!(load["achieved"].as_u64() > Some(0), "{load}");
        assert_eq!(load["achieved"], load["offered"], "{load}");
        assert!(load["server_memory_bytes_max"].is_number(), "{load}");
    }
    let putnr = loads
        .iter()
        .find(|load| load["part"] == "putnr, 16 KiB in a send");
    assert_eq!(putnr.unwrap()["operations"][0]["operation"], "putnr");
    let page = std::fs::read_to_string(first.path().join("page.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 2 * PARTS);
}

#[test]
fn an_interrupted_run_of_tables_reports_what_it_has() {
    let place = Place::new();
    let address = serve(Wrong::Never);
    let more = ["--parts", "set,mixed", "--rounds", "1000"];
    let said = "set, one at a time, A, round 1";
    crate::bench::interrupt_when(&place, &args(&address, &more), said);
    let report = report(&place);
    assert_eq!(report["end"]["outcome"], "interrupted");
    assert!(!report["loads"].as_array().unwrap().is_empty());
}

#[test]
fn a_run_without_any_part_is_no_success() {
    let place = Place::new();
    let address = serve(Wrong::Never);
    let said = place.run(&args(&address, &["--parts", "rotate"])).failed(2);
    assert!(said.contains("no part is left"), "{said}");
}

#[test]
fn a_server_of_tables_elsewhere_is_not_loaded_unasked() {
    for address in ["192.0.2.1:11211", "redis://192.0.2.1:6379"] {
        let said = Place::new().run(&["bench", "tables", address]).failed(2);
        assert!(said.contains("--i-own-this-server"), "{said}");
    }
}

/// What a server does with records when it has carried out some hundred requests.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wrong {
    Never,
    /// Says that it stored, and does not.
    Losing,
    /// As before, of requests that want no answer.
    LosingQuietly,
    /// Answers with what another key holds.
    Mixing,
    Refusing,
}

/// A server of memcached's protocol with few commands.
fn serve(how: Wrong) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let records = Arc::new(Mutex::new((0, HashMap::new())));
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, records) = (client.unwrap(), records.clone());
            thread::spawn(move || carry_out(&client, how, &records));
        }
    });
    address
}

type Records = Mutex<(usize, HashMap<String, Vec<u8>>)>;

fn carry_out(mut client: &TcpStream, how: Wrong, records: &Records) -> Option<()> {
    client.set_nodelay(true).ok()?;
    let mut lines = BufReader::new(client.try_clone().ok()?);
    loop {
        let mut line = Vec::new();
        if lines.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        let words: Vec<_> = line.split_whitespace().collect();
        let (count, records) = &mut *records.lock().unwrap();
        *count += 1;
        // The known state takes a thousand requests.
        let is_wrong = *count > 1_500;
        let answer = match words.as_slice() {
            ["set", key, _, _, length, quiet @ ..] => {
                let mut value = vec![0; length.parse::<usize>().unwrap() + 2];
                lines.read_exact(&mut value).ok()?;
                value.truncate(value.len() - 2);
                let lost = match how {
                    Wrong::Losing => is_wrong,
                    Wrong::LosingQuietly => is_wrong && !quiet.is_empty(),
                    _ => false,
                };
                if is_wrong && how == Wrong::Refusing {
                    "SERVER_ERROR out of memory storing object\r\n".to_owned()
                } else {
                    if !lost {
                        records.insert((*key).to_owned(), value);
                    }
                    if quiet.is_empty() { "STORED\r\n" } else { "" }.to_owned()
                }
            }
            ["get", key] => {
                let other = records.keys().find(|other| other != key);
                let found = match how {
                    Wrong::Mixing if is_wrong => other.map(String::as_str).unwrap(),
                    _ => key,
                };
                let value = String::from_utf8_lossy(&records[found]);
                format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len())
            }
            ["version"] => "VERSION 0\r\n".to_owned(),
            _ => "ERROR\r\n".to_owned(),
        };
        client.write_all(answer.as_bytes()).ok()?;
    }
}

#[test]
fn a_wrong_record_ends_the_run() {
    let place = Place::new();
    let honest = serve(Wrong::Never);
    place
        .run(&args(&honest, &["--parts", "set,get,noreply,mixed"]))
        .ok();
    for (how, part, reason) in [
        (Wrong::Losing, "mixed", "not what was written last"),
        (Wrong::Losing, "set", "is right"),
        (Wrong::LosingQuietly, "noreply", "is right"),
        (Wrong::LosingQuietly, "noreply-packed", "is right"),
        (Wrong::Mixing, "get", "is right"),
        (Wrong::Mixing, "get-pipelined", "is right"),
        (Wrong::Mixing, "mixed", "not what was written last"),
        (
            Wrong::Refusing,
            "set",
            "refused a request: SERVER_ERROR out of memory",
        ),
    ] {
        let address = serve(how);
        let said = place.run(&args(&address, &["--parts", part])).failed(1);
        assert!(said.contains(reason), "{how:?}, {part}: {said}");
        let report = report(&place);
        assert_eq!(report["end"]["outcome"], "failed", "{how:?}, {part}");
    }
}

#[test]
fn refused_writes_are_counted_by_reason() {
    let place = Place::new();
    let address = serve(Wrong::Refusing);
    place.run(&args(&address, &["--parts", "rate"])).ok();
    let report = report(&place);
    let operations = report["loads"][0]["operations"].as_array().unwrap();
    let failed = &operations[1]["failed"]["SERVER_ERROR out of memory storing object"];
    assert!(failed.as_u64() > Some(0), "{operations:?}");
    assert_eq!(
        operations[0]["failed"],
        serde_json::json!({}),
        "{operations:?}"
    );
}
