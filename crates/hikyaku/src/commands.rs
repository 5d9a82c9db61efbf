//! The commands that work on a store: ask for the operation, show what it says.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hikyaku_bench::Bench;

use crate::{
    command_line::{Command, SessionsCommand},
    configuration::{Effective, example},
    doctor,
    failure::Failure,
    operations::{
        ImportEnd, Input, Operation, Report, Which, check_reason, parse_banned, parse_filter,
        parse_key, parse_whose_sessions,
    },
    origin, postgres_commands,
    present::{self, Terminal, Total},
    requests, signals,
    store::{self, Absent, Store},
    tables,
};

/// Runs a command.
pub(crate) fn run(command: &Command, effective: &Effective) -> Result<ExitCode, Failure> {
    let settings = &effective.settings;
    match command {
        // They know what plugins the program has.
        Command::Serve { .. } | Command::Plugins(_) => Ok(ExitCode::SUCCESS),
        Command::Import {
            asking,
            origin,
            seen_within,
            strict,
            unchecked,
        } => {
            let (input, total) = origin::open(origin, seen_within.map(Duration::from_secs))?;
            // First, lest a signal in between leave the store as it is.
            let stop = stop_flag()?;
            let store = Store::reach(settings, Absent::Make)?;
            let operation = Operation::Import {
                strict: *strict,
                unchecked: *unchecked,
            };
            import(&store, &operation, input, total, &stop, asking.json)
        }
        Command::Export {
            filter,
            oldest_first,
            ..
        } => {
            parse_filter(filter)?;
            let operation = Operation::Export {
                filter: filter.clone(),
                oldest_first: *oldest_first,
            };
            send(&Store::reach(settings, Absent::Refuse)?, &operation)
        }
        Command::Query { filters, .. } => {
            let filters = checked(filters)?;
            let store = Store::reach(settings, Absent::Refuse)?;
            send(&store, &Operation::Query { filters })
        }
        Command::Count { asking, filters } => {
            let filters = checked(filters)?;
            let store = Store::reach(settings, Absent::Refuse)?;
            show(&store.ask(&Operation::Count { filters })?, asking.json)
        }
        Command::Delete {
            asking,
            filter,
            yes,
        } => {
            if parse_filter(filter)?.limit.is_some() {
                return Err(Failure::Usage(
                    "a filter with `limit` does not say which events to delete; use `since` and \
                     `until`"
                        .to_owned(),
                ));
            }
            let store = Store::reach(settings, Absent::Refuse)?;
            delete(&store, filter, *yes, asking.json)
        }
        Command::Stats { asking } => {
            let store = Store::reach(settings, Absent::Refuse)?;
            show(&store.ask(&Operation::Statistics)?, asking.json)
        }
        Command::Doctor { asking } => doctor::doctor(settings, asking.json),
        Command::Slow {
            asking,
            save,
            since,
            sort,
            limit,
        } => requests::slow(
            settings,
            save.as_deref(),
            since.as_deref(),
            (*sort, *limit as usize),
            asking.json,
        ),
        Command::Top {
            interval,
            count,
            sort,
            ..
        } => {
            let interval = Duration::from_secs(*interval);
            requests::top(settings, interval, *count, *sort, &stop_flag()?)
        }
        Command::Verify { asking } => {
            let store = Store::reach(settings, Absent::Refuse)?;
            let mut terminal = Terminal::progress("checking", Total::Unknown);
            let result = store.carry_out(
                &Operation::Verify,
                Box::new(io::empty()),
                &Arc::default(),
                &mut terminal,
            );
            terminal.end().map_err(|error| Failure::output(&error))?;
            show(&result?, asking.json)
        }
        Command::Repair { asking } => show(&store::repair(settings)?, asking.json),
        Command::Compact { .. } => {
            let store = Store::reach(settings, Absent::Refuse)?;
            show(&store.ask(&Operation::Compact)?, false)
        }
        Command::Tables(command) => tables::run(command, settings),
        Command::Postgres { command } => postgres_commands::run(command, settings),
        Command::Bench(measurement) => bench(measurement),
        Command::Members {
            asking,
            keys,
            seen_within,
            after,
            limit,
        } => {
            for key in keys {
                parse_key(key)?;
            }
            let which = Which {
                keys: keys.clone(),
                after: *after,
                seen_within_seconds: *seen_within,
                limit: *limit as usize,
            };
            let report = store::ask_members(settings, &Operation::Members { which })?;
            show(&report, asking.json)
        }
        Command::Footprints {
            asking,
            key,
            on,
            off,
        } => {
            parse_key(key)?;
            let operation = Operation::Footprints {
                key: key.clone(),
                switch: (*on || *off).then_some(*on),
            };
            show(&store::ask_members(settings, &operation)?, asking.json)
        }
        Command::Ban {
            asking,
            who,
            reason,
            time,
        } => {
            check_reason(reason)?;
            let operation = Operation::Ban {
                who: parse_banned(who)?,
                reason: reason.clone(),
                seconds: *time,
            };
            show(&store::ask_bans(settings, &operation)?, asking.json)
        }
        Command::Unban { asking, who } => {
            let who = parse_banned(who)?;
            let report = store::ask_bans(settings, &Operation::Unban { who })?;
            show(&report, asking.json)
        }
        Command::Bans { asking } => {
            show(&store::ask_bans(settings, &Operation::Bans)?, asking.json)
        }
        Command::Sessions { command } => {
            let operation = match command {
                SessionsCommand::Revoke { who, .. } => {
                    parse_whose_sessions(who)?;
                    Operation::RevokeSessions { who: who.clone() }
                }
                SessionsCommand::Revoked { .. } => Operation::RevokedSessions,
            };
            let report = store::ask_sessions(settings, &operation)?;
            show(&report, command.asking().json)
        }
        Command::Config { example: true, .. } => print(&example()),
        Command::Config { asking, .. } => print(&present::configuration(effective, asking.json)),
    }
}

/// Measures a server. The configuration has no part in it: a report says what it was told.
fn bench(measurement: &Bench) -> Result<ExitCode, Failure> {
    let stop = stop_flag()?;
    hikyaku_bench::run(measurement, &stop)?;
    Ok(ExitCode::SUCCESS)
}

fn import(
    store: &Store,
    operation: &Operation,
    input: Input,
    total: Total,
    stop: &Arc<AtomicBool>,
    as_json: bool,
) -> Result<ExitCode, Failure> {
    let mut terminal = Terminal::progress("importing", total);
    let result = store.carry_out(operation, input, stop, &mut terminal);
    terminal.end().map_err(|error| Failure::output(&error))?;
    let mut report = result?;
    if let Report::Imported(report) = &mut report
        && report.end == ImportEnd::Complete
        && stop.load(Ordering::Relaxed)
    {
        // A server that was sent no more can't know why.
        report.end = ImportEnd::Interrupted;
    }
    show(&report, as_json)
}

/// Sends events to standard output.
fn send(store: &Store, operation: &Operation) -> Result<ExitCode, Failure> {
    let mut terminal = Terminal::events();
    let result = store.carry_out(
        operation,
        Box::new(io::empty()),
        &Arc::default(),
        &mut terminal,
    );
    terminal.end().map_err(|error| Failure::output(&error))?;
    show(&result?, false)
}

fn delete(store: &Store, filter: &str, yes: bool, as_json: bool) -> Result<ExitCode, Failure> {
    let count = Operation::Count {
        filters: vec![filter.to_owned()],
    };
    let found = store.ask(&count)?;
    let Report::Counted { count } = found else {
        return Err(Failure::Failed("a count has another answer".to_owned()));
    };
    if !yes {
        if as_json {
            return show(&found, true);
        }
        if count == 0 {
            return print("no event matches\n");
        }
        if !confirmed(count)? {
            return print(&format!(
                "{count} events match; nothing is deleted (--yes deletes without asking)\n"
            ));
        }
    }
    let stop = stop_flag()?;
    let mut terminal = Terminal::progress("deleting", Total::Events(count));
    let operation = Operation::Delete {
        filter: filter.to_owned(),
    };
    let result = store.carry_out(&operation, Box::new(io::empty()), &stop, &mut terminal);
    terminal.end().map_err(|error| Failure::output(&error))?;
    show(&result?, as_json)
}

fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    signals::stop_flag().map_err(|error| Failure::io("can't listen to signals", &error))
}

/// Asks, if somebody is there to answer.
fn confirmed(count: u64) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    let mut stderr = io::stderr();
    let mut answer = String::new();
    write!(stderr, "Delete {count} events for good? [y/N] ")
        .and_then(|()| stderr.flush())
        .and_then(|()| io::stdin().read_line(&mut answer))
        .map_err(|error| Failure::io("can't ask", &error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn checked(filters: &[String]) -> Result<Vec<String>, Failure> {
    for filter in filters {
        parse_filter(filter)?;
    }
    Ok(filters.to_vec())
}

/// Shows a report, and returns the exit code it means.
fn show(report: &Report, as_json: bool) -> Result<ExitCode, Failure> {
    let text = if as_json {
        serde_json::to_string(report)
            .map(|json| json + "\n")
            .map_err(|error| Failure::Failed(format!("can't write the report: {error}")))?
    } else {
        present::report(report)
    };
    print(&text)?;
    Ok(ExitCode::from(match report {
        Report::Imported(report) => match report.end {
            ImportEnd::Complete => 0,
            ImportEnd::InvalidLine | ImportEnd::InputLost => 1,
            ImportEnd::Interrupted => 130,
        },
        Report::Deleted {
            interrupted: true, ..
        } => 130,
        Report::Verified(report) if !report.sound => 4,
        _ => 0,
    }))
}

/// Prints a text to standard output.
pub(crate) fn print(text: &str) -> Result<ExitCode, Failure> {
    let mut stdout = io::stdout();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::output(&error))?;
    Ok(ExitCode::SUCCESS)
}
