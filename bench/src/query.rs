//! `query`: how long clients wait for stored answers, by the shape of the question, and whether the
//! answers are right.
//!
//! The clock runs from writing the REQ to reading its EOSE; whatever is checked is checked outside
//! of it. Shapes take turns, and with `--vs` so do two relays, so that whatever else the machine
//! does falls on all.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::{
    corpus::{Corpus, Fields, Matcher, Question, bytes32},
    error::{BenchError, Result},
    metrics::examined,
    questions::{Questions, SHAPES},
    report::{Cell, Durations, Output, Report},
    socket::{Connection, RelayUrl, frame},
};

/// Where, about what, and how often.
#[derive(Debug, clap::Args)]
pub(crate) struct Query {
    /// The relay, as ws://host:port; it holds the corpus.
    relay: RelayUrl,
    /// The corpus that questions are drawn from.
    corpus: PathBuf,
    /// A second relay, asked the same in turns with the first.
    #[arg(long, value_name = "URL")]
    vs: Option<RelayUrl>,
    /// What the second relay holds, if not the same: a longer corpus of the same seed, say.
    #[arg(long, value_name = "FILE", requires = "vs")]
    vs_corpus: Option<PathBuf>,
    /// The relay's metrics address (host:port): tells how many events it examined for its answers.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,
    /// The second relay's metrics address.
    #[arg(long, value_name = "ADDRESS", requires = "vs")]
    vs_metrics: Option<String>,
    /// How many different questions of each shape.
    #[arg(long, default_value_t = 300)]
    questions: usize,
    /// How many questions of each shape are asked first without being measured.
    #[arg(long, default_value_t = 20)]
    warm_up: usize,
    /// How many answers of each shape are compared with a look at every event of the corpus.
    #[arg(long, default_value_t = 10)]
    checked: usize,
    /// The same seed draws the same questions from the same corpus.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave with a failure if any answer is wrong.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    output: Output,
}

/// One relay and what it answered.
struct Asked<'a> {
    relay: &'a RelayUrl,
    corpus: &'a Corpus,
    metrics: Option<&'a str>,
    connection: Connection,
    shapes: Vec<ShapeResult>,
}

#[derive(Debug, Default, Clone)]
struct ShapeResult {
    durations: Durations,
    events: usize,
    wrong: usize,
    /// Events examined for each event returned.
    examined: Option<f64>,
}

/// Runs the measurement.
pub(crate) fn query(options: &Query) -> Result<()> {
    let corpus = Corpus::read(&options.corpus, None)?;
    let other = match &options.vs_corpus {
        Some(path) => Some(Corpus::read(path, None)?),
        None => None,
    };
    let mut asked = vec![Asked::new(
        &options.relay,
        &corpus,
        options.metrics.as_deref(),
    )?];
    if let Some(relay) = &options.vs {
        let corpus = other.as_ref().unwrap_or(&corpus);
        asked.push(Asked::new(relay, corpus, options.vs_metrics.as_deref())?);
    }
    let mut questions = Questions::new(&corpus, options.seed);
    for number in 0..options.warm_up + options.questions {
        for (place, shape) in SHAPES.iter().enumerate() {
            let Some(question) = questions.draw(shape) else {
                continue;
            };
            let warm = number >= options.warm_up;
            let check = warm && number - options.warm_up < options.checked;
            for relay in &mut asked {
                relay.ask(place, &question, warm, check)?;
            }
        }
    }
    // Again from the beginning, a shape at a time: the counters are one for all shapes.
    let mut questions = Questions::new(&corpus, options.seed);
    for (place, shape) in SHAPES.iter().enumerate() {
        let some: Vec<_> = (0..options.questions)
            .filter_map(|_| questions.draw(shape))
            .collect();
        for relay in &mut asked {
            relay.count_examined(place, &some)?;
        }
    }
    let report = report(&asked);
    report.finish(&options.output)?;
    let wrong: usize = asked
        .iter()
        .flat_map(|it| &it.shapes)
        .map(|shape| shape.wrong)
        .sum();
    if options.strict && wrong > 0 {
        return Err(BenchError::Relay(format!(
            "answered {wrong} questions wrongly"
        )));
    }
    Ok(())
}

fn report(asked: &[Asked<'_>]) -> Report {
    let mut report = Report::new(
        "query",
        &[
            "shape",
            "relay",
            "asked",
            "events",
            "examined/event",
            "p50 ms",
            "p90 ms",
            "p99 ms",
            "p50 ratio",
            "wrong",
        ],
    );
    for (place, shape) in SHAPES.iter().enumerate() {
        let p50 = |relay: &Asked<'_>| {
            let result = relay.shapes.get(place);
            result.map_or(0.0, |result| result.durations.quantile(500).as_secs_f64())
        };
        let first = asked.first().map_or(0.0, p50);
        for relay in asked {
            let result = relay.shapes.get(place).cloned().unwrap_or_default();
            let count = result.durations.count();
            report.row(vec![
                (*shape).into(),
                relay.relay.as_str().into(),
                count.into(),
                Cell::Number(result.events as f64 / count.max(1) as f64, 1),
                result
                    .examined
                    .map_or_else(|| "-".into(), |number| Cell::Number(number, 2)),
                result.durations.quantile_ms(500),
                result.durations.quantile_ms(900),
                result.durations.quantile_ms(990),
                Cell::Number(p50(relay) / first, 2),
                result.wrong.into(),
            ]);
        }
    }
    report
}

impl<'a> Asked<'a> {
    fn new(relay: &'a RelayUrl, corpus: &'a Corpus, metrics: Option<&'a str>) -> Result<Self> {
        Ok(Self {
            relay,
            corpus,
            metrics,
            connection: Connection::open(relay)?,
            shapes: vec![ShapeResult::default(); SHAPES.len()],
        })
    }

    fn ask(&mut self, shape: usize, question: &Question, count: bool, check: bool) -> Result<()> {
        let (messages, elapsed) = self.exchange(question)?;
        if !count {
            return Ok(());
        }
        let right = self.is_right(question, &messages, check);
        let Some(result) = self.shapes.get_mut(shape) else {
            return Ok(());
        };
        result.durations.push(elapsed);
        result.events += messages.len();
        if let Err(reason) = right {
            if result.wrong == 0 {
                eprintln!(
                    "{}: {reason}: {:.300}",
                    self.relay.as_str(),
                    question.to_json()
                );
            }
            result.wrong += 1;
        }
        Ok(())
    }

    /// Asks questions of one shape for the sake of the relay's own counter.
    fn count_examined(&mut self, shape: usize, questions: &[Question]) -> Result<()> {
        let Some(metrics) = self.metrics else {
            return Ok(());
        };
        let before = examined(metrics)?;
        let mut events = 0;
        for question in questions {
            events += self.exchange(question)?.0.len();
        }
        let examined = examined(metrics)?.saturating_sub(before);
        if let Some(result) = self.shapes.get_mut(shape) {
            result.examined = Some(examined as f64 / events.max(1) as f64);
        }
        Ok(())
    }

    /// Sends a REQ and returns the EVENT messages up to its EOSE.
    fn exchange(&mut self, question: &Question) -> Result<(Vec<Vec<u8>>, Duration)> {
        let mut request = Vec::new();
        let text = format!("[\"REQ\",\"q\",{}]", question.to_json());
        frame(text.as_bytes(), &mut request);
        let mut messages = Vec::new();
        let begun = Instant::now();
        self.connection.send_frames(&request)?;
        loop {
            let message = self.connection.receive()?;
            if message.starts_with(b"[\"EVENT\"") {
                messages.push(message.to_vec());
            } else if message.starts_with(b"[\"EOSE\"") {
                let elapsed = begun.elapsed();
                self.connection.send("[\"CLOSE\",\"q\"]")?;
                return Ok((messages, elapsed));
            } else if message.starts_with(b"[\"CLOSED\",\"q\"") {
                let said = String::from_utf8_lossy(message).into_owned();
                return Err(BenchError::Relay(format!("refused a question: {said}")));
            }
        }
    }

    /// Checks that every event is an answer, the order is right and none comes twice, and perhaps
    /// that these are the very events the corpus has.
    fn is_right(
        &self,
        question: &Question,
        messages: &[Vec<u8>],
        check: bool,
    ) -> std::result::Result<(), String> {
        let matcher = Matcher::new(question);
        let mut order = Vec::with_capacity(messages.len());
        for message in messages {
            let (_, _, event): (&str, &str, Fields<'_>) = serde_json::from_slice(message)
                .map_err(|error| format!("not an EVENT: {error}"))?;
            if !matcher.accepts(&event) {
                return Err(format!("event {} is no answer", event.id));
            }
            let id = bytes32(&event.id).unwrap_or_default();
            order.push((std::cmp::Reverse(event.created_at), id));
        }
        if messages.len() > question.limit {
            return Err(format!(
                "{} events where {} were asked",
                messages.len(),
                question.limit
            ));
        }
        if !order.is_sorted_by(|first, second| first < second) {
            return Err("not newest first, or an event twice".to_owned());
        }
        let expected = if check {
            self.corpus.answer(question)
        } else {
            return Ok(());
        };
        let found: Vec<_> = order.into_iter().map(|(_, id)| id).collect();
        if found == expected {
            return Ok(());
        }
        Err(format!(
            "{} events where {} are right",
            found.len(),
            expected.len()
        ))
    }
}
