//! The order of a run: every key written and read back, then rounds of parts, A and B in turns.

use std::{sync::atomic::AtomicBool, time::Duration};

use clap::ValueEnum;

use crate::{
    corpus::{Random, Zipf},
    error::{BenchError, Result},
    load::{Address, Class, Kind, Lane, Measured, Pace, Patience, Planned, Stream},
    report::{Progress, Record, Report, Target},
    series::{self, Series, bearable, count_of},
    tables::{
        bare::Bare,
        lane::{Connection, Operation},
        options::{Distribution, Tables},
        parts::{MIXED, Part, Way},
        record::{ENTRIES, Lists, Records},
        script::{Ask, Held, Packing, Script},
        speech::{Protocol, Speech, misanswer},
    },
};

/// memcached's port, and that of Redis.
const MEMCACHED_PORT: u16 = 11_211;
const REDIS_PORT: u16 = 6_379;
/// Of mixed operations, one in so many writes; the others read.
const SETS: usize = 10;
/// Taken if nothing was measured that would tell a better one.
const RATE: f64 = 10_000.0;
/// Lists that are rotated, at most.
const LISTS_MAX: u32 = 100_000;
/// Operations of a part of which each is planned, at most; drawn keys, likewise.
const PLANNED_MAX: usize = 500_000;
/// Records that are read back behind a part that has written.
const READ_BACK: usize = 1_000;
/// However long bringing a server to the known state takes: patience is for the single answer.
const LONG: Duration = Duration::from_hours(24);

struct Run<'a> {
    options: &'a Tables,
    series: Series<'a>,
    held: Vec<Held>,
    random: Random,
    zipf: Zipf,
    drawn: usize,
}

/// Runs the measurement; a set flag ends it with what it has.
pub(crate) fn tables(options: &Tables, stop: &AtomicBool) -> Result<()> {
    let (first, protocol) = reach(&options.address, options)?;
    let mut targets = vec![Target::new("A", first, options.durability.as_deref())];
    let mut protocols = vec![protocol];
    if let Some(text) = &options.vs {
        let (second, protocol) = reach(text, options)?;
        targets.push(Target::new("B", second, options.vs_durability.as_deref()));
        protocols.push(protocol);
    }
    let progress = Progress::new();
    let mut run = Run {
        options,
        series: Series {
            stop,
            progress: &progress,
            patience: options.patience,
        },
        held: Vec::new(),
        random: Random::new(options.seed),
        zipf: Zipf::new(match options.distribution {
            Distribution::Sequential | Distribution::Uniform => 0,
            Distribution::Zipf => options.keys as usize,
        }),
        drawn: 0,
    };
    options.output.prepare()?;
    let mut report = Report::new("tables", targets);
    let end = run.measure(&protocols, &mut report);
    report.finish(end, &options.output)
}

fn reach(text: &str, options: &Tables) -> Result<(Address, Protocol)> {
    let (scheme, port, protocol) = if text.starts_with("redis://") {
        ("redis://", REDIS_PORT, Protocol::Redis)
    } else {
        ("", MEMCACHED_PORT, Protocol::Memcached)
    };
    let address = Address::reach(text, scheme, Some(port), options.permission)?;
    Ok((address, protocol))
}

impl Run<'_> {
    fn measure(&mut self, protocols: &[Protocol], report: &mut Report) -> Result<()> {
        for (target, protocol) in report.targets.iter().zip(protocols) {
            self.held.push(Held {
                speech: Speech::of(
                    &target.address,
                    *protocol,
                    &self.options.lists,
                    self.series.patience(),
                )?,
                records: Records::new(self.options.keys, &self.options.value_bytes),
                lists: Lists::new(&self.options.lists, self.options.keys.min(LISTS_MAX)),
            });
        }
        let parts = self.parts(report);
        if parts.is_empty() {
            let why = report.notes.join("; ");
            return Err(BenchError::Input(format!("no part is left: {why}")));
        }
        for (held, target) in self.held.iter().zip(&report.targets) {
            self.bring_to_known_state(held, target)?;
            if parts.contains(&Part::Rotate) {
                self.fill_lists(held, target)?;
            }
        }
        let mut rate = self.options.rate;
        for round in 0..usize::from(self.options.rounds) {
            for part in &parts {
                // The same for both servers and all rounds, so that latencies can be compared.
                let per_second = match part {
                    Part::Rate => *rate.get_or_insert_with(|| bearable(MIXED, report, RATE)),
                    _ => RATE,
                };
                self.in_turns(*part, per_second, round, report)?;
            }
        }
        Ok(())
    }

    /// Returns the parts that all servers can do; notes which they can't.
    fn parts(&self, report: &mut Report) -> Vec<Part> {
        let mut parts = Vec::new();
        let wanted =
            |part: &&Part| self.options.parts.is_empty() || self.options.parts.contains(part);
        for part in Part::value_variants().iter().filter(wanted) {
            let name = part.name();
            let ways = self
                .held
                .iter()
                .map(|held| part.way(self.options, held.speech));
            if let Err(why) = ways.collect::<std::result::Result<Vec<_>, _>>() {
                report.notes.push(format!("left out: {name}: {why}"));
                continue;
            }
            if *part == Part::PutnrPacked {
                let has_tyrant = |held: &Held| held.speech.has_tyrant;
                if !self.held.iter().any(has_tyrant) {
                    report
                        .notes
                        .push(format!("left out: {name}: nobody speaks it"));
                    continue;
                }
                if !self.held.iter().all(has_tyrant) {
                    report.notes.push(format!(
                        "{name}: one server does not speak it, and is sent `set` with `noreply`"
                    ));
                }
            }
            parts.push(*part);
        }
        parts
    }

    /// Writes every key once, and reads it back.
    fn bring_to_known_state(&self, held: &Held, target: &Target) -> Result<()> {
        for operation in [Operation::Set as fn(u32) -> Operation, Operation::Get] {
            let operations: Vec<_> = (0..self.options.keys).map(operation).collect();
            let pace = Pace::Closed { window: 100 };
            let what = ("known state", pace, 4, LONG);
            let measured = self.put_on(what, &operations, held, target)?;
            if measured.interrupted {
                return Err(BenchError::Interrupted);
            }
            let counts = measured.counts.iter();
            if let Some(reason) = counts.flat_map(|counts| counts.failed.keys()).next() {
                return Err(BenchError::Server(format!(
                    "{}: refused a record of the known state: {reason}",
                    target.address.as_str()
                )));
            }
        }
        self.series.progress.tell(&format!(
            "{}: {} records written, and read rightly",
            target.name, self.options.keys
        ));
        Ok(())
    }

    /// Empties every list and fills it, so that each further entry pushes one out.
    fn fill_lists(&self, held: &Held, target: &Target) -> Result<()> {
        let protocol = held.speech.protocol;
        let prefix = held.lists.prefix.as_str();
        let keys: Vec<_> = (0..held.lists.keys()).collect();
        let patience = self.series.patience();
        let mut stream = Stream::open(&target.address)?;
        for keys in keys.chunks(1_000) {
            if self.series.is_stopped() {
                return Err(BenchError::Interrupted);
            }
            for key in keys {
                protocol.empty(prefix, *key, stream.output());
            }
            stream.send(patience)?;
            for _ in keys {
                stream.line(patience)?;
            }
            let mut right = Vec::new();
            for entries in 0..ENTRIES {
                for key in keys {
                    let version = held.records.next();
                    let entry = crate::tables::record::entry(*key, version);
                    protocol.rotate(prefix, *key, &entry, stream.output());
                    protocol.rotated(entries, &mut right);
                    held.lists.rotate(*key, version);
                }
            }
            expect(&mut stream, &right, patience)?;
        }
        read_back(Ask::Rotate, &keys, held, target, patience)?;
        let (name, count) = (target.name, keys.len());
        self.series
            .progress
            .tell(&format!("{name}: {count} lists filled"));
        Ok(())
    }

    fn key(&mut self) -> u32 {
        let keys = self.options.keys as usize;
        self.drawn += 1;
        let key = match self.options.distribution {
            Distribution::Sequential => self.drawn % keys.max(1),
            Distribution::Uniform => self.random.below(keys),
            Distribution::Zipf => self.zipf.draw(&mut self.random),
        };
        key as u32
    }

    /// Puts a part on one server after the other, with the same keys.
    fn in_turns(&mut self, part: Part, rate: f64, round: usize, report: &mut Report) -> Result<()> {
        let count = match part {
            Part::Rate => count_of(rate, self.options.seconds).min(self.options.operations),
            _ => self.options.operations,
        };
        let keys: Vec<_> = (0..count.min(PLANNED_MAX)).map(|_| self.key()).collect();
        for (place, held) in self.held.iter().enumerate() {
            let Some(target) = report.targets.get(place) else {
                continue;
            };
            let way = part.way(self.options, held.speech);
            let Ok(way) = way else { continue };
            let many = usize::from(self.options.connections);
            let (connections, measured) = match way {
                Way::Script {
                    ask,
                    packing,
                    connections,
                    window,
                } => {
                    let how = (ask, packing, connections, window);
                    (
                        connections,
                        self.play(part.name(), how, &keys, held, target)?,
                    )
                }
                Way::Mixed | Way::AtRate => {
                    let operations: Vec<_> = keys
                        .iter()
                        .enumerate()
                        .map(|(number, key)| match number % SETS {
                            0 => Operation::Set(*key),
                            _ => Operation::Get(*key),
                        })
                        .collect();
                    let pace = match way {
                        Way::AtRate => Pace::Open { per_second: rate },
                        _ => Pace::Closed {
                            window: usize::from(self.options.window),
                        },
                    };
                    let what = (part.name(), pace, many, self.options.seconds);
                    (many, self.put_on(what, &operations, held, target)?)
                }
            };
            let record = Record {
                part: part.name().to_owned(),
                target: place,
                round,
                connections,
                measured,
            };
            self.series.keep(record, report)?;
        }
        Ok(())
    }

    /// Plays scripts on a server, and reads back some of what they have written.
    fn play(
        &self,
        name: &str,
        (ask, packing, connections, window): (Ask, Packing, usize, usize),
        keys: &[u32],
        held: &Held,
        target: &Target,
    ) -> Result<Measured> {
        // A key keeps to one connection: only there is the order of its writes known.
        let mut keys_of = vec![Vec::new(); connections];
        for key in keys {
            let key = match ask {
                Ask::Rotate => key % held.lists.keys().max(1),
                _ => *key,
            };
            if let Some(keys) = keys_of.get_mut(key as usize % connections) {
                keys.push(key);
            }
        }
        let scripts: Vec<_> = keys_of
            .iter()
            .map(|keys| Script::new(ask, keys, packing, held))
            .filter(|script| script.len() > 0)
            .collect();
        let bare = Bare {
            label: &format!("{name}, {}", target.name),
            target,
            class: match ask {
                Ask::Get => Class::new("get", Kind::Read),
                Ask::Set | Ask::QuietSet => Class::new("set", Kind::Write),
                Ask::Putnr => Class::new("putnr", Kind::Write),
                Ask::Rotate => Class::new("rotate", Kind::Write),
            },
            scripts: &scripts,
            window,
            at_most: self.options.seconds,
            operations: self.options.operations,
            patience: self.series.patience(),
            progress: self.series.progress,
        };
        let (measured, carried_out) = bare.run().map_err(|error| at(name, target, error))?;
        let mut written = Vec::new();
        for (script, count) in scripts.iter().zip(carried_out) {
            script.carried_out(count, held);
            written.extend(script.sample(count, READ_BACK.div_ceil(connections)));
        }
        if measured.interrupted {
            return Ok(measured);
        }
        let patience = self.series.patience();
        read_back(ask, &written, held, target, patience)
            .map_err(|error| at(name, target, error))?;
        Ok(measured)
    }

    /// Puts operations on a server of which each is sent when its turn comes.
    fn put_on(
        &self,
        (name, pace, connections, at_most): (&str, Pace, usize, Duration),
        operations: &[Operation],
        held: &Held,
        target: &Target,
    ) -> Result<Measured> {
        let planned = |operation: &Operation| {
            let (class, key) = match operation {
                Operation::Get(key) => (0, key),
                Operation::Set(key) => (1, key),
            };
            Planned {
                class,
                lane: *key as usize % connections,
            }
        };
        let plan: Vec<_> = operations.iter().map(planned).collect();
        let part = series::Part {
            name,
            classes: &[
                Class::new("get", Kind::Read),
                Class::new("set", Kind::Write),
            ],
            plan: &plan,
            pace,
            connections,
            at_most,
        };
        let mut lanes: Vec<Box<dyn Lane + '_>> = Vec::new();
        for _ in 0..connections {
            lanes.push(Box::new(Connection::open(
                &target.address,
                operations,
                held,
            )?));
        }
        self.series.put_on(&part, target, &mut lanes)
    }
}

/// Reads some records or lists: each must hold what was written last.
fn read_back(
    ask: Ask,
    keys: &[u32],
    held: &Held,
    target: &Target,
    patience: Patience<'_>,
) -> Result<()> {
    let protocol = held.speech.protocol;
    let prefix = held.lists.prefix.as_str();
    let mut stream = Stream::open(&target.address)?;
    for keys in keys.chunks(100) {
        let mut right = Vec::new();
        for &key in keys {
            if ask == Ask::Rotate {
                protocol.list(prefix, key, stream.output());
                protocol.listed(prefix, key, &held.lists.entries(key), &mut right);
            } else if let Some(version) = held.records.version(key) {
                let mut value = Vec::new();
                held.records.value(key, version, &mut value);
                protocol.get(key, stream.output());
                protocol.found(key, &value, &mut right);
            }
        }
        expect(&mut stream, &right, patience)?;
    }
    Ok(())
}

/// Sends what waits, and compares the answer.
fn expect(stream: &mut Stream, right: &[u8], patience: Patience<'_>) -> Result<()> {
    stream.send(patience)?;
    let mut compared = 0;
    while compared < right.len() {
        let rest = right.get(compared..).unwrap_or_default();
        let found = stream.unread();
        let length = found.len().min(rest.len());
        if found.get(..length) != rest.get(..length) {
            let same = found.iter().zip(rest).take_while(|(it, right)| it == right);
            let line = crate::tables::bare::line_of(rest, same.count());
            return Err(misanswer(
                found.get(line..).unwrap_or_default(),
                rest.get(line..).unwrap_or_default(),
            ));
        }
        stream.take(length);
        compared += length;
        if compared < right.len() {
            stream.wait(patience)?;
        }
    }
    Ok(())
}

/// Says at which server and in which part.
fn at(part: &str, target: &Target, error: BenchError) -> BenchError {
    let address = target.address.as_str();
    match error {
        BenchError::Wrong(reason) => BenchError::Wrong(format!("{address}, {part}: {reason}")),
        BenchError::Server(reason) => BenchError::Server(format!("{reason} ({address}, {part})")),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::TcpListener,
        process::{Child, Command, Stdio},
        sync::atomic::{AtomicU32, Ordering},
        thread,
        time::Instant,
    };

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        tables: Tables,
    }

    /// A server that is stopped again.
    struct Server(Child, String);

    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Starts a server of Debian on a free port, if it is installed.
    fn start(program: &str, arguments: &[&str]) -> Option<Server> {
        // Below those that the system hands out by itself: nobody else is given it meanwhile.
        static GIVEN: AtomicU32 = AtomicU32::new(0);
        let port = (0..1000)
            .map(|_| std::process::id() + GIVEN.fetch_add(1, Ordering::Relaxed))
            .map(|number| u16::try_from(10_000 + number % 20_000).unwrap())
            .find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
            .unwrap();
        let mut command = Command::new(program);
        for argument in arguments {
            command.arg(argument.replace("PORT", &port.to_string()));
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Server(child.ok()?, format!("127.0.0.1:{port}"));
        let begun = Instant::now();
        while std::net::TcpStream::connect(&server.1).is_err() {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "{program} does not listen"
            );
            thread::yield_now();
        }
        Some(server)
    }

    fn measured(arguments: &[&str]) -> (Result<()>, serde_json::Value) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.json");
        let mut typed = vec!["tables"];
        typed.extend(arguments);
        typed.extend([
            "--keys",
            "300",
            "--operations",
            "2000",
            "--rounds",
            "1",
            "--seconds",
            "1",
            "--connections",
            "4",
        ]);
        typed.extend(["--rate", "5000", "--json", file.to_str().unwrap()]);
        let options = Typed::parse_from(typed).tables;
        let end = tables(&options, &AtomicBool::new(false));
        let report = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        (end, report)
    }

    #[test]
    fn memcached_and_redis_pass_every_part() {
        let memcached = start(
            "memcached",
            &["-u", "nobody", "-l", "127.0.0.1", "-p", "PORT", "-U", "0"],
        );
        let redis = start(
            "redis-server",
            &["--port", "PORT", "--save", "", "--bind", "127.0.0.1"],
        );
        let (Some(memcached), Some(redis)) = (memcached, redis) else {
            eprintln!("memcached and redis-server are not installed: nothing is tested");
            return;
        };
        let (end, report) = measured(&[&memcached.1, "--distribution", "zipf"]);
        end.unwrap();
        let loads = report["loads"].as_array().unwrap();
        // All but putnr and rotations, which memcached does not have.
        assert_eq!(loads.len(), Part::value_variants().len() - 2);
        assert!(report["notes"].to_string().contains("rotate, pipelined"));
        for load in loads {
            assert_eq!(
                (&load["failed"], &load["dropped"]),
                (&0.into(), &0.into()),
                "{load}"
            );
            assert_eq!(load["achieved"], load["offered"], "{load}");
            assert!(load["achieved"].as_u64() > Some(0), "{load}");
        }
        let redis = format!("redis://{}", redis.1);
        let (end, report) = measured(&[&memcached.1, "--vs", &redis]);
        end.unwrap();
        let in_turns = 2 * (Part::value_variants().len() - 5);
        assert_eq!(report["loads"].as_array().unwrap().len(), in_turns);
        let (end, report) = measured(&[&redis, "--parts", "rotate,set-pipelined"]);
        end.unwrap();
        let operation = &report["loads"][1]["operations"][0];
        assert_eq!(operation["operation"], "rotate", "{report}");
    }

    #[test]
    fn a_server_that_forgets_gives_a_wrong_answer() {
        // Room for fewer records than are written: memcached drops the oldest.
        let arguments = [
            "-u",
            "nobody",
            "-l",
            "127.0.0.1",
            "-p",
            "PORT",
            "-U",
            "0",
            "-m",
            "8",
        ];
        let Some(memcached) = start("memcached", &arguments) else {
            eprintln!("memcached is not installed: nothing is tested");
            return;
        };
        let (end, report) = measured(&[&memcached.1, "--value-bytes", "500000"]);
        let said = end.unwrap_err().to_string();
        assert!(said.contains("not what was written last"), "{said}");
        assert_eq!(report["end"]["outcome"], "failed");
    }
}
