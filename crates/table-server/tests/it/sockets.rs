//! Connections: where they are accepted, what they need, and when they end.

use std::{
    io::Write, num::NonZeroUsize, os::unix::net::UnixStream, sync::Arc, thread, time::Duration,
};

use hikyaku_table_server::{Count, TableServer, TableServerConfig, TableServerError};
use hikyaku_tables::{
    Attributes, Change, Logging, MemoryOptions, MemoryTable, Stamp, Table, Tables, TablesOptions,
    Update,
};
use hikyaku_vfs::{Disk, RealDisk};

use crate::{
    running::{Running, loopback},
    wire::{ends, say},
};

#[test]
fn requests_are_answered_however_they_are_cut() {
    let server = Running::start(loopback());
    let mut client = server.connect();
    client.set_nodelay(true).unwrap();
    for byte in b"mn\r\nnonsense\r\nmn\r\n" {
        client.write_all(&[*byte]).unwrap();
    }
    say(&mut client, b"", b"MN\r\nERROR\r\nMN\r\n");
    say(
        &mut client,
        &b"mn\r\n".repeat(100_000),
        &b"MN\r\n".repeat(100_000),
    );
    client.write_all(b"quit\r\n").unwrap();
    assert_eq!(ends(&mut client), b"");
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let config = TableServerConfig {
        listen: Some("0.0.0.0:0".parse().unwrap()),
        ..TableServerConfig::default()
    };
    let table: Arc<dyn Table> = Arc::new(MemoryTable::new(MemoryOptions::default(), None));
    let refused = TableServer::bind(config, vec![("main".to_owned(), table)]);
    assert!(matches!(refused, Err(TableServerError::TokenMissing(_))));
}

#[test]
fn nothing_is_done_without_the_token() {
    let server = Running::start(TableServerConfig {
        token: Some("secret".to_owned()),
        ..loopback()
    });
    for wrong in [
        &b"version\r\n"[..],
        b"set a 0 0 5\r\nwrong\r\n",
        b"set a 0 0 7\r\nsecret!\r\n",
        b"set a 0 0 0\r\n\r\n",
        b"set a 0 0 -1\r\n",
        b"set a 0 0 99999999999999999999\r\n",
        &[b'x'; 5000],
    ] {
        let mut client = server.connect();
        client.write_all(wrong).unwrap();
        client.write_all(b"mn\r\n").unwrap();
        let heard = ends(&mut client);
        assert!(
            heard.starts_with(b"CLIENT_ERROR "),
            "{}",
            heard.escape_ascii()
        );
        assert!(!heard.ends_with(b"MN\r\n"));
    }
    for right in [
        &b"set a 0 0 6\r\nsecret\r\n"[..],
        b"set a 0 0 11\r\nuser secret\r\n",
    ] {
        let mut client = server.connect();
        say(&mut client, right, b"STORED\r\n");
        say(&mut client, b"mn\r\n", b"MN\r\n");
    }
}

#[test]
fn a_unix_socket_is_its_owners_and_goes_with_the_server() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tables.sock");
    let config = TableServerConfig {
        unix: Some(path.clone()),
        token: Some("secret".to_owned()),
        ..TableServerConfig::default()
    };
    // What a crash leaves behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = Running::start(config);
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut client = UnixStream::connect(&path).unwrap();
    say(&mut client, b"mn\r\n", b"MN\r\n");
    drop(server);
    assert_eq!(ends(&mut client), b"");
    assert!(!path.exists());
}

#[test]
fn one_connection_too_many_is_told_so() {
    let server = Running::start(TableServerConfig {
        connections_max: 2,
        ..loopback()
    });
    let mut clients = [server.connect(), server.connect()];
    for client in &mut clients {
        say(client, b"mn\r\n", b"MN\r\n");
    }
    let heard = ends(&mut server.connect());
    assert_eq!(heard, b"ERROR Too many open connections\r\n");
    for client in &mut clients {
        say(client, b"mn\r\n", b"MN\r\n");
    }
    assert_eq!(server.metrics.get(Count::ConnectionsRefused), 1);
}

#[test]
fn half_a_request_is_not_waited_for_without_end() {
    let server = Running::start(TableServerConfig {
        request_timeout: Duration::from_millis(100),
        ..loopback()
    });
    let mut idle = server.connect();
    say(&mut idle, b"mn\r\n", b"MN\r\n");
    let mut half = server.connect();
    half.write_all(b"m").unwrap();
    assert_eq!(
        ends(&mut half),
        b"SERVER_ERROR request not completed in time\r\n"
    );
    say(&mut idle, b"mn\r\n", b"MN\r\n");
}

#[test]
fn who_never_reads_is_closed_and_holds_up_nobody() {
    let server = Running::start(TableServerConfig {
        workers: NonZeroUsize::new(1),
        unread_timeout: Duration::from_millis(300),
        ..loopback()
    });
    let mut deaf = server.connect();
    let writer = thread::spawn(move || {
        let requests = b"nonsense\r\n".repeat(1000);
        // Ends with an error when the server has closed.
        while deaf.write_all(&requests).is_ok() {}
    });
    let mut other = server.connect();
    while !writer.is_finished() {
        say(&mut other, b"mn\r\n", b"MN\r\n");
    }
    writer.join().unwrap();
    assert_eq!(server.metrics.get(Count::ConnectionsOverdue), 1);
}

#[test]
fn answers_wait_for_a_synchronous_log() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Disk = Arc::new(RealDisk);
    let named = ["names=names.hash", "seen=seen.fixed?width=8"].map(|text| text.parse().unwrap());
    let options = TablesOptions {
        logging: Logging::Sync,
        ..TablesOptions::new(7)
    };
    let open = || Arc::new(Tables::open(&disk, folder.path(), &named, &options).unwrap());
    let tables = open();
    let server = Running::with_set(loopback(), &tables);
    let mut client = server.connect();
    for number in 1..50 {
        // One that is carried out in the worker, and one that its table's thread carries out.
        for set in [
            format!("set seen:{number} 0 0 1\r\nx\r\n"),
            format!("set k{number} 3 0 1\r\ny\r\n"),
        ] {
            say(&mut client, set.as_bytes(), b"STORED\r\n");
            assert!(tables.settled().is_none(), "an answer came before its log");
        }
    }
    drop((client, server));
    Arc::into_inner(tables).unwrap().close().unwrap();
    let tables = open();
    let server = Running::with_set(loopback(), &tables);
    let expected = b"VALUE seen:49 0 1\r\nx\r\nVALUE k49 3 1\r\ny\r\nEND\r\n";
    say(&mut server.connect(), b"get seen:49 k49 k50\r\n", expected);
}

#[test]
fn hundreds_of_half_sent_requests_hold_up_nobody() {
    let server = Running::start(loopback());
    let half: Vec<_> = (0..400)
        .map(|number| {
            let mut client = server.connect();
            let request = format!("set k{number} 0 0 1000000\r\nbegun");
            client.write_all(request.as_bytes()).unwrap();
            client
        })
        .collect();
    let mut other = server.connect();
    for _ in 0..100 {
        say(&mut other, b"set a 0 0 1\r\nx\r\n", b"STORED\r\n");
    }
    for mut client in half.into_iter().take(10) {
        client.write_all(&vec![b'x'; 999_995]).unwrap();
        say(&mut client, b"\r\n", b"STORED\r\n");
    }
}

#[test]
fn what_has_expired_is_removed_though_nobody_asks_for_it() {
    let table: Arc<dyn Table> = Arc::new(MemoryTable::new(MemoryOptions::default(), None));
    let update = Update {
        attributes: Attributes {
            flags: 0,
            expires_at: 1,
        },
        ..Update::new(b"k", Change::Put(b"v"))
    };
    table.update(&update, Stamp::default()).unwrap();
    assert_eq!(table.count(), 1);
    let _server = Running::with_tables(loopback(), vec![("main".to_owned(), Arc::clone(&table))]);
    while table.count() > 0 {
        thread::yield_now();
    }
}
