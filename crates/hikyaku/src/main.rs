//! The program: flags, configuration, logging, signals, and the commands. What they do is elsewhere:
//! the relay in `server`, the store in `engine`.

mod access_log;
mod bans;
mod certificate;
mod command_line;
mod commands;
mod configuration;
mod control;
mod doctor;
mod failure;
mod logging;
mod members;
mod opened;
mod operations;
mod origin;
mod policies;
mod postgres_commands;
mod present;
mod relay_key;
mod requests;
mod serve;
mod sessions;
mod signals;
mod store;
mod tables;
mod waiting;

use std::process::ExitCode;

use clap::Parser;

use crate::{command_line::CommandLine, configuration::Effective, failure::Failure};

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    run(&command_line).unwrap_or_else(|failure| {
        if failure != Failure::OutputClosed {
            eprintln!("error: {failure}");
        }
        failure.exit_code()
    })
}

fn run(command_line: &CommandLine) -> Result<ExitCode, Failure> {
    let effective = Effective::load(&command_line.command.flags())?;
    logging::start(&effective.settings);
    for warning in &effective.warnings {
        tracing::warn!("{warning}");
    }
    commands::run(&command_line.command, effective)
}
