//! Plugins' handlers as Prometheus text: how often each was called, how long it took, how it failed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{
    exposition::{header, line},
    histogram::Totals,
};
use crate::plugin::{HandlerBook, HandlerCells, HandlerName};

/// A figure's name, its help, and where it is kept.
type Figure = (&'static str, &'static str, fn(&HandlerCells) -> &AtomicU64);

/// Writes what is kept about each handler, all workers added up.
pub(super) fn write(text: &mut String, book: &HandlerBook) {
    if book.names.is_empty() {
        return;
    }
    let failures: [Figure; 4] = [
        (
            "handler_panics_total",
            "Calls of plugins' handlers that panicked",
            |cells| &cells.panics,
        ),
        (
            "handler_timeouts_total",
            "Calls of plugins' handlers that were given up because they took too long",
            |cells| &cells.timeouts,
        ),
        (
            "handler_dropped_total",
            "Calls of plugins' handlers that were not made because too many were under way",
            |cells| &cells.dropped,
        ),
        (
            "handler_holds_total",
            "How often a plugin's handler held its worker for more than 10 ms",
            |cells| &cells.holds,
        ),
    ];
    for (name, help, cell) in failures {
        header(text, name, help, "counter");
        for (index, handler) in book.names.iter().enumerate() {
            let sum: u64 = cells_of(book, index)
                .map(|cells| cell(cells).load(Relaxed))
                .sum();
            line(text, format_args!("{name}{{{}}} {sum}", labels(handler)));
        }
    }
    let name = "handler_seconds";
    header(
        text,
        name,
        "From the call of a plugin's handler to its end",
        "summary",
    );
    for (index, handler) in book.names.iter().enumerate() {
        let mut totals = Totals::default();
        for cells in cells_of(book, index) {
            cells.seconds.add_to(&mut totals);
        }
        let labels = labels(handler);
        let (sum, count) = (totals.sum_seconds(), totals.count());
        for quantile in [0.5, 0.99].iter().filter(|_| count > 0) {
            let value = totals.quantile_seconds(*quantile);
            line(
                text,
                format_args!("{name}{{{labels},quantile=\"{quantile}\"}} {value}"),
            );
        }
        line(text, format_args!("{name}_sum{{{labels}}} {sum}"));
        line(text, format_args!("{name}_count{{{labels}}} {count}"));
    }
}

fn cells_of(book: &HandlerBook, handler: usize) -> impl Iterator<Item = &HandlerCells> {
    book.workers
        .iter()
        .filter_map(move |page| page.all_cells().get(handler))
}

fn labels(handler: &HandlerName) -> String {
    let escaped = |text: &str| {
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    format!(
        "plugin=\"{}\",handler=\"{}\"",
        escaped(handler.plugin),
        escaped(&handler.task)
    )
}
