//! One connection's events on their way into the store, and their OKs on the way back.
//!
//! What waits while a batch is checked becomes the next batch. Batches are handed to the store in
//! the order they came, several may be there at the same time, and their OKs are sent in that order.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    collections::VecDeque,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use hikyaku_event::{Event, Kind, KindClass, Verifier};
use hikyaku_observe::{Statements, observed};
use hikyaku_relay::{Message, Publication, PublishOutcome, ok};
use hikyaku_store::{Outcome, StoreError, Write};

use crate::{
    clock::unix_now,
    metrics::{Count, Latency},
    plugin::{self, Decision},
    rates::{Client, Wait},
    recorder::Observation,
    requests::BatchTimes,
    worker::Worker,
};

/// Signature checks between two turns of the loop: about a millisecond.
const CHECKS_PER_TURN: usize = 24;
/// Signatures checked together between two turns: one to three milliseconds. Of larger batches each signature costs less, and everybody waits longer.
const TOGETHER_MAX: usize = 96;
/// Bytes of events in flight before a connection is read on.
const BYTES_MAX: usize = 8 * 1024 * 1024;

type Checking = Pin<Box<dyn Future<Output = Writing>>>;
type Writing = Pin<Box<dyn Future<Output = Vec<Message>>>>;

/// One connection's events in flight.
#[derive(Default)]
pub(super) struct Publishing {
    /// Received, and not yet looked at.
    waiting: Vec<(Publication, Instant)>,
    /// A batch whose signatures are being checked.
    checking: Option<Checking>,
    /// Batches that the store has, oldest first, with their events' number and bytes.
    writing: VecDeque<(Writing, Size)>,
    checking_size: Size,
    in_flight: Size,
}

/// How much is in flight.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    events: usize,
    bytes: usize,
}

impl Publishing {
    pub(super) fn push(&mut self, publication: Publication) {
        self.in_flight.events += 1;
        self.in_flight.bytes += publication.event.json().len();
        self.waiting.push((publication, Instant::now()));
    }

    /// Tells whether everything has been answered.
    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.events == 0
    }

    pub(super) fn events_in_flight(&self) -> usize {
        self.in_flight.events
    }

    /// Tells whether more may be taken from the client.
    pub(super) fn has_room(&self, events_max: usize) -> bool {
        self.in_flight.events < events_max && self.in_flight.bytes < BYTES_MAX
    }

    /// Goes on as far as it goes now, and hands over the OKs that are due.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Rc<Worker>,
        publisher: &Publisher,
        mut send: impl FnMut(Message),
    ) {
        loop {
            if self.checking.is_none() && !self.waiting.is_empty() {
                let batch = std::mem::take(&mut self.waiting);
                self.checking_size = Size {
                    events: batch.len(),
                    bytes: batch.iter().map(|(p, _)| p.event.json().len()).sum(),
                };
                self.checking = Some(Box::pin(check(Rc::clone(worker), publisher.clone(), batch)));
            }
            let Some(Poll::Ready(writing)) = self.checking.as_mut().map(|c| c.as_mut().poll(cx))
            else {
                break;
            };
            self.checking = None;
            self.writing.push_back((writing, self.checking_size));
        }
        while let Some((writing, size)) = self.writing.front_mut() {
            let Poll::Ready(oks) = writing.as_mut().poll(cx) else {
                return;
            };
            self.in_flight.events -= size.events;
            self.in_flight.bytes -= size.bytes;
            self.writing.pop_front();
            oks.into_iter().for_each(&mut send);
        }
        if self.writing.capacity() > 4 {
            self.writing = VecDeque::new();
        }
    }
}

/// Who publishes.
#[derive(Clone)]
pub(super) struct Publisher {
    pub(super) client: Client,
    /// The same, as plugins see it; none if no plugin wants to.
    pub(super) who: Option<Rc<plugin::Client>>,
    /// Has sent a wrong signature. Finding it among others costs more than it saves, so this client's
    /// are checked one by one from then on.
    pub(super) is_suspect: Rc<Cell<bool>>,
}

/// What is known about an event of a batch.
enum Verdict {
    Known,
    WrongSignature,
    /// Its author has written too much lately.
    TooFast(Wait),
    /// A plugin does not want it, for this reason.
    Rejected(Cow<'static, str>),
    /// A plugin does not want it, and its author is not to know.
    Shadowed,
    /// A plugin has dealt with it, and says this.
    Answered(Cow<'static, str>),
    /// To be written, as the next element of the batch for the store.
    Write,
    /// To be delivered, as the next of the ephemeral ones.
    Deliver,
}

/// Checks a batch, hands it to the store and to the workers, and returns what answers it.
///
/// What the store has already costs no signature check.
async fn check(
    worker: Rc<Worker>,
    publisher: Publisher,
    batch: Vec<(Publication, Instant)>,
) -> Writing {
    let client = publisher.client;
    let begun = Instant::now();
    let ids: Vec<_> = batch.iter().map(|(p, _)| p.event.id()).collect();
    let (known, mut statements) = observed(worker.reader.contains(&ids)).await;
    let known = match known {
        Ok(known) => known,
        Err(error) => {
            let now = Instant::now();
            let times = BatchTimes {
                begun,
                checked: now,
                answered: now,
            };
            let oks = batch
                .iter()
                .map(|(p, at)| {
                    let outcome = PublishOutcome::Failed(&error);
                    answer(
                        &worker,
                        &p.event,
                        *at,
                        &times,
                        outcome,
                        statements.take().as_deref(),
                    )
                })
                .collect();
            return Box::pin(std::future::ready(oks));
        }
    };
    let unseen: Vec<_> = batch
        .iter()
        .zip(&known)
        .filter(|(_, known)| !**known)
        .map(|((publication, _), _)| &*publication.event)
        .collect();
    let mut signatures = signatures(&worker.verifier, &publisher.is_suspect, &unseen)
        .await
        .into_iter();
    let mut verdicts = Vec::with_capacity(batch.len());
    for ((publication, _), known) in batch.iter().zip(known) {
        let event = &publication.event;
        verdicts.push(if known {
            Verdict::Known
        } else if signatures.next() != Some(true) {
            Verdict::WrongSignature
        } else if let Err(wait) = worker.shared.rates.event_by(client, &event.pubkey()) {
            Verdict::TooFast(wait)
        } else if event.kind().class() == KindClass::Ephemeral {
            Verdict::Deliver
        } else {
            Verdict::Write
        });
    }
    if let Some(who) = &publisher.who {
        ask_plugins(&worker, who, &batch, &mut verdicts).await;
    }
    let chosen = |wanted: fn(&Verdict) -> bool| {
        batch
            .iter()
            .zip(&verdicts)
            .filter(move |(_, verdict)| wanted(verdict))
            .map(|((publication, _), _)| publication)
    };
    let writes: Vec<_> = chosen(|v| matches!(v, Verdict::Write))
        .map(|p| Write::Event {
            event: Arc::clone(&p.event),
            vanish: p.vanish,
        })
        .collect();
    let ephemeral: Arc<[_]> = chosen(|v| matches!(v, Verdict::Deliver))
        .map(|p| Arc::clone(&p.event))
        .collect();
    let checked = Instant::now();
    // The call itself hands the events over, so batches stay in order.
    let written = (!writes.is_empty()).then(|| worker.store.write(writes, unix_now()));
    let delivered = (!ephemeral.is_empty()).then(|| worker.deliver_everywhere(&ephemeral));
    Box::pin(async move {
        let written = match written {
            Some(written) => written.await,
            None => Ok(Vec::new()),
        };
        let delivered = match delivered {
            Some(delivered) => delivered.await,
            None => Vec::new(),
        };
        let times = BatchTimes {
            begun,
            checked,
            answered: Instant::now(),
        };
        let measured = (times, statements);
        answers(
            &worker, &publisher, &batch, &verdicts, &written, &delivered, measured,
        )
    })
}

/// Tells for each event whether its signature is right, letting others have their turns in between.
///
/// Many are asked together; where one of them is wrong, and from then on, each is asked alone, so that
/// who sends wrong ones gets no more of a turn than others.
async fn signatures(
    verifier: &RefCell<Verifier>,
    is_suspect: &Cell<bool>,
    events: &[&Event],
) -> Vec<bool> {
    let mut verdicts = Vec::with_capacity(events.len());
    let mut begun = false;
    while let Some(rest) = events.get(verdicts.len()..).filter(|rest| !rest.is_empty()) {
        if std::mem::replace(&mut begun, true) {
            tokio::task::yield_now().await;
        }
        let mut verifier = verifier.borrow_mut();
        let mut seed = [0; 32];
        let together = rest.len() >= Verifier::TOGETHER_MIN
            && !is_suspect.get()
            && getrandom::fill(&mut seed).is_ok();
        let part = rest.iter().copied();
        if together {
            let part = part.take(TOGETHER_MAX);
            if verifier.are_right(part.clone(), &seed) {
                verdicts.extend(part.map(|_| true));
            } else {
                is_suspect.set(true);
            }
        } else {
            verdicts.extend(
                part.take(CHECKS_PER_TURN)
                    .map(|event| verifier.verify(event).is_ok()),
            );
            if verdicts.contains(&false) {
                is_suspect.set(true);
            }
        }
    }
    verdicts
}

/// Has plugins decide about the events that nothing speaks against so far.
async fn ask_plugins(
    worker: &Worker,
    who: &Rc<plugin::Client>,
    batch: &[(Publication, Instant)],
    verdicts: &mut [Verdict],
) {
    if worker.plugins.hooks.event.is_empty() {
        return;
    }
    let (open, events): (Vec<_>, Vec<_>) = verdicts
        .iter_mut()
        .zip(batch)
        .filter(|(verdict, _)| matches!(verdict, Verdict::Write | Verdict::Deliver))
        .map(|(verdict, (publication, _))| (verdict, &publication.event))
        .unzip();
    let decisions = worker.plugins.decide(who, events.into_iter()).await;
    for (verdict, decision) in open.into_iter().zip(decisions) {
        match decision {
            Decision::Accept => {}
            Decision::Reject(reason) => *verdict = Verdict::Rejected(reason),
            Decision::ShadowReject => *verdict = Verdict::Shadowed,
            Decision::Answer(text) => *verdict = Verdict::Answered(text),
        }
    }
}

/// Tells plugins of an event that was taken.
fn tell_plugins(worker: &Worker, who: &Rc<plugin::Client>, publication: &Publication) {
    let (plugins, event) = (&worker.plugins, &publication.event);
    plugins.tell(&plugins.hooks.stored, &(Rc::clone(who), Arc::clone(event)));
    if event.kind() == Kind::DELETION || publication.vanish {
        plugins.tell(&plugins.hooks.deleted, &(Rc::clone(who), Arc::clone(event)));
    }
}

/// Makes the OKs of a batch, in its order, and has taken down who is here by it.
fn answers(
    worker: &Worker,
    publisher: &Publisher,
    batch: &[(Publication, Instant)],
    verdicts: &[Verdict],
    written: &Result<Vec<Outcome>, StoreError>,
    delivered: &[u64],
    (times, mut statements): (BatchTimes, Option<Box<Statements>>),
) -> Vec<Message> {
    let mut outcomes = written.as_ref().map(|outcomes| outcomes.iter());
    let mut delivered = delivered.iter();
    let missing =
        StoreError::Stopped("the store answered for fewer events than it was given".into());
    let elsewhere = u64::from(worker.shared.neighbours.is_some());
    let recording = worker.shared.recorder.is_some();
    let mut seen = Vec::with_capacity(if recording { batch.len() } else { 0 });
    let oks = batch
        .iter()
        .zip(verdicts)
        .map(|((publication, at), verdict)| {
            let event = &publication.event;
            let outcome = match verdict {
                Verdict::Known => PublishOutcome::Written(Outcome::Duplicate),
                Verdict::WrongSignature => PublishOutcome::WrongSignature,
                Verdict::TooFast(wait) => PublishOutcome::TooFast {
                    wait_seconds: *wait,
                },
                Verdict::Rejected(reason) => PublishOutcome::Rejected(reason),
                Verdict::Shadowed => PublishOutcome::Shadowed,
                Verdict::Answered(text) => PublishOutcome::Answered(text),
                Verdict::Deliver => PublishOutcome::Delivered {
                    // How many listen at other nodes is not known here.
                    listeners: delivered.next().copied().unwrap_or_default().max(elsewhere),
                },
                Verdict::Write => match &mut outcomes {
                    Ok(outcomes) => match outcomes.next() {
                        Some(outcome) => PublishOutcome::Written(*outcome),
                        None => PublishOutcome::Failed(&missing),
                    },
                    Err(error) => PublishOutcome::Failed(error),
                },
            };
            if is_taken(outcome) {
                if recording {
                    let family = publisher.client.family;
                    seen.push(Observation::of(event, publication.vanish, family));
                }
                if let Some(who) = &publisher.who {
                    tell_plugins(worker, who, publication);
                }
            }
            answer(
                worker,
                event,
                *at,
                &times,
                outcome,
                statements.take().as_deref(),
            )
        })
        .collect();
    worker.observe(seen);
    oks
}

/// Tells whether an event has come to this relay for the first time, and was accepted.
fn is_taken(outcome: PublishOutcome<'_>) -> bool {
    matches!(
        outcome,
        PublishOutcome::Written(Outcome::Stored(_)) | PublishOutcome::Delivered { .. }
    )
}

fn answer(
    worker: &Worker,
    event: &Event,
    received: Instant,
    times: &BatchTimes,
    outcome: PublishOutcome<'_>,
    statements: Option<&Statements>,
) -> Message {
    let count = match outcome {
        PublishOutcome::Written(outcome) => match outcome {
            Outcome::Duplicate => Count::EventsDuplicate,
            Outcome::Superseded => Count::EventsSuperseded,
            Outcome::Refused(_) => Count::EventsRefused,
            Outcome::Stored(_) | Outcome::Done | Outcome::Absent => Count::EventsStored,
        },
        PublishOutcome::Banned { .. } => Count::EventsRefused,
        PublishOutcome::WrongSignature => Count::EventsWrongSignature,
        PublishOutcome::Delivered { listeners: 0 } => Count::EventsMuted,
        PublishOutcome::Delivered { .. } | PublishOutcome::Answered(_) => Count::EventsDelivered,
        PublishOutcome::TooFast { .. } => Count::EventsTooFast,
        PublishOutcome::Rejected(_) => Count::EventsRejected,
        PublishOutcome::Shadowed => Count::EventsShadowed,
        PublishOutcome::Failed(_) => Count::EventsFailed,
    };
    let metrics = &worker.metrics;
    metrics.add(count, 1);
    let total = times.answered.saturating_duration_since(received);
    metrics.record(Latency::Publish, total);
    worker
        .requests
        .event(event, received, times, count, statements);
    ok(&event.id(), outcome)
}

#[cfg(test)]
mod tests {
    use hikyaku_event::testing::{Author, EventBuilder};

    use super::*;

    /// Signatures of which those at these places are another event's.
    fn events(count: usize, bad: &[usize]) -> Vec<Event> {
        let (alice, bob) = (Author::new(1), Author::new(2));
        let event = |place: usize| {
            let draft = EventBuilder::new(1).content(&place.to_string());
            let right = draft.sign(&alice);
            if !bad.contains(&place) {
                return right;
            }
            let json = draft.json(right.id(), alice.pubkey(), bob.sign(right.id()));
            Event::parse(&json).unwrap()
        };
        (0..count).map(event).collect()
    }

    #[tokio::test]
    async fn each_event_has_the_verdict_of_its_own_signature() {
        let verifier = RefCell::new(Verifier::new());
        for count in [0, 1, 11, 12, 13, 96, 97, 107, 108, 200] {
            for bad in [&[][..], &[0], &[11, 12], &[95], &[96], &[106, 150, 199]] {
                let events = events(count, bad);
                let events: Vec<_> = events.iter().collect();
                let is_suspect = Cell::new(false);
                let verdicts = signatures(&verifier, &is_suspect, &events).await;
                let expected: Vec<_> = (0..count).map(|place| !bad.contains(&place)).collect();
                assert_eq!(verdicts, expected, "{count} events, bad: {bad:?}");
                assert_eq!(is_suspect.get(), expected.contains(&false));
            }
        }
    }

    #[tokio::test]
    async fn who_sent_a_wrong_one_has_each_looked_at_alone() {
        let verifier = RefCell::new(Verifier::new());
        let events = events(96, &[]);
        let events: Vec<_> = events.iter().collect();
        for (suspect, turns) in [(false, 1), (true, 96_usize.div_ceil(CHECKS_PER_TURN))] {
            let is_suspect = Cell::new(suspect);
            let mut checking = std::pin::pin!(signatures(&verifier, &is_suspect, &events));
            let mut taken = 0;
            let verdicts = std::future::poll_fn(|cx| {
                taken += 1;
                checking.as_mut().poll(cx)
            });
            assert!(verdicts.await.iter().all(|right| *right));
            assert_eq!(taken, turns);
        }
    }
}
