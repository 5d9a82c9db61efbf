//! The plugin in a real server.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::{
    io::{Read, Write},
    net::TcpStream,
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
