//! Parts of a run, put on one server after the other, and kept in the report.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use crate::{
    error::{BenchError, Result},
    load::{Class, Lane, Load, Measured, Pace, Patience, Planned},
    report::{Progress, Record, Report, Target, verdict},
};

/// What all parts of a run share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Series<'a> {
    pub(crate) stop: &'a AtomicBool,
    pub(crate) progress: &'a Progress,
    /// How long the last answers of a part may take.
    pub(crate) patience: Duration,
}

/// A part, ready to be put on any server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) name: &'a str,
    pub(crate) classes: &'a [Class],
    pub(crate) plan: &'a [Planned],
    pub(crate) pace: Pace,
    pub(crate) connections: usize,
    pub(crate) at_most: Duration,
}

impl<'s> Series<'s> {
    pub(crate) fn patience(&self) -> Patience<'s> {
        Patience {
            lasts: self.patience,
            stop: self.stop,
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Puts a part on a server. A wrong answer says at which, and in which part.
    pub(crate) fn put_on(
        &self,
        part: &Part<'_>,
        target: &Target,
        lanes: &mut [Box<dyn Lane + '_>],
    ) -> Result<Measured> {
        let load = Load {
            label: &format!("{}, {}", part.name, target.name),
            classes: part.classes,
            plan: part.plan,
            pace: part.pace,
            at_most: part.at_most,
            patience: self.patience,
            process: target.process.as_ref(),
            stop: self.stop,
            progress: self.progress,
        };
        load.run(lanes).map_err(|error| match error {
            BenchError::Wrong(reason) => {
                let address = target.address.as_str();
                BenchError::Wrong(format!("{address}, {}: {reason}", part.name))
            }
            other => other,
        })
    }

    /// Keeps what was measured; an interrupted part is the last one.
    pub(crate) fn keep(&self, record: Record, report: &mut Report) -> Result<()> {
        let interrupted = record.measured.interrupted;
        let name = report
            .targets
            .get(record.target)
            .map_or("", |target| target.name);
        self.progress.tell(&format!(
            "{}, {name}, round {}: {}",
            record.part,
            record.round + 1,
            verdict(&record.measured)
        ));
        report.records.push(record);
        if interrupted {
            return Err(BenchError::Interrupted);
        }
        Ok(())
    }
}

/// Returns half of what the slower server did in the first round of a part, or this.
pub(crate) fn bearable(part: &str, report: &Report, otherwise: f64) -> f64 {
    let rates = (0..report.targets.len())
        .filter_map(|target| report.rounds(part, target).next().map(Measured::rate));
    rates
        .min_by(f64::total_cmp)
        .map_or(otherwise, |rate| (rate / 2.0).max(1.0))
}

/// Returns how many operations come due.
pub(crate) fn count_of(rate: f64, seconds: Duration) -> usize {
    #[expect(clippy::cast_sign_loss, reason = "neither is negative")]
    let count = (rate * seconds.as_secs_f64()).ceil() as usize;
    count
}
