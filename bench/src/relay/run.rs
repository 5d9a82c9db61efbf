//! The order of a run: the known state, the check, then rounds of phases, A and B in turns.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::{
    corpus::{Corpus, Fresh, Generate, Questions, SHAPES, generate},
    error::{BenchError, Result},
    load::Address,
    relay::{
        client::Asked,
        idle, known, level,
        options::{Phase, Relay},
        parts::{Bench, Pacing, bearable_rate},
    },
    report::{Progress, Report, Target},
    series::Series,
};

/// What all parts of a run share.
pub(crate) struct Setting<'a> {
    pub(crate) options: &'a Relay,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) progress: &'a Progress,
}

impl Setting<'_> {
    pub(crate) fn series(&self) -> Series<'_> {
        Series {
            stop: self.stop,
            progress: self.progress,
            patience: self.options.bounds.patience,
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Runs the measurement; a set flag ends it with what it has.
pub(crate) fn relay(options: &Relay, stop: &AtomicBool) -> Result<()> {
    if let Some(wanted) = options.level {
        level::check(wanted, options)?;
    }
    let reach = |url: &str| Address::reach(url, "ws://", Some(80), options.permission);
    let mut targets = vec![Target::new(
        "A",
        reach(&options.url)?,
        options.durability.as_deref(),
    )];
    if let Some(url) = &options.vs {
        let durability = options.vs_durability.as_deref();
        targets.push(Target::new("B", reach(url)?, durability));
    }
    let progress = Progress::new();
    let setting = Setting {
        options,
        stop,
        progress: &progress,
    };
    options.output.prepare()?;
    let corpora = corpora(&setting, targets.len())?;
    let mut report = Report::new("relay", targets);
    if let Some(folder) = &options.disk {
        report.tables.push(crate::disk::pace(folder, stop)?);
    }
    let end = measure(&setting, &corpora, &mut report);
    report.finish(end, &options.output)
}

/// Reads or makes what each relay holds.
fn corpora(setting: &Setting<'_>, count: usize) -> Result<Vec<Corpus>> {
    let options = &setting.options.corpus;
    let without = &options.without_kind;
    let Some(path) = &options.corpus else {
        setting
            .progress
            .tell(&format!("making a corpus of {} events", options.events));
        let made = Generate {
            events: options.events,
            seed: options.seed,
            authors: (options.events / 10).clamp(10, 50_000) as usize,
        };
        let mut lines = Vec::new();
        generate(&made, &mut lines, setting.stop)?;
        let text = String::from_utf8(lines)
            .map_err(|_| BenchError::Input("the corpus is not UTF-8".to_owned()))?;
        return Ok(vec![Corpus::of(text, "the corpus", without, setting.stop)?]);
    };
    let mut corpora = vec![Corpus::read(path, without, setting.stop)?];
    if let Some(path) = options.vs_corpus.as_deref().filter(|_| count > 1) {
        corpora.push(Corpus::read(path, without, setting.stop)?);
    }
    for corpus in &corpora {
        if corpus.newest() >= Fresh::begin() {
            return Err(BenchError::Input(
                "the corpus has events of the last thirty days, where the events of the load belong"
                    .to_owned(),
            ));
        }
    }
    Ok(corpora)
}

fn measure(setting: &Setting<'_>, corpora: &[Corpus], report: &mut Report) -> Result<()> {
    let options = setting.options;
    let Some(first) = corpora.first() else {
        return Ok(());
    };
    let corpus_of = |target: usize| corpora.get(target).unwrap_or(first);
    if options.corpus.free_ties {
        let note = "events of the same second were allowed to come in any order (--free-ties)";
        report.notes.push(note.to_owned());
    }
    let mut questions = Questions::new(first, options.corpus.seed);
    let without = &options.corpus.without_kind;
    let mut drawn = questions.draw_all(options.shape.questions, setting.stop);
    let unasked = &options.corpus.without_shape;
    let is_asked = |place: usize| {
        SHAPES
            .get(place)
            .is_none_or(|it| !unasked.iter().any(|name| name == it.name))
    };
    if setting.is_stopped() {
        return Err(BenchError::Interrupted);
    }
    drawn.retain(|(place, _)| is_asked(*place));
    if drawn.is_empty() {
        let reason = "no question is left to ask: the corpus has none of the shapes wanted";
        return Err(BenchError::Input(reason.to_owned()));
    }
    if !unasked.is_empty() {
        let note = format!("not asked (--without-shape): {}", unasked.join(", "));
        report.notes.push(note);
    }
    let answered = |corpus: &Corpus| {
        let wanted = drawn.iter().take_while(|_| !setting.is_stopped());
        let asked = wanted.map(|(shape, it)| {
            let asked = Asked::new(*shape, it.clone(), corpus.answer(it));
            if options.corpus.free_ties {
                asked.with_free_ties(corpus)
            } else {
                asked
            }
        });
        asked.collect::<Vec<_>>()
    };
    let asked: Vec<_> = (0..report.targets.len())
        .map(|it| answered(corpus_of(it)))
        .collect();
    if setting.is_stopped() {
        return Err(BenchError::Interrupted);
    }
    for (place, target) in report.targets.iter().enumerate() {
        if !options.corpus.loaded {
            known::publish_corpus(setting, target, corpus_of(place))?;
        }
        let questions = asked.get(place).map(Vec::as_slice).unwrap_or_default();
        known::check(setting, target, corpus_of(place), questions)?;
    }
    let identities = Fresh::identities();
    let mut bench = Bench {
        setting,
        asked: &asked,
        fresh: Fresh::new(&identities, without, setting.stop),
    };
    match options.level {
        Some(wanted) => level::run(&mut bench, wanted, report),
        None => phases(&mut bench, report),
    }
}

fn phases(bench: &mut Bench<'_>, report: &mut Report) -> Result<()> {
    let options = bench.setting.options;
    let wanted = |phase: Phase| options.phases.is_empty() || options.phases.contains(&phase);
    let mut rate = options.shape.rate;
    for round in 0..usize::from(options.bounds.rounds) {
        if wanted(Phase::Publish) {
            bench.publish(Pacing::OneAtATime, round, report)?;
            bench.publish(Pacing::AsMuchAsItTakes, round, report)?;
        }
        // The same for both relays and all rounds, so that latencies can be compared.
        let rate = *rate.get_or_insert_with(|| bearable_rate(report));
        if wanted(Phase::Publish) {
            bench.publish(Pacing::AtRate(rate), round, report)?;
        }
        if wanted(Phase::Query) {
            bench.query(round, report)?;
        }
        if wanted(Phase::Subscribe) {
            bench.subscribe(Pacing::AsMuchAsItTakes, round, report)?;
            bench.subscribe(Pacing::AtRate(rate / 10.0), round, report)?;
        }
        if wanted(Phase::Mixed) {
            bench.mixed(rate / 10.0, round, report)?;
        }
    }
    if wanted(Phase::Idle) {
        idle::run(bench.setting, report)?;
    }
    Ok(())
}
