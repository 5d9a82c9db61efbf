//! Thousands of connections at once: idle ones, half-sent requests, and clients that read nothing
//! harm nobody.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    num::NonZeroUsize,
    sync::Arc,
};

use hikyaku_table_server::{Count, TableServerConfig};
use hikyaku_tables::{FixedOptions, FixedTable, MemoryOptions, MemoryTable, Table};
use hikyaku_vfs::SimulatedDisk;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{
    running::{Running, loopback},
    wire::{found, say, tyrant, tyrant_strings},
};

/// Connections of each sort.
const EACH: usize = 800;
/// Clients that read nothing: each takes some megabytes of the system's memory.
const DEAF: usize = 20;

/// Makes sure that so many files can be open; false if the system does not let us.
fn may_open(files: usize) -> bool {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let files = files as u64;
    if current.is_none_or(|current| current >= files) {
        return true;
    }
    let is_allowed = maximum.is_none_or(|maximum| maximum >= files);
    let wanted = Rlimit {
        current: Some(files),
        maximum,
    };
    is_allowed && setrlimit(Resource::Nofile, wanted).is_ok()
}

/// One worker, so that whoever is harmed is harmed by the others; a fixed table is the default.
fn start() -> Running {
    let disk = SimulatedDisk::new(1).disk();
    disk.create_dir_all("/t".as_ref()).unwrap();
    let options = FixedOptions {
        width: 8,
        size_limit: 1 << 20,
    };
    let fixed = FixedTable::open(&disk, "/t/f".as_ref(), options, None).unwrap();
    let memory = MemoryTable::new(MemoryOptions::default(), None);
    let tables: [(&str, Arc<dyn Table>); 2] =
        [("seen", Arc::new(fixed)), ("names", Arc::new(memory))];
    let tables = tables.map(|(name, table)| (name.to_owned(), table));
    let config = TableServerConfig {
        workers: NonZeroUsize::new(1),
        ..loopback()
    };
    Running::with_tables(config, tables.into())
}

/// Asks both tables by both protocols.
fn is_served(text: &mut TcpStream, binary: &mut TcpStream) {
    say(text, b"set 1 0 0 1\r\nx\r\n", b"STORED\r\n");
    say(text, b"get 1 2\r\n", b"VALUE 1 0 1\r\nx\r\nEND\r\n");
    say(binary, &tyrant_strings(0x10, &[b"names:n", b"y"]), &[0]);
    say(binary, &tyrant_strings(0x30, &[b"names:n"]), &found(b"y"));
}

#[test]
fn thousands_of_idle_half_sent_and_deaf_clients_harm_nobody() {
    let connections = 3 * EACH + DEAF;
    if !may_open(2 * connections + 200) {
        eprintln!("not run: this system allows too few open files for {connections} connections");
        return;
    }
    let server = start();
    let (mut text, mut binary) = (server.connect(), server.connect());
    let idle: Vec<_> = (0..EACH).map(|_| server.connect()).collect();
    is_served(&mut text, &mut binary);
    let half_sent = |request: &[u8]| {
        let mut client = server.connect();
        client.write_all(request).unwrap();
        client
    };
    let texts: Vec<_> = (0..EACH)
        .map(|number| {
            let request = format!("set names:{number} 0 0 100000\r\nbegun");
            // A part of the line, the line, and a part of the block.
            half_sent(&request.as_bytes()[..request.len() - number % 30])
        })
        .collect();
    is_served(&mut text, &mut binary);
    let value = vec![b'v'; 100_000];
    let binaries: Vec<_> = (0..EACH)
        .map(|number| {
            let key = format!("names:b{number}");
            let whole = tyrant_strings(0x10, &[key.as_bytes(), &value]);
            half_sent(&whole[..=number % 30])
        })
        .collect();
    is_served(&mut text, &mut binary);
    say(&mut text, b"set names:big 0 0 100000\r\n", b"");
    say(&mut text, &value, b"");
    say(&mut text, b"\r\n", b"STORED\r\n");
    let deaf: Vec<_> = (0..DEAF)
        .map(|_| {
            let mut client = server.connect();
            client.set_nonblocking(true).unwrap();
            let asked = b"get names:big\r\n".repeat(100);
            // Until nothing more is taken: the server does not read on while it can't answer.
            let full = (0..10_000).find_map(|_| client.write(&asked).err());
            assert_eq!(full.unwrap().kind(), ErrorKind::WouldBlock);
            client
        })
        .collect();
    for _ in 0..20 {
        is_served(&mut text, &mut binary);
    }
    let open = server.metrics.get(Count::ConnectionsOpened);
    assert_eq!(open, connections as u64 + 2);
    assert_eq!(server.metrics.get(Count::ConnectionsClosed), 0);
    // Who ends what it has begun is answered, and who was idle is served.
    for (number, mut client) in texts.into_iter().enumerate() {
        let request = format!("set names:{number} 0 0 100000\r\nbegun");
        let sent = request.len() - number % 30;
        let rest = [&request.as_bytes()[sent..], &value[5..], b"\r\n"].concat();
        say(&mut client, &rest, b"STORED\r\n");
    }
    for (number, mut client) in binaries.into_iter().enumerate() {
        let key = format!("names:b{number}");
        let whole = tyrant_strings(0x10, &[key.as_bytes(), &value]);
        say(&mut client, &whole[1 + number % 30..], &[0]);
    }
    for mut client in idle {
        say(&mut client, b"mn\r\n", b"MN\r\n");
    }
    // What nobody read is all there for who reads it after all.
    let mut late = deaf.into_iter().next().unwrap();
    late.set_nonblocking(false).unwrap();
    let answer = [&b"VALUE names:big 0 100000\r\n"[..], &value, b"\r\nEND\r\n"].concat();
    let mut heard = vec![0; 50 * answer.len()];
    late.read_exact(&mut heard).unwrap();
    assert!(heard == answer.repeat(50));
}

#[test]
fn commands_that_come_in_turns_byte_by_byte_do_not_mix() {
    let server = start();
    let requests = |number: usize| -> (Vec<u8>, Vec<u8>) {
        let key = number + 1;
        match number % 4 {
            0 => (
                format!("set {key} 0 0 5\r\n{number:05}\r\nget {key}\r\n").into(),
                format!("STORED\r\nVALUE {key} 0 5\r\n{number:05}\r\nEND\r\n").into(),
            ),
            1 => (
                format!("ms names:{key} 5 c\r\n{number:05}\r\nmg names:{key} v\r\n").into(),
                format!("HD c{number:05}\r\nVA 5\r\n{number:05}\r\n").into(),
            ),
            2 => {
                let key = key.to_string();
                let put = tyrant_strings(0x10, &[key.as_bytes(), b"binary"]);
                let get = tyrant_strings(0x30, &[key.as_bytes()]);
                ([put, get].concat(), [vec![0], found(b"binary")].concat())
            }
            _ => {
                let key = format!("names:{key}");
                let put = tyrant_strings(0x18, &[key.as_bytes(), b"silent"]);
                let add = tyrant(0x60, &[key.len() as u32 + 1, 7], &[key.as_bytes(), b"n"]);
                let get = tyrant_strings(0x30, &[key.as_bytes()]);
                let answers = [&[0, 0, 0, 0, 7][..], &found(b"silent")].concat();
                ([put, add, get].concat(), answers)
            }
        }
    };
    let mut clients: Vec<_> = (0..400)
        .map(|number| {
            let client = server.connect();
            client.set_nodelay(true).unwrap();
            (client, requests(number))
        })
        .collect();
    let longest = clients.iter().map(|(_, (request, _))| request.len()).max();
    for at in 0..longest.unwrap() {
        for (client, (request, _)) in &mut clients {
            if let Some(byte) = request.get(at) {
                client.write_all(&[*byte]).unwrap();
            }
        }
    }
    for (client, (_, answer)) in &mut clients {
        if !answer.starts_with(b"HD") {
            say(client, b"", answer);
            continue;
        }
        // The unique number is the table's own.
        let mut heard = vec![0; 3];
        client.read_exact(&mut heard).unwrap();
        assert_eq!(heard, b"HD ");
        let mut byte = [0];
        while byte != *b"\n" {
            client.read_exact(&mut byte).unwrap();
        }
        let value = answer.iter().position(|byte| *byte == b'\n').unwrap();
        say(client, b"", &answer[value + 1..]);
    }
}
