//! What a worker's requests cost, by their shape: the glue between the relay's own values and the
//! ledger ([`hikyaku_observe`]) that keeps the figures.

use std::{
    cell::RefCell,
    sync::Arc,
    time::{Duration, Instant},
};

use hikyaku_event::{Event, Filter, KindClass, TagCondition};
use hikyaku_observe::{
    Cost, Ending, FilterShape, FilterShapes, Ledger, Phase, Shape, ShapeId, Statements,
};

use crate::metrics::Count;

/// One worker's requests. Empty if nothing is to be measured.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    ledger: Option<Ledger>,
    /// What the shapes of routes are called there, by handler: of the method that came last.
    routes: RefCell<Vec<Option<(http::Method, ShapeId)>>>,
}

/// A stored query or count under way, and what it has cost so far.
pub(crate) struct Asked {
    shape: Option<ShapeId>,
    filters: Option<Arc<[Filter]>>,
    cost: Cost,
    /// What it asked of a database.
    statements: Option<Box<Statements>>,
    /// Time of polling it.
    polled: Duration,
    /// Since when it has waited for the client to read.
    held_up: Option<Instant>,
}

/// When the events of one batch were where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchTimes {
    pub(crate) begun: Instant,
    pub(crate) checked: Instant,
    pub(crate) answered: Instant,
}

impl Requests {
    pub(crate) fn new(ledger: Option<Ledger>) -> Self {
        Self {
            ledger,
            routes: RefCell::default(),
        }
    }

    /// Begins to measure a REQ.
    pub(crate) fn req(&self, filters: &Arc<[Filter]>) -> Asked {
        self.asked(Shape::Req, filters, |_| Some(Arc::clone(filters)))
    }

    /// Begins to measure a COUNT. Its filters are somebody else's: only some are copied, to be shown.
    pub(crate) fn count(&self, filters: &[Filter]) -> Asked {
        self.asked(Shape::Count, filters, |filters| {
            let values = |filter: &Filter| filter.authors.as_ref().map_or(0, Vec::len);
            let few = filters.len() == 1 && filters.iter().map(values).sum::<usize>() < 8;
            few.then(|| filters.into())
        })
    }

    fn asked(
        &self,
        shape: fn(FilterShapes) -> Shape,
        filters: &[Filter],
        kept: impl FnOnce(&[Filter]) -> Option<Arc<[Filter]>>,
    ) -> Asked {
        let shape = (self.ledger.as_ref())
            .and_then(|ledger| ledger.id(&shape(filters.iter().map(filter_shape).collect())));
        Asked {
            shape,
            filters: self.ledger.as_ref().and_then(|_| kept(filters)),
            cost: Cost::default(),
            statements: None,
            polled: Duration::ZERO,
            held_up: None,
        }
    }

    /// Takes down a query or count that took so long.
    pub(crate) fn ended(&self, asked: &Asked, total: Duration, outcome: Count) {
        let Some(ledger) = &self.ledger else { return };
        let mut cost = asked.cost;
        cost.total = total;
        cost.ending = match outcome {
            Count::QueriesFailed => Ending::Failed,
            Count::QueriesCancelled => Ending::Cancelled,
            _ => Ending::Done,
        };
        // With a database the work here is reading its answers; the embedded store works here itself.
        let phase = match asked.statements {
            Some(_) => Phase::Decode,
            None => Phase::Query,
        };
        cost.spend(phase, asked.polled);
        let statements = asked.statements.as_deref();
        ledger.record(asked.shape, &cost, statements, || {
            asked.filters.as_deref().map(example)
        });
    }

    /// Takes down an event that was answered; `statements` are of its whole batch, and given with one
    /// of its events.
    pub(crate) fn event(
        &self,
        event: &Event,
        received: Instant,
        times: &BatchTimes,
        outcome: Count,
        statements: Option<&Statements>,
    ) {
        let Some(ledger) = &self.ledger else { return };
        let shape = Shape::Event {
            outcome: outcome.outcome(),
            class: match event.kind().class() {
                KindClass::Regular => "regular",
                KindClass::Replaceable => "replaceable",
                KindClass::Ephemeral => "ephemeral",
                KindClass::Addressable => "addressable",
            },
        };
        let mut cost = Cost::new(times.answered.saturating_duration_since(received));
        cost.bytes = event.json().len() as u64;
        if matches!(outcome, Count::EventsFailed) {
            cost.ending = Ending::Failed;
        }
        cost.spend(Phase::Wait, times.begun.saturating_duration_since(received));
        cost.spend(Phase::Handler, times.checked - times.begun);
        cost.spend(Phase::Write, times.answered - times.checked);
        ledger.record(ledger.id(&shape), &cost, statements, || {
            Some(format!("{} (kind {})", event.id().to_hex(), event.kind().0))
        });
    }

    /// Takes down an HTTP request: a route's pattern and never the path that came.
    pub(crate) fn http(
        &self,
        method: &http::Method,
        route: &str,
        total: Duration,
        failed: bool,
        statements: Option<&Statements>,
    ) {
        let Some(ledger) = &self.ledger else { return };
        let shape = http_shape(method, route);
        let cost = http_cost(total, failed, statements);
        ledger.record(ledger.id(&shape), &cost, statements, || None);
    }

    /// Takes down a request that a handler has answered.
    pub(crate) fn route(
        &self,
        handler: usize,
        method: &http::Method,
        route: &str,
        total: Duration,
        failed: bool,
        statements: Option<&Statements>,
    ) {
        let Some(ledger) = &self.ledger else { return };
        if statements.is_some() {
            return self.http(method, route, total, failed, statements);
        }
        let mut routes = self.routes.borrow_mut();
        if routes.len() <= handler {
            routes.resize(handler + 1, None);
        }
        let Some(known) = routes.get_mut(handler) else {
            return;
        };
        let same = known.as_ref().filter(|(last, _)| last == method);
        let id = same.map(|(_, id)| *id).or_else(|| {
            let id = ledger.id(&http_shape(method, route))?;
            *known = Some((method.clone(), id));
            Some(id)
        });
        let cost = http_cost(total, failed, None);
        if !ledger.record_many(id, &cost, 1, || None) {
            // It has given way to others, and is to be named anew.
            *known = None;
        }
    }
}

fn http_shape(method: &http::Method, route: &str) -> Shape {
    Shape::Http {
        method: match *method {
            http::Method::GET => "GET",
            http::Method::HEAD => "HEAD",
            http::Method::POST => "POST",
            http::Method::PUT => "PUT",
            http::Method::PATCH => "PATCH",
            http::Method::DELETE => "DELETE",
            http::Method::OPTIONS => "OPTIONS",
            _ => "(other method)",
        },
        route: route.into(),
    }
}

fn http_cost(total: Duration, failed: bool, statements: Option<&Statements>) -> Cost {
    let mut cost = Cost::new(total);
    if failed {
        cost.ending = Ending::Failed;
    }
    // The rest of its time is its own.
    let asked = statements.map_or(Duration::ZERO, Statements::time);
    cost.spend(Phase::Handler, total.saturating_sub(asked));
    cost
}

impl Asked {
    /// Lends the record of what it asks of a database; to be given back.
    pub(crate) fn take_record(&mut self) -> Option<Box<Statements>> {
        self.statements.take()
    }

    pub(crate) fn put_record(&mut self, record: Option<Box<Statements>>) {
        self.statements = record;
    }

    /// Notes a poll's work.
    pub(crate) fn worked(&mut self, took: Duration, examined: u32, bytes: usize) {
        self.polled += took;
        self.cost.examined += u64::from(examined);
        self.cost.bytes += bytes as u64;
    }

    /// Notes answers.
    pub(crate) fn returned(&mut self, events: u64) {
        self.cost.returned += events;
    }

    /// Notes that it waits for the client to read.
    pub(crate) fn hold_up(&mut self, now: Instant) {
        self.held_up.get_or_insert(now);
    }

    /// Notes that it goes on.
    pub(crate) fn go_on(&mut self, now: Instant) {
        if let Some(since) = self.held_up.take() {
            self.cost.spend(Phase::Write, now - since);
        }
    }
}

fn filter_shape(filter: &Filter) -> FilterShape {
    let mut shape = FilterShape::default().times(filter.since.is_some(), filter.until.is_some());
    if let Some(ids) = &filter.ids {
        shape = shape.ids(ids.len());
    }
    if let Some(authors) = &filter.authors {
        shape = shape.authors(authors.len());
    }
    if let Some(kinds) = &filter.kinds {
        shape = shape.kinds(kinds.len());
    }
    if let Some(limit) = filter.limit {
        shape = shape.limit(limit);
    }
    for (place, tag) in filter.tags.iter().enumerate() {
        // Longer names are one shape: an operator has few of them.
        let letter = tag.name.letter().unwrap_or(b'*');
        shape = shape.tag(place, letter, tag.values.len());
    }
    shape
}

/// Writes filters down, of long lists the first values.
fn example(filters: &[Filter]) -> String {
    const FILTERS_MAX: usize = 4;
    let shortened = filters.iter().take(FILTERS_MAX).map(|filter| {
        Filter {
            ids: filter.ids.as_deref().map(first),
            authors: filter.authors.as_deref().map(first),
            kinds: filter.kinds.as_deref().map(first),
            tags: (filter.tags.iter())
                .map(|tag| TagCondition {
                    name: tag.name.clone(),
                    values: first(&tag.values),
                })
                .collect(),
            ..*filter
        }
        .to_json()
    });
    shortened.collect::<Vec<_>>().join(" ")
}

fn first<T: Clone>(values: &[T]) -> Vec<T> {
    const VALUES_MAX: usize = 4;
    values.iter().take(VALUES_MAX).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_has_some_values_of_each_list() {
        let ids = (0..9).map(|n| format!("\"{n:064}\"")).collect::<Vec<_>>();
        let json = format!(r##"{{"ids":[{}],"#t":["a"],"limit":7}}"##, ids.join(","));
        let filter = Filter::parse(json.as_bytes()).unwrap();
        let shown = example(&vec![filter; 9]);
        assert_eq!(shown.matches("limit").count(), 4);
        assert_eq!(shown.matches("0000").count() / 15, 4 * 4);
        assert!(shown.contains(r##""#t":["a"]"##), "{shown}");
    }
}
