//! `tables`: the table server beside memcached and Redis, in turns, as ratios.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use crate::{
    error::{BenchError, During, Result},
    report::{Cell, Table},
};

/// Keys: so many, of 8 digits, from this one.
const KEYS: u64 = 1_000_000;
const FIRST_KEY: u64 = 10_000_000;
/// Requests that are on their way at the same time, where they are pipelined.
const DEPTH: usize = 100;
/// Bytes of a send, where many requests go together.
const SEND_BYTES: usize = 16 * 1024;

/// Who is measured, and for how long.
#[derive(Debug, Clone, clap::Args)]
pub struct Tables {
    /// The table server; its default table takes 8 bytes, and the table `lists` 64
    #[arg(long, value_name = "ADDR:PORT")]
    ours: SocketAddr,
    /// memcached
    #[arg(long, value_name = "ADDR:PORT")]
    memcached: SocketAddr,
    /// Redis
    #[arg(long, value_name = "ADDR:PORT")]
    redis: SocketAddr,
    /// Turns of each
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long a turn is, in milliseconds
    #[arg(long, default_value_t = 1000)]
    turn_ms: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A way of asking.
#[derive(Clone, Copy)]
enum Load {
    /// One request after the other, on so many connections.
    LockStep(usize, Writer),
    /// Requests without answers, each in a send of its own.
    OneSend(Writer),
    /// Requests without answers, many in a send.
    ManySends(Writer),
    /// Many requests in a send, then their answers.
    Pipelined(Writer, usize),
}

/// Writes the request with a number.
type Writer = fn(u64, &mut Vec<u8>);

/// What is compared: the name, our way, the peer's, and the ratio that is asked for.
struct Comparison {
    name: &'static str,
    ours: Load,
    peer: (&'static str, Load),
    bar: f64,
}

/// One after the other, as a program has them that goes through its members.
fn key(number: u64) -> u64 {
    number % KEYS + FIRST_KEY
}

fn set(number: u64, out: &mut Vec<u8>) {
    // Writing to memory can't fail.
    let _ = write!(out, "set {} 0 0 8\r\n{number:08}\r\n", key(number));
}

fn quiet_set(number: u64, out: &mut Vec<u8>) {
    let _ = write!(
        out,
        "set {} 0 0 8 noreply\r\n{:08}\r\n",
        key(number),
        number % KEYS
    );
}

fn short_set(number: u64, out: &mut Vec<u8>) {
    set(number % KEYS, out);
}

/// Tokyo Tyrant's `putnr`: magic, command, lengths, key, value.
fn put_without_answer(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0xc8, 0x18, 0, 0, 0, 8, 0, 0, 0, 8]);
    let _ = write!(out, "{}{:08}", key(number), number % KEYS);
}

fn rotate(number: u64, out: &mut Vec<u8>) {
    let _ = write!(
        out,
        "ms lists:{} 8 MQ W64\r\n{:08}\r\n",
        key(number),
        number % KEYS
    );
}

fn redis_set(number: u64, out: &mut Vec<u8>) {
    let (key, value) = (key(number), number % KEYS);
    let _ = write!(
        out,
        "*3\r\n$3\r\nSET\r\n$8\r\n{key}\r\n$8\r\n{value:08}\r\n"
    );
}

fn redis_rotate(number: u64, out: &mut Vec<u8>) {
    let (key, value) = (key(number), number % KEYS);
    let _ = write!(
        out,
        "*3\r\n$5\r\nLPUSH\r\n$9\r\nl{key}\r\n$8\r\n{value:08}\r\n"
    );
    let _ = write!(
        out,
        "*4\r\n$5\r\nLTRIM\r\n$9\r\nl{key}\r\n$1\r\n0\r\n$1\r\n7\r\n"
    );
}

const COMPARISONS: [Comparison; 7] = [
    Comparison {
        name: "lock-step set, 1 connection",
        ours: Load::LockStep(1, short_set),
        peer: ("memcached", Load::LockStep(1, short_set)),
        bar: 1.0,
    },
    Comparison {
        name: "lock-step set, 16 connections",
        ours: Load::LockStep(16, short_set),
        peer: ("memcached", Load::LockStep(16, short_set)),
        bar: 1.1,
    },
    Comparison {
        name: "noreply, one send per set",
        ours: Load::OneSend(quiet_set),
        peer: ("memcached", Load::OneSend(quiet_set)),
        bar: 1.2,
    },
    Comparison {
        name: "noreply in 16 KiB sends",
        ours: Load::ManySends(quiet_set),
        peer: ("memcached", Load::ManySends(quiet_set)),
        bar: 4.0,
    },
    Comparison {
        name: "putnr in 16 KiB sends",
        ours: Load::ManySends(put_without_answer),
        peer: ("memcached", Load::ManySends(quiet_set)),
        bar: 5.0,
    },
    Comparison {
        name: "pipelined set, 100 deep",
        ours: Load::Pipelined(short_set, 1),
        peer: ("redis", Load::Pipelined(redis_set, 1)),
        bar: 1.0,
    },
    Comparison {
        name: "pipelined rotate, 100 deep",
        ours: Load::Pipelined(rotate, 1),
        peer: ("redis", Load::Pipelined(redis_rotate, 2)),
        bar: 1.0,
    },
];

/// Runs the measurement.
pub(crate) fn tables(options: &Tables) -> Result<()> {
    let mut report = Table::new(
        "tables",
        &["load", "ours k/s", "peer", "peer k/s", "ratio", "bar"],
    );
    let turn = Duration::from_millis(options.turn_ms);
    for comparison in &COMPARISONS {
        let (name, load) = comparison.peer;
        let peer = if name == "redis" {
            options.redis
        } else {
            options.memcached
        };
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..options.rounds.max(1) {
            let our = comparison.ours.rate(options.ours, turn)?;
            let their = load.rate(peer, turn)?;
            ours.push(our);
            theirs.push(their);
            ratios.push(our / their);
        }
        report.row(vec![
            comparison.name.into(),
            Cell::Number(median(&mut ours) / 1e3, 1),
            name.into(),
            Cell::Number(median(&mut theirs) / 1e3, 1),
            Cell::Number(median(&mut ratios), 2),
            Cell::Number(comparison.bar, 1),
        ]);
    }
    if options.json {
        println!("{:#}", serde_json::Value::from(report.objects()));
    } else {
        print!("{report}");
    }
    Ok(())
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

impl Load {
    /// Returns how many requests a second a server carries out. A request counts when it is
    /// answered; of those without answers, when a last one with an answer is.
    fn rate(self, server: SocketAddr, turn: Duration) -> Result<f64> {
        let mut connections = Vec::new();
        let count = match self {
            Self::LockStep(count, _) => count,
            _ => 1,
        };
        for _ in 0..count {
            let stream = TcpStream::connect(server).during("connecting")?;
            stream.set_nodelay(true).during("setting TCP_NODELAY")?;
            connections.push(stream);
        }
        let begun = Instant::now();
        let requests = match self {
            Self::LockStep(_, request) => lock_step(&mut connections, request, begun, turn)?,
            Self::OneSend(request) => send_all(&mut connections, request, 1, begun, turn)?,
            Self::ManySends(request) => {
                send_all(&mut connections, request, SEND_BYTES, begun, turn)?
            }
            Self::Pipelined(request, answers) => {
                pipelined(&mut connections, request, answers, begun, turn)?
            }
        };
        Ok(requests as f64 / begun.elapsed().as_secs_f64())
    }
}

/// Sends one request on each connection, then reads their answers, again and again.
fn lock_step(
    connections: &mut [TcpStream],
    request: Writer,
    begun: Instant,
    turn: Duration,
) -> Result<u64> {
    let (mut sent, mut bytes, mut answer) = (0, Vec::new(), [0; 256]);
    while begun.elapsed() < turn {
        for stream in &mut *connections {
            bytes.clear();
            request(sent, &mut bytes);
            stream.write_all(&bytes).during("sending")?;
            sent += 1;
        }
        for stream in &mut *connections {
            let read = stream.read(&mut answer).during("receiving")?;
            check(answer.get(..read).unwrap_or_default())?;
        }
    }
    Ok(sent)
}

/// Sends requests without answers, and at last one with an answer.
fn send_all(
    connections: &mut [TcpStream],
    request: Writer,
    send_bytes: usize,
    begun: Instant,
    turn: Duration,
) -> Result<u64> {
    let Some(stream) = connections.first_mut() else {
        return Ok(0);
    };
    // Made beforehand: the client's own work is not what is measured.
    let (mut sends, mut bytes, mut made) = (Vec::new(), Vec::new(), 0_u64);
    while sends.len() < 512 {
        let before = made;
        bytes.clear();
        while bytes.len() < send_bytes {
            request(made, &mut bytes);
            made += 1;
        }
        sends.push((bytes.clone(), made - before));
    }
    let begun = begun.max(Instant::now());
    let mut sent = 0;
    'turn: loop {
        for (bytes, requests) in &sends {
            stream.write_all(bytes).during("sending")?;
            sent += requests;
            if send_bytes > 1 && begun.elapsed() >= turn {
                break 'turn;
            }
        }
        if begun.elapsed() >= turn {
            break;
        }
    }
    let is_text = sends
        .first()
        .is_some_and(|(bytes, _)| bytes.first() != Some(&0xc8));
    // `version`, or the number of records.
    let (last, length) = if is_text {
        (&b"version\r\n"[..], 8)
    } else {
        (&[0xc8, 0x80][..], 9)
    };
    stream.write_all(last).during("sending")?;
    let mut answer = [0; 64];
    let answer = answer.get_mut(..length).unwrap_or_default();
    stream.read_exact(answer).during("receiving")?;
    let is_right = if is_text {
        answer == b"VERSION "
    } else {
        answer.first() == Some(&0)
    };
    if !is_right {
        return Err(BenchError::Input(format!(
            "a request without an answer was answered: {}",
            answer.escape_ascii()
        )));
    }
    Ok(sent)
}

/// Sends many requests, reads all their answers, again and again.
fn pipelined(
    connections: &mut [TcpStream],
    request: Writer,
    answers: usize,
    begun: Instant,
    turn: Duration,
) -> Result<u64> {
    let Some(stream) = connections.first_mut() else {
        return Ok(0);
    };
    let (mut sent, mut bytes, mut buffer) = (0_u64, Vec::new(), vec![0; 64 * 1024]);
    while begun.elapsed() < turn {
        bytes.clear();
        for _ in 0..DEPTH {
            request(sent, &mut bytes);
            sent += 1;
        }
        stream.write_all(&bytes).during("sending")?;
        let mut lines = 0;
        while lines < DEPTH * answers {
            let read = stream.read(&mut buffer).during("receiving")?;
            let part = buffer.get(..read).unwrap_or_default();
            check(part)?;
            lines += part.split(|&byte| byte == b'\n').count() - 1;
        }
    }
    Ok(sent)
}

/// Tells an answer from an error and from the end.
fn check(answer: &[u8]) -> Result<()> {
    let is_good = [&b"STORED"[..], b"HD", b"+OK", b":"]
        .iter()
        .any(|good| answer.starts_with(good))
        // The middle of many answers.
        || (!answer.is_empty() && !answer.windows(5).any(|word| word == b"ERROR"));
    if is_good {
        return Ok(());
    }
    Err(BenchError::Input(format!(
        "the answer {} is not one that was expected",
        answer.escape_ascii()
    )))
}
