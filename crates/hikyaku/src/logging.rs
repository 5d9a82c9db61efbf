//! Log lines: to standard error, filtered, for people or for programs.

use std::io::{self, IsTerminal};

use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

use crate::configuration::{LogFormat, Settings};

/// Tells what is wrong with a filter, if anything is.
pub(crate) fn check_filter(filter: &str) -> Result<(), String> {
    filter.parse::<Targets>().map(|_| ()).map_err(|error| {
        format!("expected like \"info\" or \"warn,hikyaku_server=debug\": {error}")
    })
}

/// Begins to write log lines. Called once.
pub(crate) fn start(settings: &Settings) {
    // Checked with the configuration.
    let filter: Targets = settings.log_filter.parse().unwrap_or_default();
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    match settings.log_format {
        LogFormat::Text => registry
            .with(lines.with_ansi(io::stderr().is_terminal()))
            .init(),
        LogFormat::Json => registry.with(lines.json()).init(),
    }
}
