//! A connection that publishes and asks, and checks what comes back.

use std::{
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd},
};

use crate::{
    corpus::{Bytes32, Corpus, Question, SHAPES, Signed},
    error::{BenchError, Result},
    load::{Address, Done, Lane, Patience},
    relay::{
        live::Live,
        reply::{Reply, kind_of_reason},
        websocket::{Prepared, WebSocket, frame},
    },
};

/// Questions under way on one connection: fewer than any relay allows.
const QUESTIONS_MAX: usize = 10;
/// Events under way on one connection, likewise.
const EVENTS_MAX: usize = 1_000;
/// More events of one second than a limit ever cuts.
const TIES_MAX: usize = 100;
/// A relay that sends so many events too many will send more.
const SURPLUS_MAX: usize = 1_000;

/// A question ready to be asked, with what must be answered.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) shape: usize,
    pub(crate) question: Question,
    pub(crate) expected: Vec<Bytes32>,
    filter: Prepared,
    ties: Option<Ties>,
}

/// Events of the same second, which may come in any order.
#[derive(Debug)]
struct Ties {
    /// When each expected event was made.
    seconds: Vec<u64>,
    /// Events of the last second that the limit has cut: they may come instead.
    spare: Vec<Bytes32>,
}

impl Ties {
    fn allow(&self, expected: &[Bytes32], found: &[Bytes32]) -> bool {
        let mut begin = 0;
        for group in self.seconds.chunk_by(|one, next| one == next) {
            let range = begin..begin + group.len();
            begin = range.end;
            let (Some(expected), Some(found)) = (expected.get(range.clone()), found.get(range))
            else {
                return false;
            };
            let mut right = expected.to_vec();
            if begin == self.seconds.len() {
                right.extend_from_slice(&self.spare);
            }
            let mut once = found.to_vec();
            once.sort_unstable();
            once.dedup();
            if once.len() < found.len() || !once.iter().all(|id| right.contains(id)) {
                return false;
            }
        }
        found.len() == begin
    }
}

impl Asked {
    pub(crate) fn new(shape: usize, question: Question, expected: Vec<Bytes32>) -> Self {
        let filter = Prepared::new(format!("{}]", question.to_json()).as_bytes());
        Self {
            shape,
            question,
            expected,
            filter,
            ties: None,
        }
    }

    /// Lets events of the same second come in any order.
    pub(crate) fn with_free_ties(mut self, corpus: &Corpus) -> Self {
        let second = |id: &Bytes32| corpus.created_at(id).unwrap_or_default();
        let seconds: Vec<_> = self.expected.iter().map(second).collect();
        let mut wider = self.question.clone();
        wider.limit = wider.limit.saturating_add(TIES_MAX);
        let beyond = corpus.answer(&wider).into_iter().skip(seconds.len());
        let last = seconds.last().copied();
        let spare = beyond.take_while(|id| Some(second(id)) == last).collect();
        self.ties = Some(Ties { seconds, spare });
        self
    }

    /// Tells what is wrong with an answer, if anything is.
    pub(crate) fn check(&self, found: &[Bytes32]) -> Result<()> {
        let ties = self.ties.as_ref();
        if found == self.expected || ties.is_some_and(|ties| ties.allow(&self.expected, found)) {
            return Ok(());
        }
        let hex = |id: &Bytes32| faster_hex::hex_string(id);
        let first_of = |these: &[Bytes32], those: &[Bytes32]| {
            these.iter().find(|id| !those.contains(id)).map(hex)
        };
        let twice = found.iter().enumerate();
        let mut twice = twice.filter(|(at, id)| found.get(..*at).is_some_and(|it| it.contains(id)));
        let reason = if let Some((_, id)) = twice.next() {
            format!("event {} came twice", hex(id))
        } else if let Some(id) = first_of(found, &self.expected) {
            format!("event {id} came, which is no answer")
        } else if let Some(id) = first_of(&self.expected, found) {
            format!("event {id} is missing")
        } else {
            "the events are not newest first".to_owned()
        };
        let shape = SHAPES.get(self.shape).map_or("", |shape| shape.name);
        Err(BenchError::Wrong(format!(
            "{shape}: {reason} ({} events came, {} are right); the filter is {:.300}",
            found.len(),
            self.expected.len(),
            self.question.to_json()
        )))
    }

    /// Appends the REQ, under the name of this number.
    pub(crate) fn frame(&self, number: usize, out: &mut Vec<u8>) {
        let first = format!("[\"REQ\",\"{}\",", subscription(number));
        self.filter.frame(first.as_bytes(), out);
    }
}

/// Names the subscription of an operation: always as long, so that what follows can be masked
/// before.
pub(crate) fn subscription(number: usize) -> String {
    format!("b{number:09}")
}

/// What an operation sends.
#[derive(Debug)]
pub(crate) enum Request {
    Publish {
        frame: Vec<u8>,
        id: Bytes32,
    },
    /// The place of a question.
    Ask(usize),
}

impl Request {
    pub(crate) fn publish(event: &Signed) -> Self {
        Self::publish_json(&event.json, event.id)
    }

    pub(crate) fn publish_json(json: &str, id: Bytes32) -> Self {
        let mut bytes = Vec::with_capacity(json.len() + 24);
        frame(format!("[\"EVENT\",{json}]").as_bytes(), &mut bytes);
        Self::Publish { frame: bytes, id }
    }
}

/// The connection.
#[derive(Debug)]
pub(crate) struct Client<'a> {
    socket: WebSocket,
    requests: &'a [Request],
    questions: &'a [Asked],
    live: Option<&'a Live>,
    publishing: HashMap<Bytes32, usize>,
    /// By number of the operation: the question, and what came.
    asking: HashMap<usize, (&'a Asked, Vec<Bytes32>)>,
}

impl<'a> Client<'a> {
    pub(crate) fn open(
        relay: &Address,
        requests: &'a [Request],
        questions: &'a [Asked],
        live: Option<&'a Live>,
        patience: Patience<'_>,
    ) -> Result<Self> {
        let mut socket = WebSocket::open(relay, patience)?;
        socket.stream().set_nonblocking(true)?;
        Ok(Self {
            socket,
            requests,
            questions,
            live,
            publishing: HashMap::new(),
            asking: HashMap::new(),
        })
    }

    fn published(&mut self, id: &Bytes32, number: usize, accepted: bool, reason: &str) -> Done {
        if accepted {
            return Done::of(number);
        }
        if let Some(live) = self.live {
            live.cancel(id);
        }
        Done::failed(number, kind_of_reason(reason))
    }

    fn answered(&mut self, number: usize) -> Result<Option<Done>> {
        let Some((asked, found)) = self.asking.remove(&number) else {
            return Ok(None);
        };
        asked.check(&found)?;
        let close = format!("[\"CLOSE\",\"{}\"]", subscription(number));
        frame(close.as_bytes(), self.socket.stream().output());
        Ok(Some(Done::of(number)))
    }
}

/// Returns the number of the operation whose subscription this is.
fn number(subscription: &str) -> Result<usize> {
    let digits = subscription.strip_prefix('b');
    digits
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| {
            BenchError::Wrong(format!(
                "a message for {subscription:?}, which nobody opened"
            ))
        })
}

impl Lane for Client<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_stream().as_fd()
    }

    fn has_room(&self) -> bool {
        self.asking.len() < QUESTIONS_MAX && self.publishing.len() < EVENTS_MAX
    }

    fn under_way(&self) -> usize {
        self.asking.len() + self.publishing.len()
    }

    fn start(&mut self, number: usize) -> Result<()> {
        match self.requests.get(number) {
            Some(Request::Publish { frame, id }) => {
                self.publishing.insert(*id, number);
                if let Some(live) = self.live {
                    live.expect(id);
                }
                self.socket.stream().output().extend_from_slice(frame);
            }
            Some(Request::Ask(place)) => {
                if let Some(asked) = self.questions.get(*place) {
                    let found = Vec::with_capacity(asked.expected.len());
                    self.asking.insert(number, (asked, found));
                    asked.frame(number, self.socket.stream().output());
                }
            }
            None => {}
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.socket.stream().flush()
    }

    fn is_blocked(&self) -> bool {
        self.socket.as_stream().is_blocked()
    }

    fn read(&mut self, done: &mut Vec<Done>) -> Result<()> {
        self.socket.stream().fill()?;
        while let Some(message) = self.socket.received()? {
            match Reply::parse(message)? {
                Reply::Event { subscription, id } => {
                    let Some((asked, found)) = self.asking.get_mut(&number(subscription)?) else {
                        return Err(BenchError::Wrong(format!(
                            "event {} came for a question that was answered before",
                            faster_hex::hex_string(&id)
                        )));
                    };
                    found.push(id);
                    if found.len() > asked.expected.len() + SURPLUS_MAX {
                        asked.check(found)?;
                    }
                }
                Reply::Ok {
                    id,
                    accepted,
                    reason,
                } => {
                    let reason = reason.into_owned();
                    let Some(number) = self.publishing.remove(&id) else {
                        return Err(BenchError::Wrong(format!(
                            "an OK for event {}, which was not waiting for one",
                            faster_hex::hex_string(&id)
                        )));
                    };
                    done.push(self.published(&id, number, accepted, &reason));
                }
                Reply::EndOfStored { subscription } => {
                    let number = number(&subscription)?;
                    done.extend(self.answered(number)?);
                }
                Reply::Closed {
                    subscription,
                    reason,
                } => {
                    let number = number(&subscription)?;
                    if self.asking.remove(&number).is_some() {
                        done.push(Done::failed(number, kind_of_reason(&reason)));
                    }
                }
                Reply::Other => {}
            }
        }
        // The CLOSEs of what was answered.
        self.socket.stream().flush()
    }

    fn abandon(&mut self, reason: &str, done: &mut Vec<Done>) {
        for (id, number) in self.publishing.drain() {
            if let Some(live) = self.live {
                live.cancel(&id);
            }
            done.push(Done::failed(number, reason));
        }
        let asking = self.asking.drain();
        done.extend(asking.map(|(number, _)| Done::failed(number, reason)));
    }

    fn bytes(&self) -> (u64, u64) {
        self.socket.as_stream().bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(expected: &[u8], found: &[u8]) -> String {
        let ids = |ids: &[u8]| ids.iter().map(|id| [*id; 32]).collect::<Vec<_>>();
        let asked = Asked::new(0, Question::default(), ids(expected));
        match asked.check(&ids(found)) {
            Ok(()) => "right".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn an_answer_is_right_only_if_every_event_comes_once_in_order() {
        assert_eq!(verdict(&[3, 2, 1], &[3, 2, 1]), "right");
        for (found, reason) in [
            (&[3, 2][..], "is missing"),
            (&[3, 2, 1, 9], "is no answer"),
            (&[3, 2, 2, 1], "came twice"),
            (&[2, 3, 1], "newest first"),
        ] {
            let said = verdict(&[3, 2, 1], found);
            assert!(said.contains(reason), "{said}");
        }
    }

    #[test]
    fn ties_may_come_in_any_order_where_that_is_allowed() {
        let ids = |ids: &[u8]| ids.iter().map(|id| [*id; 32]).collect::<Vec<_>>();
        let mut asked = Asked::new(0, Question::default(), ids(&[3, 1, 2, 4]));
        asked.ties = Some(Ties {
            seconds: vec![9, 8, 8, 7],
            spare: ids(&[5]),
        });
        for right in [[3, 1, 2, 4], [3, 2, 1, 4], [3, 2, 1, 5]] {
            assert!(asked.check(&ids(&right)).is_ok(), "{right:?}");
        }
        for wrong in [
            &[1, 3, 2, 4][..],
            &[3, 2, 2, 4],
            &[3, 2, 1],
            &[3, 2, 5, 4],
            &[3, 1, 2, 4, 5],
        ] {
            assert!(asked.check(&ids(wrong)).is_err(), "{wrong:?}");
        }
    }
}
