//! The order of a run: the first answer, then rounds of parts, A and B in turns.

use std::{fmt::Write, fs, path::PathBuf, sync::atomic::AtomicBool, time::Duration};

use crate::{
    amount,
    error::{BenchError, During, Result},
    http::{
        answer::Answer,
        lane::{Connection, Route},
    },
    load::{Address, Class, Kind, Lane, Pace, Patience, Permission, Planned, Stream},
    report::{Output, Progress, Record, Report, Target},
    series::{Part, Series, bearable, count_of},
};

/// Taken if nothing was measured that would tell a better one.
const RATE: f64 = 1_000.0;

/// Which route, and how it is loaded.
#[derive(Debug, Clone, clap::Args)]
pub struct Http {
    /// The route, as http://host:port/path
    #[arg(value_name = "URL")]
    url: String,
    /// A second server, measured in turns with the first: A B A B
    #[arg(long, value_name = "URL")]
    vs: Option<String>,
    /// The method; anything but GET counts as a write
    #[arg(long, default_value = "GET", value_parser = ["GET", "POST", "PUT", "PATCH", "DELETE"])]
    method: String,
    /// A header, as "Name: value"; may be given several times
    #[arg(long, value_name = "HEADER")]
    header: Vec<String>,
    /// A file that is sent as the body
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// The status of a right answer
    #[arg(long, default_value_t = 200)]
    status: u16,
    /// Right answers may have different bodies
    #[arg(long)]
    varying: bool,
    /// Connections: each number is a part, with one request under way on each
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = ',',
        default_value = "1,16",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    connections: Vec<u16>,
    /// Requests that a connection carries before another takes its place; connecting counts [default: all]
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u32).range(1..))]
    reconnect: Option<u32>,
    /// Rounds of each part
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Seconds of each part in each round
    #[arg(long, default_value = "5", value_parser = amount::seconds)]
    seconds: Duration,
    /// Requests of each part in each round, at most
    #[arg(long, default_value_t = 200_000, value_parser = amount::operations)]
    operations: usize,
    /// Requests a second of the open loop [default: half of what the slower server answered]
    #[arg(long, value_parser = amount::rate)]
    rate: Option<f64>,
    /// Seconds that an answer may take
    #[arg(long, default_value = "10", value_parser = amount::seconds)]
    patience: Duration,
    #[command(flatten)]
    permission: Permission,
    #[command(flatten)]
    output: Output,
}

/// Runs the measurement; a set flag ends it with what it has.
pub(crate) fn http(options: &Http, stop: &AtomicBool) -> Result<()> {
    let reach = |url: &str| Address::reach(url, "http://", Some(80), options.permission);
    let mut targets = vec![Target::new("A", reach(&options.url)?, None)];
    if let Some(url) = &options.vs {
        targets.push(Target::new("B", reach(url)?, None));
    }
    let progress = Progress::new();
    let series = Series {
        stop,
        progress: &progress,
        patience: options.patience,
    };
    options.output.prepare()?;
    let mut report = Report::new("http", targets);
    // Reads make nothing durable.
    report.notes.clear();
    let end = measure(options, series, &mut report);
    report.finish(end, &options.output)
}

fn measure(options: &Http, series: Series<'_>, report: &mut Report) -> Result<()> {
    let mut routes = Vec::new();
    for target in &report.targets {
        routes.push(first_answer(options, target, series.patience())?);
    }
    if let [first, second] = routes.as_slice()
        && first.body != second.body
    {
        return Err(BenchError::Wrong(
            "the two servers answer with different bodies (--varying allows it)".to_owned(),
        ));
    }
    let closed_name = |connections| match connections {
        1 => "1 connection".to_owned(),
        more => format!("{more} connections"),
    };
    let most = options.connections.iter().max().copied().unwrap_or(1);
    let mut rate = options.rate;
    for round in 0..usize::from(options.rounds) {
        for &connections in &options.connections {
            let name = closed_name(connections);
            let pace = Pace::Closed { window: 1 };
            let what = (
                name.as_str(),
                usize::from(connections),
                pace,
                options.operations,
            );
            in_turns((options, series, &routes), what, round, report)?;
        }
        let per_second = *rate.get_or_insert_with(|| bearable(&closed_name(most), report, RATE));
        let count = count_of(per_second, options.seconds).min(options.operations);
        let name = format!("at a rate, {}", closed_name(most));
        let pace = Pace::Open { per_second };
        let what = (name.as_str(), usize::from(most), pace, count);
        in_turns((options, series, &routes), what, round, report)?;
    }
    Ok(())
}

fn in_turns(
    (options, series, routes): (&Http, Series<'_>, &[Route]),
    (name, connections, pace, count): (&str, usize, Pace, usize),
    round: usize,
    report: &mut Report,
) -> Result<()> {
    let kind = match options.method.as_str() {
        "GET" => Kind::Read,
        _ => Kind::Write,
    };
    let plan: Vec<_> = (0..count)
        .map(|number| Planned {
            class: 0,
            lane: number % connections,
        })
        .collect();
    let part = Part {
        name,
        classes: &[Class::new(&options.method, kind)],
        plan: &plan,
        pace,
        connections,
        at_most: options.seconds,
    };
    for (place, route) in routes.iter().enumerate() {
        let Some(target) = report.targets.get(place) else {
            continue;
        };
        let mut lanes: Vec<Box<dyn Lane + '_>> = Vec::new();
        for _ in 0..connections {
            lanes.push(Box::new(Connection::open(
                &target.address,
                route,
                options.reconnect,
            )?));
        }
        let measured = series.put_on(&part, target, &mut lanes)?;
        drop(lanes);
        let record = Record {
            part: name.to_owned(),
            target: place,
            round,
            connections,
            measured,
        };
        series.keep(record, report)?;
    }
    Ok(())
}

/// Asks once, before any load: what the route answers now it must answer each time.
fn first_answer(options: &Http, target: &Target, patience: Patience<'_>) -> Result<Route> {
    let address = &target.address;
    let body = match &options.body {
        Some(path) => fs::read(path).at(path)?,
        None => Vec::new(),
    };
    let mut request = format!(
        "{} {} HTTP/1.1\r\nHost: {}\r\n",
        options.method,
        address.path(),
        address.host()
    );
    for header in &options.header {
        if !header.contains(':') || header.contains(['\r', '\n']) {
            return Err(BenchError::Input(format!(
                "{header:?}: expected \"Name: value\""
            )));
        }
        request.push_str(header);
        request.push_str("\r\n");
    }
    if !body.is_empty() {
        // Writing to memory can't fail.
        let _ = write!(request, "Content-Length: {}\r\n", body.len());
    }
    request.push_str("\r\n");
    let request = [request.into_bytes(), body].concat();
    let mut is_ended = false;
    let mut stream = Stream::open(address)?;
    stream.output().extend_from_slice(&request);
    stream.send(patience)?;
    let answer = loop {
        if let Some((_, answer)) = Answer::parse(stream.unread(), stream.has_ended())? {
            break answer;
        }
        let read = stream.wait(patience);
        // What has no length ends with the connection; parsed once more, it is whole or never will be.
        if !stream.has_ended() || is_ended {
            read?;
        }
        is_ended = stream.has_ended();
    };
    if answer.status != options.status {
        return Err(BenchError::Server(format!(
            "{}: answers with status {} where {} is right",
            address.as_str(),
            answer.status,
            options.status
        )));
    }
    Ok(Route {
        request,
        status: options.status,
        body: (!options.varying).then_some(answer.body),
    })
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
        thread,
    };

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        http: Http,
    }

    /// A server that answers with what this makes of the number of the request.
    fn serve(answer: fn(usize) -> String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/route", listener.local_addr().unwrap());
        let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, count) = (stream.unwrap(), count.clone());
                thread::spawn(move || {
                    let mut bytes = [0; 4096];
                    while let Ok(1..) = stream.read(&mut bytes) {
                        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        let body = answer(number);
                        let status = if body == "busy" { "503 Busy" } else { "200 OK" };
                        let text = format!(
                            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}",
                            body.len()
                        );
                        if stream.write_all(text.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        url
    }

    fn measured(arguments: &[&str]) -> (Result<()>, serde_json::Value) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.json");
        let mut typed = vec!["http"];
        typed.extend(arguments);
        typed.extend([
            "--operations",
            "200",
            "--rounds",
            "1",
            "--seconds",
            "2",
            "--rate",
            "400",
        ]);
        typed.extend(["--connections", "1,4", "--json", file.to_str().unwrap()]);
        let end = http(&Typed::parse_from(typed).http, &AtomicBool::new(false));
        let report = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        (end, report)
    }

    #[test]
    fn every_answer_of_every_part_is_counted() {
        let (a, b) = (serve(|_| "same".to_owned()), serve(|_| "same".to_owned()));
        let (end, report) = measured(&[&a, "--vs", &b]);
        end.unwrap();
        let loads = report["loads"].as_array().unwrap();
        assert_eq!(loads.len(), 6);
        for load in loads {
            assert_eq!(
                (&load["achieved"], &load["failed"]),
                (&200.into(), &0.into()),
                "{load}"
            );
        }
    }

    #[test]
    fn a_connection_is_replaced_as_often_as_asked() {
        // A body for each connection, that tells how many there were.
        let connections = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let count = connections.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let mut bytes = [0; 4096];
                    while let Ok(1..) = stream.read(&mut bytes) {
                        stream.write_all(b"HTTP/1.1 204 -\r\n\r\n").unwrap();
                    }
                });
            }
        });
        let (end, report) = measured(&[&url, "--status", "204", "--reconnect", "10"]);
        end.unwrap();
        assert_eq!(report["loads"][0]["achieved"], 200);
        // Three parts of 200 requests; reaching it and asking first take one each.
        let made = connections.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(made, 2 + 3 * 200 / 10);
    }

    #[test]
    fn answers_that_end_with_the_connection_are_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let mut bytes = [0; 4096];
                    if let Ok(1..) = stream.read(&mut bytes) {
                        // In two pieces, and then the end.
                        let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nhel");
                        let _ = stream.write_all(b"lo");
                    }
                });
            }
        });
        let (end, report) = measured(&[&url]);
        end.unwrap();
        assert_eq!(report["loads"][0]["achieved"], 200);
        assert_eq!(report["loads"][0]["failed"], 0);
    }

    #[test]
    fn another_body_is_wrong_and_another_status_is_a_failure() {
        let changing = serve(|number| number.to_string());
        let (end, _) = measured(&[&changing]);
        assert!(end.unwrap_err().to_string().contains("another body"));
        let (end, _) = measured(&[&changing, "--varying"]);
        end.unwrap();
        let busy = serve(|number| if number % 10 == 9 { "busy" } else { "done" }.to_owned());
        let (end, report) = measured(&[&busy]);
        end.unwrap();
        let operation = &report["loads"][0]["operations"][0];
        assert_eq!(operation["failed"]["status 503"], 20, "{operation}");
        assert_eq!(operation["done"], 180);
    }
}
