//! The access log by configuration: its file, and what becomes of it when it is rotated.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
};

use rustix::process::Signal;

use crate::program::{Place, Relay};

fn get(relay: &Relay, path: &str) {
    let mut stream = TcpStream::connect(&relay.address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream.read_to_string(&mut String::new()).unwrap();
}

#[test]
fn a_rotated_access_log_goes_on_in_a_new_file() {
    let place = Place::new();
    place.write("hikyaku.toml", "[access_log]\npath = \"access.log\"\n");
    place.write("access.log", "what was there\n");
    let relay = Relay::start(&place);
    let (current, old) = (
        place.path().join("access.log"),
        place.path().join("access.log.1"),
    );
    get(&relay, "/before?token=secret");
    while !fs::read_to_string(&current).unwrap().contains("/before") {}
    fs::rename(&current, &old).unwrap();
    relay.signal(Signal::HUP);
    while !current.exists() {}
    get(&relay, "/after");
    relay.stop();
    let (old, current) = (
        fs::read_to_string(old).unwrap(),
        fs::read_to_string(current).unwrap(),
    );
    let [kept, before] = old.lines().collect::<Vec<_>>()[..] else {
        panic!("{old}");
    };
    assert_eq!(kept, "what was there");
    assert!(before.starts_with("127.0.0.1 - - ["), "{before}");
    assert!(before.contains("\"GET /before HTTP/1.1\" 404 "), "{before}");
    assert_eq!(current.lines().count(), 1, "{current}");
    assert!(
        current.contains("\"GET /after HTTP/1.1\" 404 "),
        "{current}"
    );
}

#[test]
fn a_dash_is_standard_error_and_a_file_that_cannot_be_opened_is_an_error() {
    let place = Place::new();
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("HIKYAKU_ACCESS_LOG_PATH", "-");
    command.env("HIKYAKU_ACCESS_LOG_FORMAT", "json");
    let relay = Relay::spawn(command);
    get(&relay, "/");
    relay.signal(Signal::TERM);
    let (status, log) = relay.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("\"path\":\"/\""), "{log}");
    place.write(
        "hikyaku.toml",
        "[access_log]\npath = \"missing/access.log\"\n",
    );
    let said = place.run(&["serve", "--listen", "127.0.0.1:0"]).failed(1);
    assert!(said.contains("can't write the access log to "), "{said}");
}
