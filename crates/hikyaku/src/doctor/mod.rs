//! `doctor`: what usually goes wrong, looked for; what was seen, and what to do about it.
//!
//! Figures are gathered where they are: from the system (`system`), from the running server through the
//! control socket (`server`), from the store (`store`), from the database (`database`), from the relay's
//! own address (`web`). Each part judges its own.

mod database;
mod finding;
mod server;
mod store;
mod system;
mod web;

use std::{os::unix::net::UnixStream, process::ExitCode};

use finding::{Finding, Findings, Level};

use crate::{
    commands::print,
    configuration::Settings,
    control,
    failure::Failure,
    operations::{NO_EVENTS, Operation, Report},
    store::Store,
};

/// Looks at everything, prints what was found, and tells by the exit code whether anything is wrong.
pub(crate) fn doctor(settings: &Settings, as_json: bool) -> Result<ExitCode, Failure> {
    let mut findings = Findings::default();
    let socket = control::socket(&settings.data);
    let served = UnixStream::connect(&socket).is_ok();
    let answer = served.then(|| Store::Served(socket).ask(&Operation::Condition));
    if matches!(&answer, Some(Err(error)) if error.to_string() == NO_EVENTS) {
        // What is said of a relay is wrong of it, and it has no events to look at.
        findings.push(Finding::ok(
            "server",
            "a table server is running: `hikyaku slow` says what its requests cost",
        ));
        system::examine_machine(settings, None, &mut findings);
    } else {
        relay(settings, answer, &mut findings);
    }
    print(&if as_json {
        findings.json()
    } else {
        findings.text()
    })?;
    Ok(match findings.worst() {
        Level::Bad => ExitCode::from(1),
        Level::Ok | Level::Warn => ExitCode::SUCCESS,
    })
}

/// Looks at a relay, which runs if it has answered.
fn relay(settings: &Settings, answer: Option<Result<Report, Failure>>, findings: &mut Findings) {
    let served = answer.is_some();
    let condition = match answer {
        Some(Ok(Report::Condition(condition))) => Some(condition),
        Some(Err(error)) => {
            findings.push(Finding::warn(
                "server",
                format!("it can't be asked: {error}"),
                "start it again: it may be of another version than this command",
            ));
            None
        }
        _ => None,
    };
    if let Some(condition) = &condition {
        server::examine(condition, findings);
    } else if !served {
        findings.push(Finding::ok(
            "server",
            "not running: what only a running server knows is not looked at",
        ));
    }
    system::examine(settings, condition.as_ref(), findings);
    store::examine(settings, served, findings);
    database::examine(settings, condition.as_ref(), findings);
    web::examine(settings, findings);
}
