//! Commands of plugins: what a program does in the place of serving, when its first argument says so.

use std::{num::NonZeroUsize, process::ExitCode};

use super::{PluginError, PluginList};
use crate::{Server, ServerError};

/// A command's name, and what it is for.
#[derive(Debug, Clone)]
pub(crate) struct CommandName {
    pub(crate) name: String,
    pub(crate) about: String,
}

/// Why a command has not been carried out.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no such command; the text lists those there are.
    #[error("{0}")]
    Usage(String),
    /// The plugins can't be made.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The command says so itself.
    #[error("{command} has failed")]
    Failed {
        /// Its name.
        command: String,
        /// What it said.
        source: PluginError,
    },
}

impl<Plugins: PluginList> Server<Plugins> {
    /// Is a program: serves without arguments, carries a command out if the first argument names one
    /// of [`Server::command`], and says what can be asked otherwise.
    pub fn main(self) -> ExitCode {
        let mut arguments = std::env::args().skip(1);
        let done = match arguments.next() {
            None => self.run().map_err(CommandError::Server),
            Some(name) => self.run_command(&name, arguments.collect()),
        };
        let Err(error) = done else {
            return ExitCode::SUCCESS;
        };
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        let mut text = Vec::new();
        while let Some(error) = cause {
            text.push(error.to_string());
            cause = error.source();
        }
        eprintln!("{}", text.join(": "));
        match error {
            CommandError::Usage(_) => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }

    /// Carries a command out, on the current thread: its plugins are made as for a single worker, and
    /// nobody is served.
    pub fn run_command(mut self, name: &str, arguments: Vec<String>) -> Result<(), CommandError> {
        let mut names = self.commands.iter();
        let Some(place) = names.position(|command| command.name == name) else {
            return Err(CommandError::Usage(self.usage(name)));
        };
        // A server of the same configuration may be running.
        self.config.listen.set_port(0);
        self.config.metrics_listen = None;
        self.config.workers = Some(NonZeroUsize::MIN);
        let command = name.to_owned();
        let said = self.bind()?.run_command(place, arguments)?;
        said.map_err(|source| CommandError::Failed { command, source })
    }

    fn usage(&self, name: &str) -> String {
        let mut text = format!("there is no command `{name}`; without one this program serves");
        for command in &self.commands {
            text += "\n  ";
            text += &command.name;
            text += ": ";
            text += &command.about;
        }
        text
    }
}
