//! What all workers have recorded, at one moment: to be shown, kept and compared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    histogram::Histogram,
    shape::Shape,
    statements::{REPEATS_MIN, Statements},
};

/// Statements, and requests that repeat one, that a worker tells apart.
const BOOK_MAX: usize = 256;

/// The figures of all workers at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// When the server began to record, in microseconds since 1970.
    pub started_us: u64,
    /// The moment, in microseconds since 1970.
    pub taken_us: u64,
    /// By shape, the one that took most time first.
    pub shapes: Vec<ShapeFigures>,
    /// The statements, the one that took most time first.
    pub statements: Vec<StatementFigures>,
    /// Requests that made the same statement [`REPEATS_MIN`] times or more, worst first.
    pub repeats: Vec<RepeatFigures>,
    /// Requests that asked for a connection while they held one.
    pub nested: Vec<NestedFigures>,
}

/// What the requests of one shape cost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShapeFigures {
    /// The shape.
    pub shape: String,
    /// Requests.
    pub calls: u64,
    /// Those that failed by an error of ours.
    pub failed: u64,
    /// Those whose answer was not wanted any more.
    pub cancelled: u64,
    /// Time from arrival to the end of the answer, in nanoseconds.
    pub total_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// What the time went to.
    pub phases_ns: PhaseTimes,
    /// Events looked at.
    pub examined: u64,
    /// Events answered.
    pub returned: u64,
    /// Bytes answered, or of what was published.
    pub bytes: u64,
    /// The times.
    pub histogram: Histogram,
    /// The slowest.
    pub example: Option<String>,
    /// How long it took.
    pub example_ns: u64,
}

/// What time went to, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PhaseTimes {
    /// Waiting for a connection to the database, or for a turn.
    pub wait: u64,
    /// The store or the database at work; statements in flight together count each.
    pub query: u64,
    /// Reading its answers.
    pub decode: u64,
    /// Our own work: signatures, a route's handler.
    pub handler: u64,
    /// Writing to the store, or to a client that does not read.
    pub write: u64,
}

/// One statement from one line.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StatementFigures {
    /// The statement without its values.
    pub statement: String,
    /// The file and line that made it.
    pub site: String,
    /// How often.
    pub calls: u64,
    /// Time until the answer, in nanoseconds.
    pub total_ns: u64,
    /// The shortest.
    pub shortest_ns: u64,
}

/// Requests of one shape that made one statement again and again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RepeatFigures {
    /// The requests' shape: a route, say.
    pub shape: String,
    /// The statement without its values.
    pub statement: String,
    /// The file and line that made it.
    pub site: String,
    /// Requests that did so.
    pub requests: u64,
    /// Statements they made.
    pub statements: u64,
    /// The most in one request.
    pub most: u32,
    /// Time until the answers, in nanoseconds.
    pub total_ns: u64,
    /// What one statement for all of a request would have saved, in nanoseconds: each but the first
    /// would not have waited for what the shortest of the request waited.
    pub saved_ns: u64,
}

/// Requests of one shape that asked for a connection while they held one: with a full pool they wait
/// for each other for ever.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NestedFigures {
    /// The requests' shape.
    pub shape: String,
    /// The file and line that asked.
    pub site: String,
    /// How many requests.
    pub requests: u64,
}

impl ShapeFigures {
    /// Adds another worker's.
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.total_ns += other.total_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.phases_ns.wait += other.phases_ns.wait;
        self.phases_ns.query += other.phases_ns.query;
        self.phases_ns.decode += other.phases_ns.decode;
        self.phases_ns.handler += other.phases_ns.handler;
        self.phases_ns.write += other.phases_ns.write;
        self.examined += other.examined;
        self.returned += other.returned;
        self.bytes += other.bytes;
        self.histogram.add(&other.histogram);
        if other.example_ns >= self.example_ns && other.example.is_some() {
            self.example = other.example;
            self.example_ns = other.example_ns;
        }
    }

    /// Returns the time in nanoseconds that this share (0 to 1) of the requests did not exceed.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        match self.max_ns {
            0 => self.histogram.quantile_ns(share),
            max => self.histogram.quantile_ns(share).min(max),
        }
    }

    /// Returns events examined per event returned; 1 is what the answer costs. `None` for what returns
    /// no events.
    pub fn examined_per_returned(&self) -> Option<f64> {
        (self.returned > 0 && self.examined > 0)
            .then(|| self.examined as f64 / self.returned as f64)
    }
}

impl Snapshot {
    pub(crate) fn new(started_us: u64, taken_us: u64) -> Self {
        Self {
            started_us,
            taken_us,
            ..Self::default()
        }
    }

    /// Returns the time that it tells of, in seconds.
    pub fn seconds(&self) -> f64 {
        self.taken_us.saturating_sub(self.started_us) as f64 / 1e6
    }

    /// Adds a worker's figures of one shape.
    pub(crate) fn add(&mut self, figures: ShapeFigures) {
        if figures.calls == 0 {
            return;
        }
        match self.shapes.iter_mut().find(|s| s.shape == figures.shape) {
            Some(same) => same.add(figures),
            None => self.shapes.push(figures),
        }
    }

    pub(crate) fn add_book(&mut self, book: &Book) {
        for statement in book.statements.values() {
            let same = |s: &&mut StatementFigures| {
                s.site == statement.site && s.statement == statement.statement
            };
            match self.statements.iter_mut().find(same) {
                Some(same) => {
                    same.calls += statement.calls;
                    same.total_ns += statement.total_ns;
                    same.shortest_ns = same.shortest_ns.min(statement.shortest_ns);
                }
                None => self.statements.push(statement.clone()),
            }
        }
        for repeat in book.repeats.values() {
            let same = |r: &&mut RepeatFigures| {
                r.site == repeat.site && r.shape == repeat.shape && r.statement == repeat.statement
            };
            match self.repeats.iter_mut().find(same) {
                Some(same) => {
                    same.requests += repeat.requests;
                    same.statements += repeat.statements;
                    same.most = same.most.max(repeat.most);
                    same.total_ns += repeat.total_ns;
                    same.saved_ns += repeat.saved_ns;
                }
                None => self.repeats.push(repeat.clone()),
            }
        }
        for nested in book.nested.values() {
            let same = |n: &&mut NestedFigures| n.site == nested.site && n.shape == nested.shape;
            match self.nested.iter_mut().find(same) {
                Some(same) => same.requests += nested.requests,
                None => self.nested.push(nested.clone()),
            }
        }
    }

    pub(crate) fn sort(&mut self) {
        use std::cmp::Reverse;
        self.shapes
            .sort_by(|a, b| (Reverse(a.total_ns), &a.shape).cmp(&(Reverse(b.total_ns), &b.shape)));
        self.statements.sort_by_key(|s| Reverse(s.total_ns));
        self.repeats.sort_by_key(|r| Reverse(r.saved_ns));
        self.nested.sort_by_key(|n| Reverse(n.requests));
    }
}

/// One worker's statements.
#[derive(Debug, Default)]
pub(crate) struct Book {
    statements: BTreeMap<(u64, Place), StatementFigures>,
    repeats: BTreeMap<(String, u64, Place), RepeatFigures>,
    nested: BTreeMap<(String, Place), NestedFigures>,
}

/// A line of a file.
type Place = (&'static str, u32, u32);

/// Returns the entry, if it is there or there is room for it.
fn entry<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, new: impl FnOnce() -> V) -> Option<&mut V> {
    if map.len() >= BOOK_MAX && !map.contains_key(&key) {
        return None;
    }
    Some(map.entry(key).or_insert_with(new))
}

impl Book {
    /// Adds what one request has made.
    pub(crate) fn add(&mut self, shape: &Shape, request: &Statements) {
        let place = |site: &'static std::panic::Location<'static>| {
            (site.file(), site.line(), site.column())
        };
        for made in &request.made {
            let key = (made.fingerprint.hash, place(made.site));
            let found = entry(&mut self.statements, key, || StatementFigures {
                statement: made.fingerprint.text.to_string(),
                site: site(made.site),
                shortest_ns: u64::MAX,
                ..StatementFigures::default()
            });
            if let Some(statement) = found {
                statement.calls += u64::from(made.times);
                statement.total_ns += made.total_ns;
                statement.shortest_ns = statement.shortest_ns.min(made.shortest_ns);
            }
            if made.times < REPEATS_MIN {
                continue;
            }
            let shape = shape.to_string();
            let key = (shape.clone(), made.fingerprint.hash, place(made.site));
            let found = entry(&mut self.repeats, key, || RepeatFigures {
                shape,
                statement: made.fingerprint.text.to_string(),
                site: site(made.site),
                ..RepeatFigures::default()
            });
            if let Some(repeat) = found {
                repeat.requests += 1;
                repeat.statements += u64::from(made.times);
                repeat.most = repeat.most.max(made.times);
                repeat.total_ns += made.total_ns;
                repeat.saved_ns += u64::from(made.times - 1) * made.shortest_ns;
            }
        }
        if let Some(asked) = request.nested {
            let shape = shape.to_string();
            let found = entry(&mut self.nested, (shape.clone(), place(asked)), || {
                NestedFigures {
                    shape,
                    site: site(asked),
                    requests: 0,
                }
            });
            if let Some(nested) = found {
                nested.requests += 1;
            }
        }
    }
}

fn site(location: &std::panic::Location<'_>) -> String {
    format!("{}:{}", location.file(), location.line())
}
