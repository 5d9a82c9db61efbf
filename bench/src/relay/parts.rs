//! The parts of a run: each one is put on A and then on B, with the same events and questions.

use std::time::Duration;

use crate::{
    corpus::{Bytes32, Fresh, SHAPES, Signed},
    error::{BenchError, Result},
    load::{Class, Kind, Lane, Measured, Pace, Planned},
    relay::{
        client::{Asked, Client, Request},
        live::{Listener, Live, heard},
        run::Setting,
    },
    report::{Record, Report, Target},
    series::{Part, bearable, count_of},
};

/// How long a part lasts in each round.
const SECONDS: Duration = Duration::from_secs(5);
/// Of the operations of the closed loop of publishing, what one connection with one event under way
/// may do.
const ONE_AT_A_TIME_SHARE: usize = 10;
/// Hashtags that live events go to; nobody listens to the last, whose events must reach nobody.
const GROUPS: usize = 5;
/// Of mixed operations, one in so many is an event; the others are questions.
const QUESTIONS_PER_EVENT: usize = 9;
/// Of the events of a mixed load, one in so many is for those who listen: with four of five groups
/// heard by a quarter of the listeners each, an event reaches 4 % of them.
const EVENTS_PER_NOTE: usize = 5;
/// Taken if nothing was measured that would tell a better one.
const RATE: f64 = 1_000.0;

const CLOSED: &str = "publish, closed loop";
const MIXED: &str = "mixed, at a rate";

/// How a part keeps to its pace.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pacing {
    OneAtATime,
    AsMuchAsItTakes,
    /// Operations a second.
    AtRate(f64),
}

/// What the parts of a run are made of.
pub(crate) struct Bench<'a> {
    pub(crate) setting: &'a Setting<'a>,
    /// The questions of each server, with the answers from what it holds.
    pub(crate) asked: &'a [Vec<Asked>],
    pub(crate) fresh: Fresh<'a>,
}

/// Questions and events that come due at a rate.
pub(crate) struct Mix {
    classes: Vec<Class>,
    /// The class of deliveries.
    delivery: usize,
    requests: Vec<Request>,
    plan: Vec<Planned>,
    /// The events that listeners wait for, with the operations that publish them.
    awaited: Vec<(usize, Bytes32)>,
    rate: f64,
    seconds: Duration,
}

impl Bench<'_> {
    /// Publishes events with the shape of the real network.
    pub(crate) fn publish(
        &mut self,
        pacing: Pacing,
        round: usize,
        report: &mut Report,
    ) -> Result<()> {
        let options = self.setting.options;
        let seconds = options.bounds.seconds_or(SECONDS);
        let all = options.bounds.operations_of_a_phase();
        let (name, connections, pace, count) = match pacing {
            Pacing::OneAtATime => {
                let count = all.div_ceil(ONE_AT_A_TIME_SHARE);
                (
                    "publish, one at a time",
                    1,
                    Pace::Closed { window: 1 },
                    count,
                )
            }
            Pacing::AsMuchAsItTakes => {
                let window = options.shape.window;
                (
                    CLOSED,
                    options.shape.connections,
                    Pace::Closed { window },
                    all,
                )
            }
            Pacing::AtRate(rate) => {
                let pace = Pace::Open { per_second: rate };
                let count = count_of(rate, seconds).min(all);
                ("publish, at a rate", options.shape.connections, pace, count)
            }
        };
        let events = self.fresh.events(count)?;
        let requests: Vec<_> = events.iter().map(Request::publish).collect();
        let plan: Vec<_> = events
            .iter()
            .map(|event| Planned {
                class: 0,
                lane: event.author % connections,
            })
            .collect();
        let part = Part {
            name,
            classes: &[Class::new("publish", Kind::Write)],
            plan: &plan,
            pace,
            connections,
            at_most: seconds,
        };
        self.in_turns(&part, &requests, round, report)
    }

    /// Asks questions of every shape in turns, one at a time.
    pub(crate) fn query(&mut self, round: usize, report: &mut Report) -> Result<()> {
        let options = self.setting.options;
        let count = self.asked.first().map_or(0, Vec::len);
        let order = (0..options.bounds.operations_of_a_phase()).map(|number| number % count.max(1));
        let requests: Vec<_> = order.map(Request::Ask).collect();
        let shapes = |request: &Request| match request {
            Request::Ask(place) => self.shape_of(*place),
            Request::Publish { .. } => 0,
        };
        let plan: Vec<_> = requests
            .iter()
            .map(|request| Planned {
                class: shapes(request),
                lane: 0,
            })
            .collect();
        let part = Part {
            name: "query, one at a time",
            classes: &question_classes(),
            plan: &plan,
            pace: Pace::Closed { window: 1 },
            connections: 1,
            at_most: options.bounds.seconds_or(SECONDS),
        };
        self.in_turns(&part, &requests, round, report)
    }

    /// Publishes to many listeners: how long until each has what it asked for, and nothing else.
    pub(crate) fn subscribe(
        &mut self,
        pacing: Pacing,
        round: usize,
        report: &mut Report,
    ) -> Result<()> {
        let options = self.setting.options;
        let seconds = options.bounds.seconds_or(SECONDS);
        let (name, pace, count) = match pacing {
            Pacing::AtRate(rate) => {
                let count = count_of(rate, seconds).min(options.bounds.operations_of_a_phase());
                (
                    "subscribe, at a rate",
                    Pace::Open { per_second: rate },
                    count,
                )
            }
            // As many deliveries as there are operations elsewhere.
            Pacing::OneAtATime | Pacing::AsMuchAsItTakes => (
                "subscribe, closed loop",
                Pace::Closed { window: 64 },
                options.bounds.operations_of_a_phase() / 10,
            ),
        };
        let events = self.fresh.notes(count.max(1), GROUPS)?;
        let classes = [
            Class::new("publish", Kind::Write),
            Class::new("delivery", Kind::Delivery),
        ];
        let requests: Vec<_> = events.iter().map(Request::publish).collect();
        let plan = vec![Planned { class: 0, lane: 0 }; requests.len()];
        let part = Part {
            name,
            classes: &classes,
            plan: &plan,
            pace,
            connections: 1 + options.shape.subscribers,
            at_most: seconds,
        };
        for place in 0..report.targets.len() {
            let measured = self.deliver(&part, &requests, &events, place, &report.targets)?;
            self.keep(&part, place, round, measured, report)?;
        }
        Ok(())
    }

    fn deliver(
        &self,
        part: &Part<'_>,
        requests: &[Request],
        events: &[Signed],
        place: usize,
        targets: &[Target],
    ) -> Result<Measured> {
        let Some(target) = targets.get(place) else {
            return Err(BenchError::Input("no such server".to_owned()));
        };
        let numbered = events.iter().enumerate().map(|(at, it)| (at, it.id));
        let live = Live::new(numbered, GROUPS, self.setting.options.shape.subscribers);
        let patience = self.setting.series().patience();
        let publisher = Client::open(&target.address, requests, &[], Some(&live), patience)?;
        let mut lanes: Vec<Box<dyn Lane + '_>> = vec![Box::new(publisher)];
        self.listen(&live, 1, target, &mut lanes)?;
        let measured = self.setting.series().put_on(part, target, &mut lanes)?;
        nothing_is_owed(&live, part.name, target, &measured)?;
        Ok(measured)
    }

    /// Lets everyone who listens subscribe; their deliveries are counted as `class`.
    fn listen<'b>(
        &self,
        live: &'b Live,
        class: usize,
        target: &Target,
        lanes: &mut Vec<Box<dyn Lane + 'b>>,
    ) -> Result<()> {
        let patience = self.setting.series().patience();
        for number in 0..self.setting.options.shape.subscribers {
            let hashtag = self.fresh.group(number % heard(GROUPS));
            let address = &target.address;
            let listener = Listener::open(address, live, number, &hashtag, class, patience)?;
            lanes.push(Box::new(listener));
        }
        Ok(())
    }

    /// Asks and publishes at once, while others listen.
    pub(crate) fn mixed(&mut self, rate: f64, round: usize, report: &mut Report) -> Result<()> {
        let bounds = &self.setting.options.bounds;
        let seconds = bounds.seconds_or(SECONDS);
        let count = count_of(rate, seconds).min(bounds.operations_of_a_phase());
        let mix = self.mix(rate, seconds, count.max(1))?;
        for place in 0..report.targets.len() {
            let measured = self.put_mix_on(&mix, MIXED, place, report)?;
            self.keep_mixed(MIXED.to_owned(), place, round, measured, report)?;
        }
        Ok(())
    }

    /// Keeps a mixed load under a name of its own.
    pub(crate) fn keep_mixed(
        &self,
        part: String,
        target: usize,
        round: usize,
        measured: Measured,
        report: &mut Report,
    ) -> Result<()> {
        let record = Record {
            part,
            target,
            round,
            connections: self.setting.options.shape.connections
                + self.setting.options.shape.subscribers,
            measured,
        };
        self.setting.series().keep(record, report)
    }

    /// Makes a mixed load of so many operations, the same for every server.
    pub(crate) fn mix(&mut self, rate: f64, seconds: Duration, count: usize) -> Result<Mix> {
        let connections = self.setting.options.shape.connections;
        let of_events = count.div_ceil(QUESTIONS_PER_EVENT + 1);
        let of_notes = of_events.div_ceil(EVENTS_PER_NOTE);
        let notes = self.fresh.notes(of_notes, GROUPS)?;
        let others = self.fresh.events(of_events - of_notes)?;
        let mut classes = question_classes();
        let publish = classes.len();
        classes.push(Class::new("publish", Kind::Write));
        let delivery = classes.len();
        classes.push(Class::new("delivery", Kind::Delivery));
        let mut draw = Shares::new(self.asked.first().map(Vec::as_slice).unwrap_or_default());
        let (mut requests, mut plan, mut awaited) = (Vec::new(), Vec::new(), Vec::new());
        let (mut notes, mut others) = (notes.iter(), others.iter());
        for number in 0..count {
            // The first of all is an event, and the first event is for those who listen.
            let event = match number % (QUESTIONS_PER_EVENT + 1) {
                0 if (number / (QUESTIONS_PER_EVENT + 1)).is_multiple_of(EVENTS_PER_NOTE) => {
                    let note = notes.next();
                    awaited.extend(note.map(|note| (number, note.id)));
                    note
                }
                0 => others.next(),
                _ => None,
            };
            if let Some(event) = event {
                requests.push(Request::publish(event));
                plan.push(Planned {
                    class: publish,
                    lane: event.author % connections,
                });
            } else {
                let place = draw.next();
                requests.push(Request::Ask(place));
                plan.push(Planned {
                    class: self.shape_of(place),
                    lane: number % connections,
                });
            }
        }
        Ok(Mix {
            classes,
            delivery,
            requests,
            plan,
            awaited,
            rate,
            seconds,
        })
    }

    /// Puts a mixed load on a server.
    pub(crate) fn put_mix_on(
        &self,
        mix: &Mix,
        name: &str,
        place: usize,
        report: &Report,
    ) -> Result<Measured> {
        let shape = &self.setting.options.shape;
        let part = Part {
            name,
            classes: &mix.classes,
            plan: &mix.plan,
            pace: Pace::Open {
                per_second: mix.rate,
            },
            connections: shape.connections,
            at_most: mix.seconds,
        };
        let Some(target) = report.targets.get(place) else {
            return Err(BenchError::Input("no such server".to_owned()));
        };
        let live = Live::new(mix.awaited.iter().copied(), GROUPS, shape.subscribers);
        let mut lanes = self.clients(&part, &mix.requests, place, target, Some(&live))?;
        self.listen(&live, mix.delivery, target, &mut lanes)?;
        let measured = self.setting.series().put_on(&part, target, &mut lanes)?;
        nothing_is_owed(&live, name, target, &measured)?;
        Ok(measured)
    }

    fn shape_of(&self, question: usize) -> usize {
        let asked = self.asked.first().and_then(|all| all.get(question));
        asked.map_or(0, |asked| asked.shape)
    }

    fn in_turns(
        &self,
        part: &Part<'_>,
        requests: &[Request],
        round: usize,
        report: &mut Report,
    ) -> Result<()> {
        for place in 0..report.targets.len() {
            let Some(target) = report.targets.get(place) else {
                continue;
            };
            let mut lanes = self.clients(part, requests, place, target, None)?;
            let measured = self.setting.series().put_on(part, target, &mut lanes)?;
            drop(lanes);
            self.keep(part, place, round, measured, report)?;
        }
        Ok(())
    }

    fn clients<'b>(
        &'b self,
        part: &Part<'_>,
        requests: &'b [Request],
        place: usize,
        target: &Target,
        live: Option<&'b Live>,
    ) -> Result<Vec<Box<dyn Lane + 'b>>> {
        let patience = self.setting.series().patience();
        let questions = self.asked.get(place).map(Vec::as_slice).unwrap_or_default();
        let mut lanes: Vec<Box<dyn Lane + 'b>> = Vec::new();
        for _ in 0..part.connections {
            let client = Client::open(&target.address, requests, questions, live, patience)?;
            lanes.push(Box::new(client));
        }
        Ok(lanes)
    }

    /// Keeps what was measured, whole or not.
    fn keep(
        &self,
        part: &Part<'_>,
        target: usize,
        round: usize,
        measured: Measured,
        report: &mut Report,
    ) -> Result<()> {
        let record = Record {
            part: part.name.to_owned(),
            target,
            round,
            connections: part.connections,
            measured,
        };
        self.setting.series().keep(record, report)
    }
}

/// Returns half of what the slower server published in the closed loop.
pub(crate) fn bearable_rate(report: &Report) -> f64 {
    bearable(CLOSED, report, RATE)
}

/// A delivery that never came is a wrong answer.
fn nothing_is_owed(live: &Live, part: &str, target: &Target, measured: &Measured) -> Result<()> {
    if live.owed() == 0 || measured.interrupted {
        return Ok(());
    }
    Err(BenchError::Wrong(format!(
        "{}, {part}: {} deliveries to live subscriptions never came",
        target.address.as_str(),
        live.owed()
    )))
}

fn question_classes() -> Vec<Class> {
    SHAPES
        .iter()
        .map(|shape| Class::new(shape.name, Kind::Read))
        .collect()
}

/// Hands out questions in the proportions of their shapes, always in the same order.
struct Shares {
    /// The questions of each shape, and how far they are handed out.
    shapes: Vec<(Vec<usize>, usize)>,
    /// How much of its share each shape is owed.
    owed: Vec<i64>,
}

impl Shares {
    fn new(asked: &[Asked]) -> Self {
        let mut shapes: Vec<(Vec<usize>, usize)> = vec![(Vec::new(), 0); SHAPES.len()];
        for (place, asked) in asked.iter().enumerate() {
            if let Some((places, _)) = shapes.get_mut(asked.shape) {
                places.push(place);
            }
        }
        Self {
            owed: vec![0; shapes.len()],
            shapes,
        }
    }

    fn next(&mut self) -> usize {
        let mut total = 0;
        let mut most: Option<(usize, i64)> = None;
        for (place, (shape, owed)) in SHAPES.iter().zip(&mut self.owed).enumerate() {
            if self
                .shapes
                .get(place)
                .is_none_or(|(places, _)| places.is_empty())
            {
                continue;
            }
            *owed += shape.share;
            total += shape.share;
            if most.is_none_or(|(_, other)| *owed > other) {
                most = Some((place, *owed));
            }
        }
        let Some((place, _)) = most else {
            return 0;
        };
        if let Some(owed) = self.owed.get_mut(place) {
            *owed -= total;
        }
        let Some((places, next)) = self.shapes.get_mut(place) else {
            return 0;
        };
        *next += 1;
        places.get((*next - 1) % places.len()).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Question;

    #[test]
    fn shapes_come_in_their_proportions() {
        let asked: Vec<_> = (0..SHAPES.len() * 2)
            .map(|number| Asked::new(number % SHAPES.len(), Question::default(), Vec::new()))
            .collect();
        let mut shares = Shares::new(&asked);
        let mut counts = vec![0; SHAPES.len()];
        for _ in 0..100 {
            counts[asked[shares.next()].shape] += 1;
        }
        let right: Vec<_> = SHAPES.iter().map(|shape| shape.share).collect();
        assert_eq!(counts, right);
    }
}
