//! `--level`: a minute of mixed load, and points for it; `auto` climbs until the relay can't follow.

use std::time::Duration;

use crate::{
    amount::RATE_MAX,
    error::{BenchError, Result},
    load::{Kind, Latencies, Limit, Measured},
    relay::{
        options::{Level, Relay},
        parts::Bench,
    },
    report::{Report, Score, verdict},
};

/// What a level lasts.
const SECONDS: Duration = Duration::from_mins(1);
/// What a step of the climb lasts.
const STEP_SECONDS: Duration = Duration::from_secs(10);
/// Where the climb begins, in operations a second.
const FIRST: f64 = 100.0;
/// How much higher each step is.
const STEP: f64 = 1.5;

impl Level {
    /// Operations a second: a tenth are events.
    fn rate(self) -> f64 {
        match self {
            Self::One | Self::Auto => FIRST,
            Self::Two => 1_000.0,
            Self::Three => 10_000.0,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::One => "level 1",
            Self::Two => "level 2",
            Self::Three => "level 3",
            Self::Auto => "level auto",
        }
    }
}

/// Fails if the level, or its first step, has more operations than a part may have.
pub(crate) fn check(level: Level, options: &Relay) -> Result<()> {
    let lasts = match level {
        Level::Auto => STEP_SECONDS,
        _ => SECONDS,
    };
    let seconds = options.bounds.seconds_or(lasts);
    let count = options.bounds.operations_of_a_level(level.rate(), seconds);
    count.map(drop)
}

/// Runs a level on every server, A and B in turns.
pub(crate) fn run(bench: &mut Bench<'_>, level: Level, report: &mut Report) -> Result<()> {
    if level == Level::Auto {
        return climb(bench, report);
    }
    let options = bench.setting.options;
    let seconds = options.bounds.seconds_or(SECONDS);
    let count = options
        .bounds
        .operations_of_a_level(level.rate(), seconds)?;
    // Points of rounds are points of different minutes: only a comparison needs more than one.
    let rounds = match report.targets.len() {
        1 => 1,
        _ => usize::from(options.bounds.rounds),
    };
    for round in 0..rounds {
        let mix = bench.mix(level.rate(), seconds, count)?;
        for place in 0..report.targets.len() {
            let measured = bench.put_mix_on(&mix, level.name(), place, report)?;
            // A minute that was cut short is no minute.
            if !measured.interrupted {
                let load = format!("{}, round {}", level.name(), round + 1);
                score(level, load, place, round, &measured, report);
            }
            bench.keep_mixed(level.name().to_owned(), place, round, measured, report)?;
        }
    }
    Ok(())
}

/// How far a server has come.
#[derive(Default)]
struct Climber {
    /// The highest step it held, in operations a second, and what that came to.
    held: Option<(f64, Measured)>,
    /// What ended its climb.
    broken: Option<String>,
}

/// Climbs with all servers, a step with one and then with the other, until each has had enough. What
/// was reached is said however the climb ends.
fn climb(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    let mut climbers: Vec<Climber> = Vec::new();
    climbers.resize_with(report.targets.len(), Climber::default);
    let end = steps(bench, &mut climbers, report);
    let interrupted = matches!(end, Err(BenchError::Interrupted));
    let seconds = bench.setting.options.bounds.seconds_or(STEP_SECONDS);
    for (place, climber) in climbers.into_iter().enumerate() {
        let name = report.targets.get(place).map_or("", |target| target.name);
        let reason = match climber.broken.as_deref() {
            Some(broken) => broken,
            None if interrupted => "the climb was interrupted there",
            None => "the highest step",
        };
        match climber.held {
            Some((rate, measured)) => {
                report.notes.push(format!(
                    "{name} holds {rate:.0} operations a second; {reason}"
                ));
                let load = per_step(rate, seconds);
                score(Level::Auto, load, place, 0, &measured, report);
            }
            None if interrupted && climber.broken.is_none() => {}
            None => report
                .notes
                .push(format!("{name} does not hold the first step; {reason}")),
        }
    }
    end
}

fn steps(bench: &mut Bench<'_>, climbers: &mut [Climber], report: &mut Report) -> Result<()> {
    let options = bench.setting.options;
    let seconds = options.bounds.seconds_or(STEP_SECONDS);
    let mut rate = FIRST;
    while rate <= RATE_MAX && climbers.iter().any(|climber| climber.broken.is_none()) {
        let count = match options.bounds.operations_of_a_level(rate, seconds) {
            // A step that can't be planned is above the highest, unless it is the first.
            Err(_) if rate > FIRST => return Ok(()),
            count => count?,
        };
        let mix = bench.mix(rate, seconds, count)?;
        let part = format!("auto, {rate:.0}/s");
        for (place, climber) in climbers.iter_mut().enumerate() {
            if climber.broken.is_some() {
                continue;
            }
            let measured = bench.put_mix_on(&mix, &part, place, report)?;
            if !measured.interrupted {
                match breaks(&measured, options.shape.target_ms) {
                    Some(why) => climber.broken = Some(format!("at {rate:.0}/s {why}")),
                    None => climber.held = Some((rate, measured.clone())),
                }
            }
            bench.keep_mixed(part.clone(), place, 0, measured, report)?;
        }
        rate *= STEP;
    }
    Ok(())
}

fn per_step(rate: f64, seconds: Duration) -> String {
    format!(
        "{:.0} s at the highest step held, {rate:.0}/s",
        seconds.as_secs_f64()
    )
}

/// Says what ends the climb, if anything does.
fn breaks(measured: &Measured, target_ms: f64) -> Option<String> {
    let mut all = Latencies::default();
    let counts = measured.counts.iter();
    for counts in counts.filter(|counts| counts.class.kind != Kind::Delivery) {
        all.add(&counts.latencies);
    }
    let p99 = all.quantile_ms(0.99);
    if measured.failures() > 0 {
        Some(format!("{} operations failed", measured.failures()))
    } else if p99 > target_ms {
        let side = match measured.limit() {
            Limit::Client => " (the measuring client had no processor time left)",
            Limit::Load | Limit::Server => "",
        };
        Some(format!(
            "the 99th percentile is {p99:.1} ms, beyond {target_ms} ms{side}"
        ))
    } else if measured.limit() == Limit::Load {
        None
    } else {
        Some(verdict(measured))
    }
}

fn score(
    level: Level,
    load: String,
    place: usize,
    round: usize,
    measured: &Measured,
    report: &mut Report,
) {
    if let Some(target) = report.targets.get(place) {
        let part = (level.name(), round);
        let score = Score::new(target.name, part, load, measured, verdict(measured));
        report.scores.push(score);
    }
}
