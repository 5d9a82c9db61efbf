//! Figures of plugins' own.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// The figures that plugins have made.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<Vec<Registered>>);

#[derive(Debug)]
struct Registered {
    name: &'static str,
    help: &'static str,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Counter(Arc<AtomicU64>),
    /// The bits of a number for each who has made it.
    Gauge(Vec<Arc<AtomicU64>>),
}

/// A figure of a plugin's, as it is shown.
#[derive(Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: &'static str,
    pub(super) value: f64,
}

impl Counters {
    /// Returns the counter of this name, new or not.
    pub(crate) fn register(&self, name: &'static str, help: &'static str) -> Arc<AtomicU64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().find(|known| known.name == name);
        if let Some(Values::Counter(value)) = known.map(|known| &known.values) {
            return Arc::clone(value);
        }
        let value = Arc::default();
        if known.is_none() {
            let values = Values::Counter(Arc::clone(&value));
            all.push(Registered { name, help, values });
        }
        value
    }

    /// Returns a part of the gauge of this name, new or not: what is shown is the sum of its parts, as
    /// the bits of an `f64` each.
    pub(crate) fn register_gauge(&self, name: &'static str, help: &'static str) -> Arc<AtomicU64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let part = Arc::default();
        if let Some(known) = all.iter_mut().find(|known| known.name == name) {
            if let Values::Gauge(parts) = &mut known.values {
                parts.push(Arc::clone(&part));
            }
        } else {
            let values = Values::Gauge(vec![Arc::clone(&part)]);
            all.push(Registered { name, help, values });
        }
        part
    }

    /// Shows what somebody else counts.
    pub(crate) fn show(&self, name: &'static str, help: &'static str, value: Arc<AtomicU64>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let values = Values::Counter(value);
        all.push(Registered { name, help, values });
    }

    /// Returns all figures.
    pub(super) fn read(&self) -> Vec<Figure> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let figure = |known: &Registered| {
            let (kind, value) = match &known.values {
                Values::Counter(value) => ("counter", value.load(Relaxed) as f64),
                Values::Gauge(parts) => {
                    let parts = parts.iter().map(|part| f64::from_bits(part.load(Relaxed)));
                    ("gauge", parts.sum())
                }
            };
            Figure {
                name: known.name,
                help: known.help,
                kind,
                value,
            }
        };
        all.iter().map(figure).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_name_are_one_and_gauges_are_added_up() {
        let figures = Counters::default();
        for by in [1_u64, 2] {
            figures.register("a_total", "A").fetch_add(by, Relaxed);
            let part = figures.register_gauge("b", "B");
            part.store((by as f64 / 2.0).to_bits(), Relaxed);
        }
        // Who takes a name for something else has a figure that nobody sees.
        figures.register("b", "B").fetch_add(7, Relaxed);
        figures
            .register_gauge("a_total", "A")
            .store(9.0_f64.to_bits(), Relaxed);
        let shown: Vec<_> = (figures.read().into_iter())
            .map(|figure| (figure.name, figure.kind, figure.value))
            .collect();
        assert_eq!(shown, [("a_total", "counter", 3.0), ("b", "gauge", 1.5)]);
    }
}
