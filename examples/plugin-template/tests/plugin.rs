//! The plugin in a real server.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
};

use hikyaku_server::{Server, ServerConfig};
use hikyaku_store::testing::NaiveStore;

#[test]
fn the_page_is_answered() {
    let config = ServerConfig::new(([127, 0, 0, 1], 0).into());
    let server = Server::new(config, Arc::new(NaiveStore::new()));
    let server = hikyaku_plugin_template::serve(server).bind().unwrap();
    let address = server.address();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = thread::spawn(move || {
        server.run(async {
            let _ = stopped.await;
        })
    });
    let mut stream = TcpStream::connect(address).unwrap();
    let request = "GET /longest HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\n0\n"), "{answer}");
    drop(stop);
    serving.join().unwrap().unwrap();
}

#[test]
fn the_command_is_carried_out() {
    let config = ServerConfig::new(([127, 0, 0, 1], 0).into());
    let server = Server::new(config, Arc::new(NaiveStore::new()));
    let server = hikyaku_plugin_template::serve(server);
    server.run_command("explain", Vec::new()).unwrap();
}

fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hikyaku-plugin-template"));
    command.current_dir(folder).args(arguments);
    command
}

#[test]
fn the_program_serves_the_plugin_as_it_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let listen = "listen = \"127.0.0.1:0\"\ncors_origins = [\"https://app.example.com\"]\n[policy]\nkinds_denied = [4]\n";
    fs::write(folder.path().join("hikyaku.toml"), listen).unwrap();
    let mut serving = program(folder.path(), &["serve"]);
    let mut serving = serving.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(serving.stderr.take().unwrap());
    let address = loop {
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended");
        if let Some((_, address)) = line.trim_end().split_once("ready at ws://") {
            break address.to_owned();
        }
    };
    let get = |path: &str, accept: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: r\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let page = get("/longest", "*/*");
    assert!(page.ends_with("\r\n\r\n0\n"), "{page}");
    // Read by pages of one other origin; others are told nothing.
    let from = |origin: &str| get("/longest", &format!("*/*\r\nOrigin: {origin}"));
    let allowed = "access-control-allow-origin: https://app.example.com\r\n";
    let answer = from("https://app.example.com").to_lowercase();
    assert!(answer.contains(allowed), "{answer}");
    let answer = from("https://other.example.com").to_lowercase();
    assert!(!answer.contains("access-control-allow-origin"), "{answer}");
    // The configuration's policies are there beside it.
    let document = get("/", "application/nostr+json");
    assert!(
        document.contains("\"restricted_writes\":true"),
        "{document}"
    );
    // The program's own commands find the server.
    let counted = program(folder.path(), &["count", "{}"]).output().unwrap();
    assert_eq!(counted.stdout, b"0\n", "{counted:?}");
    serving.kill().unwrap();
    serving.wait().unwrap();
}

#[test]
fn the_program_has_the_plugins_commands_beside_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let explained = program(folder.path(), &["explain"]).output().unwrap();
    assert!(explained.status.success(), "{explained:?}");
    assert!(explained.stdout.starts_with(b"notes of more than 280"));
    let unknown = program(folder.path(), &["nonsense"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(
        said.contains("`nonsense`") && said.contains("explain: "),
        "{said}"
    );
}
