//! Tables that the relay serves on an address of their own.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

use hikyaku_postgres::testing::free_port;

use crate::{
    program::{Place, Relay},
    websocket::Client,
};

/// Sends one command of memcached's text protocol; returns the first line of the answer.
fn ask(stream: &mut BufReader<TcpStream>, command: &str) -> String {
    stream.get_mut().write_all(command.as_bytes()).unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    line
}

#[test]
fn the_relay_serves_tables_beside_itself_and_keeps_them() {
    let place = Place::new();
    let port = free_port();
    place.write(
        "hikyaku.toml",
        format!(
            "[tables]\nopen = [\"seen=seen.fixed?width=16\", \"names=names.hash\"]\n\
             listen = \"127.0.0.1:{port}\"\n"
        ),
    );
    let connect = || BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
    let relay = Relay::start(&place);
    Client::connect(&relay.address);
    let mut stream = connect();
    assert_eq!(ask(&mut stream, "set 7 0 0 5\r\nhello\r\n"), "STORED\r\n");
    assert_eq!(ask(&mut stream, "set names:a 0 0 1\r\nb\r\n"), "STORED\r\n");
    relay.stop();
    let relay = Relay::start(&place);
    let mut stream = connect();
    assert_eq!(ask(&mut stream, "get 7\r\n"), "VALUE 7 0 5\r\n");
    let mut stream = connect();
    assert_eq!(ask(&mut stream, "get names:a\r\n"), "VALUE names:a 0 1\r\n");
    relay.stop();
}

#[test]
fn tables_on_a_public_address_need_a_token() {
    let place = Place::new();
    place.write(
        "hikyaku.toml",
        "[tables]\nopen = [\"seen=seen.fixed?width=16\"]\nlisten = \"0.0.0.0:0\"\n",
    );
    let said = place.run(&["serve", "--listen", "127.0.0.1:0"]).failed(1);
    assert!(said.contains("token"), "{said}");
}

#[test]
fn a_table_that_is_none_is_refused_with_its_line() {
    let place = Place::new();
    place.write("hikyaku.toml", "[tables]\nopen = [\"seen.fixed\"]\n");
    let said = place.run(&["serve"]).failed(2);
    assert!(said.contains("NAME=TABLE") && said.contains(":2"), "{said}");
}
