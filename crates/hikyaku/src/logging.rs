//! Log lines: to standard error, filtered, for people or for programs. Each line that is written while a
//! request is answered has the request's name.

use std::{
    fmt,
    io::{self, IsTerminal},
};

use hikyaku_server::current_request;
use tracing::{Event, Subscriber};
use tracing_subscriber::{
    filter::Targets,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, JsonFields, Writer},
    },
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

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
        LogFormat::Text => {
            let ansi = io::stderr().is_terminal();
            let named = Named {
                line: Format::default().with_ansi(ansi),
                as_json: false,
            };
            registry
                .with(lines.with_ansi(ansi).event_format(named))
                .init();
        }
        LogFormat::Json => {
            let named = Named {
                line: Format::default().json(),
                as_json: true,
            };
            let lines = lines.fmt_fields(JsonFields::new());
            registry.with(lines.event_format(named)).init();
        }
    }
}

/// Writes lines as `line` does, and the name of the request that this thread works on at their ends.
struct Named<F> {
    line: F,
    as_json: bool,
}

impl<S, N, F> FormatEvent<S, N> for Named<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(name) = current_request() else {
            return self.line.format_event(context, writer, event);
        };
        let mut line = String::new();
        let into = Writer::new(&mut line);
        self.line.format_event(context, into, event)?;
        writer.write_str(&with_name(&line, &name, self.as_json))
    }
}

/// Adds a request's name, which has nothing that needs quotes, to a line.
fn with_name(line: &str, name: &str, as_json: bool) -> String {
    let line = line.trim_end_matches('\n');
    match line.strip_suffix('}') {
        Some(fields) if as_json => format!("{fields},\"request_id\":\"{name}\"}}\n"),
        _ => format!("{line} request_id={name}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_the_name_of_its_request() {
        let text = "2026-11-21T00:00:00Z  WARN x: said why={}\n";
        assert_eq!(
            with_name(text, "0c5f", false),
            "2026-11-21T00:00:00Z  WARN x: said why={} request_id=0c5f\n"
        );
        let json = with_name("{\"level\":\"WARN\",\"fields\":{}}\n", "a:b", true);
        assert_eq!(
            json,
            "{\"level\":\"WARN\",\"fields\":{},\"request_id\":\"a:b\"}\n"
        );
        assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
    }
}
