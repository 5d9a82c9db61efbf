//! What the original does wrong, asked of this server over its protocols. (What kill -9 brings out
//! is asked of the whole program, in `hikyaku`'s tests.)

use std::{io::Write, net::TcpStream, num::NonZeroUsize, sync::Arc, time::Duration};

use hikyaku_table_server::TableServerConfig;
use hikyaku_tables::{Tables, TablesOptions};
use hikyaku_vfs::{Disk, RealDisk};
use tempfile::TempDir;

use crate::{
    running::{Running, loopback},
    wire::{ends, found, misc, say, tyrant, tyrant_strings, why},
};

/// A server with a fixed table, eight bytes wide, and a hash table.
struct Served {
    server: Running,
    folder: TempDir,
}

impl Served {
    fn new() -> Self {
        Self::with(|_, config| config)
    }

    fn with(
        configure: impl FnOnce(&std::path::Path, TableServerConfig) -> TableServerConfig,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk: Disk = Arc::new(RealDisk);
        let named = ["seen=seen.fixed?width=8&limit=1m", "names=names.hash"];
        let named = named.map(|text| text.parse().unwrap());
        let tables = Tables::open(
            &disk,
            &folder.path().join("tables"),
            &named,
            &TablesOptions::new(1),
        );
        let config = configure(folder.path(), loopback());
        let server = Running::with_set(config, &Arc::new(tables.unwrap()));
        Self { server, folder }
    }

    fn connect(&self) -> TcpStream {
        self.server.connect()
    }
}

fn put(key: &[u8], value: &[u8]) -> Vec<u8> {
    tyrant_strings(0x10, &[key, value])
}

fn get(key: &[u8]) -> Vec<u8> {
    tyrant_strings(0x30, &[key])
}

fn rotate(key: &[u8], value: &[u8], width: u32) -> Vec<u8> {
    let numbers = [key.len() as u32, value.len() as u32, width];
    tyrant(0x13, &numbers, &[key, value])
}

#[test]
fn a_value_that_is_too_wide_is_refused_and_never_cut() {
    let served = Served::new();
    let mut client = served.connect();
    say(&mut client, &put(b"1", b"12345678"), &[0]);
    say(&mut client, &put(b"1", b"123456789"), &[1]);
    assert_eq!(why(&mut client), "9999: the value is longer than 8 bytes");
    say(&mut client, &tyrant_strings(0x12, &[b"1", b"9"]), &[1]);
    say(
        &mut client,
        &tyrant_strings(0x11, &[b"2", b"123456789"]),
        &[1],
    );
    say(&mut client, &get(b"1"), &found(b"12345678"));
    say(&mut client, &get(b"2"), &[1]);

    let mut client = served.connect();
    let refused = b"SERVER_ERROR object too large for cache: at most 8 bytes\r\n";
    say(&mut client, b"set 1 0 0 9\r\n123456789\r\n", refused);
    say(&mut client, b"append 1 0 0 1\r\n9\r\n", refused);
    say(&mut client, b"ms 2 9\r\n123456789\r\n", refused);
    let there = b"VALUE 1 0 8\r\n12345678\r\nEND\r\n";
    say(&mut client, b"get 1 2\r\n", there);
}

#[test]
fn a_key_that_is_no_number_is_refused_and_no_letter_is_skipped() {
    let served = Served::new();
    let (mut binary, mut text) = (served.connect(), served.connect());
    for key in ["1a", "a1", "x1y2", "+1", "-1", "1.5", "0x1", "1:1", "user1"] {
        say(&mut binary, &put(key.as_bytes(), b"v"), &[1]);
        assert_eq!(
            why(&mut binary),
            "9999: the key of a fixed table is a number from 1",
            "{key}"
        );
        say(&mut binary, &get(key.as_bytes()), &[1]);
        let refused = b"CLIENT_ERROR the key of a fixed table is a number from 1\r\n";
        let set = format!("set {key} 0 0 1\r\nv\r\n");
        say(&mut text, set.as_bytes(), refused);
        say(&mut text, format!("get {key}\r\n").as_bytes(), refused);
        say(&mut text, format!("incr {key} 1\r\n").as_bytes(), refused);
    }
    say(&mut binary, &put(b"0", b"v"), &[1]);
    // Nothing was written anywhere.
    say(&mut binary, &tyrant(0x80, &[], &[]), &[0; 9]);
}

#[test]
fn a_key_beyond_64_bits_does_not_wrap_onto_record_one() {
    let served = Served::new();
    let mut client = served.connect();
    say(&mut client, &put(b"1", b"first"), &[0]);
    for key in [
        &b"18446744073709551617"[..],
        b"9223372036854775809",
        b"4294967297",
        b"340282366920938463463374607431768211457",
    ] {
        say(&mut client, &put(key, b"other"), &[1]);
        let said = why(&mut client);
        assert!(
            said.starts_with("9999: the key is beyond the table's limit of "),
            "{said}"
        );
        say(&mut client, &tyrant_strings(0x20, &[key]), &[1]);
    }
    say(&mut client, &get(b"1"), &found(b"first"));
    say(
        &mut client,
        &tyrant(0x80, &[], &[]),
        &[0, 0, 0, 0, 0, 0, 0, 0, 1],
    );
}

#[test]
fn rotation_of_a_missing_key_cuts_too() {
    let served = Served::new();
    let mut client = served.connect();
    for key in [&b"1"[..], b"names:one"] {
        say(&mut client, &rotate(key, b"0123456789", 4), &[0]);
        say(&mut client, &get(key), &found(b"6789"));
    }
    let mut client = served.connect();
    say(&mut client, b"ms 2 10 MQ W4\r\n0123456789\r\n", b"HD\r\n");
    say(&mut client, b"mg 2 v\r\n", b"VA 4\r\n6789\r\n");
}

#[test]
fn rotation_keeps_the_newest_bytes_whatever_the_width() {
    let served = Served::new();
    let mut client = served.connect();
    say(&mut client, &rotate(b"1", b"ABCDEFGH", 8), &[0]);
    say(&mut client, &rotate(b"1", b"IJK", 8), &[0]);
    say(&mut client, &get(b"1"), &found(b"DEFGHIJK"));
    // Wider than the table, where the original cuts the end off, and with it the newest bytes.
    say(&mut client, &rotate(b"1", b"LMN", 11), &[1]);
    assert_eq!(why(&mut client), "9999: the value is longer than 8 bytes");
    say(&mut client, &get(b"1"), &found(b"DEFGHIJK"));
    // Narrower than what is there.
    say(&mut client, &rotate(b"1", b"L", 3), &[0]);
    say(&mut client, &get(b"1"), &found(b"JKL"));
    say(&mut client, &rotate(b"1", b"0123456789ABCDEF", 8), &[0]);
    say(&mut client, &get(b"1"), &found(b"89ABCDEF"));
    let mut client = served.connect();
    say(&mut client, b"ms 1 3 MQ W4\r\nxyz\r\n", b"HD\r\n");
    say(&mut client, b"mg 1 v\r\n", b"VA 4\r\nFxyz\r\n");
}

#[test]
fn copy_with_an_at_sign_runs_nothing() {
    let served = Served::with(|folder, config| TableServerConfig {
        copies: Some(folder.join("copies")),
        ..config
    });
    std::fs::create_dir(served.folder.path().join("copies")).unwrap();
    let mut client = served.connect();
    let mark = served.folder.path().join("mark");
    for command in [
        format!("@touch {}", mark.display()),
        format!("@sh -c 'touch {}'", mark.display()),
        format!("@{}", served.folder.path().display()),
        "../outside".to_owned(),
        mark.display().to_string(),
        "..".to_owned(),
        String::new(),
    ] {
        say(
            &mut client,
            &tyrant_strings(0x73, &[command.as_bytes()]),
            &[1],
        );
        assert!(why(&mut client).contains("a plain name"), "{command}");
    }
    say(&mut client, &put(b"1", b"v"), &[0]);
    say(&mut client, &tyrant_strings(0x73, &[b"seen.copy"]), &[0]);
    let copies = std::fs::read_dir(served.folder.path().join("copies")).unwrap();
    assert_eq!(copies.count(), 1);
    let mut beside: Vec<_> = std::fs::read_dir(served.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    beside.sort();
    assert_eq!(beside, ["copies", "tables"]);
}

#[test]
fn eight_half_sent_requests_freeze_nobody() {
    let served = Served::with(|_, config| TableServerConfig {
        workers: NonZeroUsize::new(1),
        // However busy the machine is: the third of them is to be finished in the end.
        request_timeout: Duration::from_hours(1),
        ..config
    });
    let halves: [&[u8]; 8] = [
        b"\xc8",
        b"\xc8\x10\0\0",
        b"\xc8\x10\0\0\0\x01\0\0\0\x05k",
        b"\xc8\x10\0\0\0\x06\0\0\0\x05names:",
        b"\xc8\x31\0\0\0\x09\0\0\0\x01",
        b"\xc8\x90\0\0\0\x07\0\0\0\0\0\0\0\x02putlist\0\0\0\x01",
        b"set 5 0 0 8\r\nhalf",
        b"get names:",
    ];
    let half: Vec<_> = halves
        .iter()
        .map(|half| {
            let mut client = served.connect();
            client.write_all(half).unwrap();
            client
        })
        .collect();
    let mut other = served.connect();
    say(&mut other, &put(b"1", b"v"), &[0]);
    say(&mut other, &put(b"names:a", b"v"), &[0]);
    say(&mut other, &get(b"1"), &found(b"v"));
    say(
        &mut served.connect(),
        b"set 2 0 0 1\r\nw\r\n",
        b"STORED\r\n",
    );
    // They are requests all the same, once they are whole.
    let [_, _, mut third, ..] = <[TcpStream; 8]>::try_from(half).unwrap();
    say(&mut third, b"value", &[1]);
    assert!(why(&mut third).contains("number from 1"));
}

#[test]
fn a_set_of_two_gigabytes_is_refused_and_kills_nobody() {
    let served = Served::new();
    let too_large = "SERVER_ERROR object too large for cache\r\n";
    let no_length = "CLIENT_ERROR bad command line format\r\n";
    for key in ["1", "names:k"] {
        for (length, answer) in [
            ("2147483647", no_length),
            ("4294967295", no_length),
            ("18446744073709551615", no_length),
            ("-1", no_length),
            ("2147483645", too_large),
        ] {
            let mut client = served.connect();
            let set = format!("set {key} 0 0 {length}\r\n");
            say(&mut client, set.as_bytes(), answer.as_bytes());
            // What belongs to it is skipped, as far as it comes.
            client.write_all(&vec![b'x'; 1 << 20]).unwrap();
        }
        let mut binary = served.connect();
        let request = tyrant(0x10, &[key.len() as u32, 0x7fff_ffff], &[key.as_bytes()]);
        binary.write_all(&request).unwrap();
        say(&mut served.connect(), b"mn\r\n", b"MN\r\n");
    }
    say(&mut served.connect(), &tyrant(0x80, &[], &[]), &[0; 9]);
}

#[test]
fn no_connection_is_closed_without_a_word() {
    let served = Served::with(|_, config| TableServerConfig {
        request_timeout: Duration::from_millis(100),
        ..config
    });
    let long = [b'x'; 5000];
    for (asked, told) in [
        (&b"\xc8\xff"[..], &[1][..]),
        (b"\xc8\x10\xff\xff\xff\xff\0\0\0\x01", &[1]),
        // In a fixed table `k` is no key, and `get` no command of this protocol.
        (b"\xc8\x10\0\0\0\x01\0\0\0\x01kvget k\r\n", &[1, 1]),
        (b"\xc8\x10\0\0\0\x01\0\0\0\x01k", &[1]),
        (b"\xc8\x31\0\0\0\x01\x80\0\0\0", &[1]),
        (&long, b"CLIENT_ERROR line too long\r\n"),
        (
            b"set 1 0 0 5\r\nab",
            b"SERVER_ERROR request not completed in time\r\n",
        ),
        (b"get 1", b"SERVER_ERROR request not completed in time\r\n"),
    ] {
        let mut client = served.connect();
        client.write_all(asked).unwrap();
        let heard = ends(&mut client);
        assert_eq!(
            heard.escape_ascii().to_string(),
            told.escape_ascii().to_string(),
            "to {}",
            asked.escape_ascii()
        );
    }
}

#[test]
fn a_table_in_memory_says_that_it_has_no_file_to_copy() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(TableServerConfig {
        copies: Some(folder.path().to_owned()),
        ..loopback()
    });
    let mut client = server.connect();
    say(&mut client, &tyrant_strings(0x73, &[b"copy"]), &[1]);
    assert_eq!(
        why(&mut client),
        "9999: a memory table can't be copied to a file"
    );
    say(&mut client, &misc(b"get", &[b"k"]), &[1, 0, 0, 0, 0]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
