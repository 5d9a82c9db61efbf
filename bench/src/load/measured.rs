//! What a load came to.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use crate::load::{
    driver::{Done, Outcome, Pace},
    latencies::Latencies,
};

/// The load is the cap when this share of what was offered was achieved ...
const KEPT_UP: f64 = 0.99;
/// ... and that at this share of the rate it was offered at: what is answered late was not kept up with.
const IN_TIME: f64 = 0.9;
/// A client this busy, of one core, can't offer more.
const CLIENT_BUSY: f64 = 0.9;

/// What an operation does to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Asks.
    Read,
    /// Stores.
    Write,
    /// Is sent by the server to whoever listens.
    Delivery,
}

/// A group of operations that are counted together.
#[derive(Debug, Clone)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

impl Class {
    pub(crate) fn new(name: &str, kind: Kind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
        }
    }
}

/// The operations of one class.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    pub(crate) class: Class,
    pub(crate) done: u64,
    /// By reason.
    pub(crate) failed: BTreeMap<String, u64>,
    pub(crate) latencies: Latencies,
}

impl Counts {
    fn new(class: &Class) -> Self {
        Self {
            class: class.clone(),
            done: 0,
            failed: BTreeMap::new(),
            latencies: Latencies::default(),
        }
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failed.values().sum()
    }
}

/// Which side was at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Limit {
    /// The server did all it was offered: more might go.
    Load,
    /// The measuring client had no processor time left.
    Client,
    /// The server did not do what it was offered.
    Server,
}

/// One load on one server.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(crate) pace: Pace,
    /// From the first operation to the last answer.
    pub(crate) elapsed: Duration,
    /// For how long operations came due.
    pub(crate) loaded: Duration,
    /// Operations that came due.
    pub(crate) offered: u64,
    /// Operations that came due and were never sent: the server took no more.
    pub(crate) dropped: u64,
    pub(crate) counts: Vec<Counts>,
    /// When operations ended, counted from the first; without deliveries. Of an open loop.
    answered: Latencies,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    /// Operations done in each second, without deliveries.
    pub(crate) timeline: Vec<u64>,
    /// How late the client itself was with operations that nothing held back.
    pub(crate) lateness: Latencies,
    pub(crate) client_cpu: Duration,
    /// Seconds; of a server on this machine.
    pub(crate) server_cpu: Option<f64>,
    pub(crate) server_memory_max: Option<u64>,
    pub(crate) interrupted: bool,
}

impl Measured {
    pub(crate) fn new(pace: Pace, classes: &[Class]) -> Self {
        Self {
            pace,
            elapsed: Duration::ZERO,
            loaded: Duration::ZERO,
            offered: 0,
            dropped: 0,
            counts: classes.iter().map(Counts::new).collect(),
            answered: Latencies::default(),
            bytes_sent: 0,
            bytes_received: 0,
            timeline: Vec::new(),
            lateness: Latencies::default(),
            client_cpu: Duration::ZERO,
            server_cpu: None,
            server_memory_max: None,
            interrupted: false,
        }
    }

    /// Counts an operation that ended `at`, so long after `since`.
    pub(crate) fn record(&mut self, done: Done, class: usize, since: Duration, at: Duration) {
        let Some(counts) = self.counts.get_mut(class) else {
            return;
        };
        match done.outcome {
            Outcome::Done => {
                if counts.class.kind != Kind::Delivery {
                    self.record_many(1, class, Some(at.saturating_sub(since)), at);
                    return;
                }
                counts.done += 1;
                counts.latencies.record(at.saturating_sub(since));
            }
            Outcome::Failed(reason) => *counts.failed.entry(reason).or_default() += 1,
        }
    }

    /// Counts operations of a class that ended together, `at`; without answers they have no latency.
    pub(crate) fn record_many(
        &mut self,
        count: u64,
        class: usize,
        latency: Option<Duration>,
        at: Duration,
    ) {
        let Some(counts) = self.counts.get_mut(class) else {
            return;
        };
        counts.done += count;
        if let Some(latency) = latency {
            counts.latencies.record_many(latency, count);
        }
        if matches!(self.pace, Pace::Open { .. }) {
            self.answered.record_many(at, count);
        }
        let second = at.as_secs() as usize;
        if self.timeline.len() <= second {
            self.timeline.resize(second + 1, 0);
        }
        if let Some(done) = self.timeline.get_mut(second) {
            *done += count;
        }
    }

    /// Returns the operations of the plan that succeeded; deliveries are not among them.
    pub(crate) fn achieved(&self) -> u64 {
        self.planned().map(|counts| counts.done).sum()
    }

    pub(crate) fn failures(&self) -> u64 {
        self.counts.iter().map(Counts::failures).sum()
    }

    fn planned(&self) -> impl Iterator<Item = &Counts> {
        let planned = |counts: &&Counts| counts.class.kind != Kind::Delivery;
        self.counts.iter().filter(planned)
    }

    /// Returns operations offered a second; of a closed loop, those that were started.
    pub(crate) fn offered_rate(&self) -> f64 {
        match self.pace {
            Pace::Open { .. } => self.offered as f64 / positive(self.loaded),
            Pace::Closed { .. } => self.offered as f64 / positive(self.elapsed),
        }
    }

    /// Returns operations done a second.
    pub(crate) fn rate(&self) -> f64 {
        match self.pace {
            Pace::Open { .. } => self.achieved() as f64 / positive(self.time_to_answer()),
            Pace::Closed { .. } => self.achieved() as f64 / positive(self.elapsed),
        }
    }

    /// Returns how long the operations of an open loop came due, or how long their answers took to
    /// come if that was longer. The last hundredth does not count: one slow answer behind a minute of
    /// load says nothing of the minute.
    fn time_to_answer(&self) -> Duration {
        let most = self.answered.quantile_ms(KEPT_UP) / 1e3 / KEPT_UP;
        self.loaded.max(Duration::from_secs_f64(most))
    }

    /// Returns how much of one core the client needed.
    pub(crate) fn client_share(&self) -> f64 {
        self.client_cpu.as_secs_f64() / positive(self.elapsed)
    }

    pub(crate) fn limit(&self) -> Limit {
        let is_open = matches!(self.pace, Pace::Open { .. });
        let all = self.achieved() as f64 >= self.offered as f64 * KEPT_UP;
        if is_open && all && self.rate() >= self.offered_rate() * IN_TIME {
            Limit::Load
        } else if self.client_share() >= CLIENT_BUSY {
            Limit::Client
        } else {
            Limit::Server
        }
    }
}

fn positive(duration: Duration) -> f64 {
    duration.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(done: u64, client_ms: u64) -> Measured {
        let pace = Pace::Open { per_second: 100.0 };
        let mut measured = Measured::new(pace, &[Class::new("read", Kind::Read)]);
        measured.offered = 1_000;
        measured.loaded = Duration::from_secs(10);
        measured.elapsed = Duration::from_secs(10);
        measured.client_cpu = Duration::from_millis(client_ms);
        for number in 0..done {
            let done = Done::of(number as usize);
            measured.record(done, 0, Duration::ZERO, Duration::from_millis(number));
        }
        measured
    }

    #[test]
    fn the_limit_is_the_load_the_client_or_the_server() {
        assert_eq!(measured(1_000, 100).limit(), Limit::Load);
        assert_eq!(measured(900, 9_500).limit(), Limit::Client);
        assert_eq!(measured(900, 100).limit(), Limit::Server);
    }

    #[test]
    fn an_offer_that_was_answered_late_was_not_kept_up_with() {
        let mut slow = measured(0, 100);
        for number in 0..1_000 {
            // Offered in ten seconds, answered in twenty.
            let at = Duration::from_millis(number as u64 * 20);
            slow.record(Done::of(number), 0, Duration::ZERO, at);
        }
        slow.elapsed = Duration::from_secs(20);
        assert!((45.0..55.0).contains(&slow.rate()), "{}", slow.rate());
        assert_eq!(slow.limit(), Limit::Server);
        let mut one_late = measured(999, 100);
        let late = Duration::from_secs(20);
        one_late.record(Done::of(0), 0, Duration::ZERO, late);
        assert_eq!((one_late.rate(), one_late.limit()), (100.0, Limit::Load));
    }

    #[test]
    fn failures_are_counted_by_reason_and_not_as_done() {
        let mut measured = measured(10, 0);
        for reason in ["blocked", "blocked", "error"] {
            let failed = Done::failed(0, reason);
            measured.record(failed, 0, Duration::ZERO, Duration::ZERO);
        }
        let counts = &measured.counts[0];
        assert_eq!((counts.done, counts.failures()), (10, 3));
        assert_eq!(counts.failed["blocked"], 2);
        assert_eq!(measured.timeline, [10]);
    }
}
