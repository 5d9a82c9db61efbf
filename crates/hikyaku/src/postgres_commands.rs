//! The commands about the store in PostgreSQL: its schema, and its index of tags.

use std::{process::ExitCode, sync::atomic::Ordering};

use hikyaku_postgres::{Backfill, BackfillState, BackfillStatus, Pace};

use crate::{
    command_line::{BackfillCommand, PostgresCommand},
    commands::print,
    configuration::Settings,
    failure::Failure,
    operations::{Audience, Progress},
    present::{self, Terminal, Total},
    signals,
};

/// Runs a command, and prints how things stand afterwards.
pub(crate) fn run(command: &PostgresCommand, settings: &Settings) -> Result<ExitCode, Failure> {
    let (status, as_json) = match command {
        PostgresCommand::Schema { .. } => {
            return print(&hikyaku_postgres::schema_sql(&settings.store_schema)?);
        }
        PostgresCommand::IndexTag { asking, names } => (open(settings)?.index(names)?, asking.json),
        PostgresCommand::DropTag { asking, names } => {
            (open(settings)?.drop_names(names)?, asking.json)
        }
        PostgresCommand::Backfill { command } => (
            look_after(&open(settings)?, command)?,
            command.asking().json,
        ),
    };
    print(&present::backfill(&status, as_json))
}

fn open(settings: &Settings) -> Result<Backfill, Failure> {
    let options = settings.postgres_options().ok_or_else(|| {
        Failure::Usage(
            "the store is not in a database; name one with --store postgres://...".to_owned(),
        )
    })?;
    Ok(Backfill::open(&options)?)
}

fn look_after(backfill: &Backfill, command: &BackfillCommand) -> Result<BackfillStatus, Failure> {
    Ok(match command {
        BackfillCommand::Status { .. } => backfill.status()?,
        BackfillCommand::Pause { .. } => backfill.pause(true)?,
        BackfillCommand::Resume { .. } => backfill.pause(false)?,
        BackfillCommand::Cancel { .. } => backfill.cancel()?,
        BackfillCommand::Pace { share, rate, .. } => backfill.set_pace(Pace {
            share: *share,
            rate: *rate,
        })?,
        BackfillCommand::Run { .. } => work(backfill)?,
    })
}

/// Works here, until nothing is left, a signal comes, or another process is at it.
fn work(backfill: &Backfill) -> Result<BackfillStatus, Failure> {
    let stop =
        signals::stop_flag().map_err(|error| Failure::io("can't listen to signals", &error))?;
    let begin = backfill.status()?;
    let left = begin.total.saturating_sub(begin.done);
    let mut terminal = Terminal::progress("indexing", Total::Events(left));
    let ended = backfill.run(&stop, |status| {
        // Progress that can't be shown is no reason to stop.
        let _ = terminal.progress(Progress {
            events: status.done.saturating_sub(begin.done),
            bytes: 0,
        });
    });
    terminal.end().map_err(|error| Failure::output(&error))?;
    let (ended, status) = (ended?, backfill.status()?);
    if !ended && !stop.load(Ordering::Relaxed) && status.state != BackfillState::Idle {
        eprintln!("another process is at it already");
    }
    Ok(status)
}
