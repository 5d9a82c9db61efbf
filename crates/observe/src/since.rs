//! What came between two snapshots of one server.

use crate::{
    PhaseTimes, RepeatFigures, ShapeFigures, Snapshot, StatementFigures, histogram::Histogram,
};

impl Snapshot {
    /// Returns what has come since an earlier snapshot of the same server. If the server was started
    /// again meanwhile, that is everything since its start. The longest time is known then only as
    /// far as the histogram knows it.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        if earlier.started_us != self.started_us {
            return self.clone();
        }
        let mut since = Self {
            started_us: earlier.taken_us,
            taken_us: self.taken_us,
            nested: self.nested.clone(),
            ..Self::default()
        };
        for now in &self.shapes {
            let before = earlier.shapes.iter().find(|s| s.shape == now.shape);
            since.add(before.map_or_else(|| now.clone(), |before| now.since(before)));
        }
        for now in &self.statements {
            let before = (earlier.statements.iter())
                .find(|s| s.statement == now.statement && s.site == now.site);
            let (calls, total_ns) = before.map_or((0, 0), |s| (s.calls, s.total_ns));
            if now.calls > calls {
                since.statements.push(StatementFigures {
                    calls: now.calls - calls,
                    total_ns: now.total_ns.saturating_sub(total_ns),
                    ..now.clone()
                });
            }
        }
        for now in &self.repeats {
            let before = earlier.repeats.iter().find(|r| {
                r.shape == now.shape && r.statement == now.statement && r.site == now.site
            });
            let zero = RepeatFigures::default();
            let before = before.unwrap_or(&zero);
            if now.requests > before.requests {
                since.repeats.push(RepeatFigures {
                    requests: now.requests - before.requests,
                    statements: now.statements.saturating_sub(before.statements),
                    total_ns: now.total_ns.saturating_sub(before.total_ns),
                    saved_ns: now.saved_ns.saturating_sub(before.saved_ns),
                    ..now.clone()
                });
            }
        }
        since.sort();
        since
    }
}

impl ShapeFigures {
    fn since(&self, before: &Self) -> Self {
        if self.calls < before.calls {
            // It gave way to others meanwhile and came again.
            return self.clone();
        }
        let histogram: Histogram = self.histogram.since(&before.histogram);
        let max_ns = if self.max_ns > before.max_ns {
            self.max_ns
        } else {
            histogram.quantile_ns(1.0).min(self.max_ns)
        };
        let less = u64::saturating_sub;
        let (now, was) = (self.phases_ns, before.phases_ns);
        Self {
            shape: self.shape.clone(),
            calls: less(self.calls, before.calls),
            failed: less(self.failed, before.failed),
            cancelled: less(self.cancelled, before.cancelled),
            total_ns: less(self.total_ns, before.total_ns),
            max_ns,
            phases_ns: PhaseTimes {
                wait: less(now.wait, was.wait),
                query: less(now.query, was.query),
                decode: less(now.decode, was.decode),
                handler: less(now.handler, was.handler),
                write: less(now.write, was.write),
            },
            examined: less(self.examined, before.examined),
            returned: less(self.returned, before.returned),
            bytes: less(self.bytes, before.bytes),
            histogram,
            example: self.example.clone(),
            example_ns: self.example_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{panic::Location, time::Duration};

    use crate::{Cost, Observations, Shape, Snapshot, Statements, statement};

    #[test]
    fn a_later_snapshot_less_an_earlier_one_is_what_came_between() {
        let (observations, ledgers) = Observations::new(1, 1, 7);
        let [ledger] = &ledgers[..] else { panic!() };
        let one = |us, statements: u64| {
            let mut made = None;
            Statements::within(&mut made, || {
                for n in 0..statements {
                    let took = Duration::from_micros(10 + n);
                    statement("SELECT 1", Location::caller(), took);
                }
            });
            let cost = Cost {
                total: Duration::from_micros(us),
                bytes: 3,
                ..Cost::default()
            };
            let id = ledger.id(&Shape::Table {
                table: "".into(),
                command: "get",
            });
            ledger.record(id, &cost, made.as_deref(), || None);
        };
        (0..3).for_each(|_| one(900, 6));
        let first = observations.snapshot(10);
        (0..2).for_each(|_| one(5, 7));
        one(5, 1);
        let second = observations.snapshot(30);
        let kept: Snapshot = serde_json::from_str(&serde_json::to_string(&first).unwrap()).unwrap();
        assert_eq!(kept, first);
        let since = second.since(&kept);
        assert_eq!((since.started_us, since.taken_us), (10, 30));
        let shape = &since.shapes[0];
        assert_eq!((shape.calls, shape.total_ns, shape.bytes), (3, 15_000, 9));
        assert!(shape.max_ns < 7_000, "{}", shape.max_ns);
        assert_eq!(since.statements[0].calls, 15);
        let repeat = &since.repeats[0];
        assert_eq!(
            (repeat.requests, repeat.statements, repeat.most),
            (2, 14, 7)
        );
        assert_eq!(repeat.saved_ns, 2 * 6 * 10_000);
        assert_eq!(second.since(&second).shapes, []);
        let restarted = Snapshot {
            started_us: 20,
            ..second.clone()
        };
        assert_eq!(restarted.since(&first).shapes[0].calls, 6);
    }
}
