//! The figures as Prometheus text (exposition format 0.0.4).

use std::{
    fmt::{self, Write as _},
    sync::Arc,
};

use super::{
    Count, Counters, Latency, Level, WorkerMetrics, cells::Description, handlers, histogram::Totals,
};
use crate::plugin::HandlerBook;

/// A figure that somebody else keeps, a store say.
#[derive(Debug, Clone, PartialEq)]
pub struct Gauge {
    /// Its name, without the program's prefix: `store_segments`. Lower-case letters, digits and
    /// underscores, the unit last.
    pub name: &'static str,
    /// What it says, in one line.
    pub help: &'static str,
    /// How much it is now.
    pub value: f64,
}

/// Asks for the figures that others keep; called at each scrape, on no worker's thread.
pub type Gauges = Arc<dyn Fn() -> Vec<Gauge> + Send + Sync>;

/// All figures of a server.
#[derive(Clone)]
pub struct Metrics {
    workers: Arc<[Arc<WorkerMetrics>]>,
    gauges: Option<Gauges>,
    plugins: Option<(Arc<HandlerBook>, Arc<Counters>)>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("workers", &self.workers.len())
            .finish_non_exhaustive()
    }
}

impl Metrics {
    pub(crate) fn new(workers: usize, gauges: Option<Gauges>) -> Self {
        Self {
            workers: (0..workers).map(|_| Arc::default()).collect(),
            gauges,
            plugins: None,
        }
    }

    /// Shows what plugins and their handlers do, too.
    pub(crate) fn of_plugins(self, handlers: Arc<HandlerBook>, counters: Arc<Counters>) -> Self {
        Self {
            plugins: Some((handlers, counters)),
            ..self
        }
    }

    /// Returns the cells of each worker.
    pub(crate) fn workers(&self) -> impl Iterator<Item = &Arc<WorkerMetrics>> {
        self.workers.iter()
    }

    /// Writes all figures as Prometheus text.
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(16 * 1024);
        let counts = sum(self.workers.iter().map(|worker| worker.counts()));
        let levels = sum(self.workers.iter().map(|worker| worker.levels()));
        family(&mut text, Count::DESCRIPTIONS, &counts, "counter");
        family(&mut text, Level::DESCRIPTIONS, &levels, "gauge");
        self.spread(&mut text);
        for (index, description) in Latency::DESCRIPTIONS.iter().enumerate() {
            let mut totals = Totals::default();
            for worker in self.workers.iter() {
                if let Some(histogram) = worker.latencies().get(index) {
                    histogram.add_to(&mut totals);
                }
            }
            histogram(&mut text, description, &totals);
        }
        if let Some((handlers, counters)) = &self.plugins {
            handlers::write(&mut text, handlers);
            for figure in counters.read() {
                header(&mut text, figure.name, figure.help, figure.kind);
                line(&mut text, format_args!("{} {}", figure.name, figure.value));
            }
        }
        for gauge in self.gauges.as_ref().map(|ask| ask()).unwrap_or_default() {
            header(&mut text, gauge.name, gauge.help, "gauge");
            line(&mut text, format_args!("{} {}", gauge.name, gauge.value));
        }
        text
    }
}

impl Metrics {
    /// Writes how the connections are spread over the workers.
    fn spread(&self, text: &mut String) {
        let name = "worker_connections";
        header(text, name, "WebSocket connections open, by worker", "gauge");
        for (index, worker) in self.workers.iter().enumerate() {
            let connections = worker
                .levels()
                .nth(Level::Connections as usize)
                .unwrap_or(0);
            line(
                text,
                format_args!("{name}{{worker=\"{index}\"}} {connections}"),
            );
        }
    }
}

/// Every name in the text begins with it.
const PREFIX: &str = "hikyaku_";

fn sum(workers: impl Iterator<Item = impl Iterator<Item = u64>>) -> Vec<u64> {
    workers.fold(Vec::new(), |mut sums, values| {
        for (index, value) in values.enumerate() {
            match sums.get_mut(index) {
                Some(sum) => *sum += value,
                None => sums.push(value),
            }
        }
        sums
    })
}

fn family(text: &mut String, descriptions: &[Description], values: &[u64], kind: &str) {
    let mut last = "";
    for (Description { name, label, help }, value) in descriptions.iter().zip(values) {
        if *name != last {
            header(text, name, help, kind);
            last = name;
        }
        if label.is_empty() {
            line(text, format_args!("{name} {value}"));
        } else {
            line(text, format_args!("{name}{{{label}}} {value}"));
        }
    }
}

fn histogram(text: &mut String, description: &Description, totals: &Totals) {
    let name = description.name;
    header(text, name, description.help, "histogram");
    for (bound, count) in totals.cumulative() {
        line(
            text,
            format_args!("{name}_bucket{{le=\"{bound}\"}} {count}"),
        );
    }
    let count = totals.count();
    line(text, format_args!("{name}_bucket{{le=\"+Inf\"}} {count}"));
    line(text, format_args!("{name}_sum {}", totals.sum_seconds()));
    line(text, format_args!("{name}_count {count}"));
}

pub(super) fn header(text: &mut String, name: &str, help: &str, kind: &str) {
    // Writing to a string can't fail.
    let _ = writeln!(text, "# HELP {PREFIX}{name} {help}");
    let _ = writeln!(text, "# TYPE {PREFIX}{name} {kind}");
}

pub(super) fn line(text: &mut String, content: fmt::Arguments<'_>) {
    let _ = writeln!(text, "{PREFIX}{content}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn workers_are_added_up() {
        let metrics = Metrics::new(2, None);
        for worker in metrics.workers() {
            worker.add(Count::EventsStored, 3);
            worker.set(Level::Connections, 2);
            worker.record(Latency::Publish, Duration::from_micros(700));
        }
        let text = metrics.render();
        for line in [
            "hikyaku_events_total{outcome=\"stored\"} 6",
            "hikyaku_connections 4",
            "hikyaku_publish_seconds_bucket{le=\"0.000768\"} 2",
            "hikyaku_publish_seconds_bucket{le=\"0.00064\"} 0",
            "hikyaku_publish_seconds_bucket{le=\"+Inf\"} 2",
            "hikyaku_publish_seconds_count 2",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn each_family_has_one_header() {
        let text = Metrics::new(1, None).render();
        let mut headers: Vec<_> = text.lines().filter(|l| l.starts_with("# TYPE")).collect();
        let before = headers.len();
        headers.sort_unstable();
        headers.dedup();
        assert_eq!(headers.len(), before);
    }

    #[test]
    fn figures_of_others_are_asked_for() {
        let gauge = Gauge {
            name: "store_events",
            help: "Events stored",
            value: 1.5,
        };
        let metrics = Metrics::new(1, Some(Arc::new(move || vec![gauge.clone()])));
        assert!(metrics.render().contains("\nhikyaku_store_events 1.5\n"));
    }
}
