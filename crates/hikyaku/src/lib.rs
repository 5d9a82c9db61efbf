//! The program: flags, configuration, logging, signals, and the commands. What they do is elsewhere:
//! the relay in `server`, the store in `engine`.
//!
//! As a library it is the same program with somebody's own plugins in it: [`main_with`].

mod access_log;
mod bans;
mod certificate;
mod command_line;
mod commands;
mod configuration;
mod control;
mod doctor;
mod failure;
mod footprints;
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

use clap::{
    CommandFactory, FromArgMatches,
    builder::{Resettable, ValueParser},
};
use hikyaku_server::{PluginList, Server};

use crate::{
    command_line::{Command, CommandLine},
    configuration::Effective,
    failure::Failure,
};

/// Is the program `hikyaku`.
pub fn main() -> ExitCode {
    end(parse(false).and_then(|command_line| run(&command_line, |server| server)))
}

/// Is the program `hikyaku` with plugins: the same commands and configuration, and what `extend`
/// registers with the server before it serves.
///
/// Handlers of `extend` are asked before the policies of the configuration. Its
/// [commands](Server::command) are arguments of the program beside its own; where both have one of the
/// same name it is the program's. They find the store and the configuration of the folder they are
/// called in, not the members and tables, which a server has open.
///
/// ```no_run
/// use hikyaku_event::Event;
/// use hikyaku_server::{Client, Verdict};
///
/// struct Policy;
///
/// fn main() -> std::process::ExitCode {
///     hikyaku::main_with(|server| {
///         server
///             .plugin(async |_| Ok(Policy))
///             .on_event(async |_: &Policy, _: &Client, event: &Event| {
///                 match event.content().len() {
///                     ..=280 => Verdict::Accept,
///                     _ => Verdict::reject("too long"),
///                 }
///             })
///     })
/// }
/// ```
pub fn main_with<Plugins: PluginList>(extend: impl FnOnce(Server) -> Server<Plugins>) -> ExitCode {
    end(parse(true).and_then(|command_line| run(&command_line, extend)))
}

/// Reads the arguments. Those that are no command of the program's may be one of a plugin's.
fn parse(has_plugins: bool) -> Result<CommandLine, Failure> {
    let mut known = CommandLine::command();
    if !has_plugins {
        // Whatever is no command of the program's is a mistake then, and is told as one.
        known = known
            .allow_external_subcommands(false)
            .external_subcommand_value_parser(Resettable::<ValueParser>::Reset);
    }
    let parsed = CommandLine::from_arg_matches(&known.get_matches());
    parsed.map_err(|error| Failure::Usage(error.to_string()))
}

fn run<Plugins: PluginList>(
    command_line: &CommandLine,
    extend: impl FnOnce(Server) -> Server<Plugins>,
) -> Result<ExitCode, Failure> {
    let effective = Effective::load(&command_line.command.flags())?;
    logging::start(&effective.settings);
    for warning in &effective.warnings {
        tracing::warn!("{warning}");
    }
    match &command_line.command {
        Command::Serve { .. } => {
            serve::serve(effective.settings, extend).map(|()| ExitCode::SUCCESS)
        }
        Command::Plugins(arguments) => {
            serve::carry_out(effective.settings, extend, arguments).map(|()| ExitCode::SUCCESS)
        }
        command => commands::run(command, &effective),
    }
}

fn end(result: Result<ExitCode, Failure>) -> ExitCode {
    result.unwrap_or_else(|failure| {
        if failure != Failure::OutputClosed {
            eprintln!("error: {failure}");
        }
        failure.exit_code()
    })
}
