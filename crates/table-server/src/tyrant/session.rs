//! One client's side of the protocol.

use std::collections::VecDeque;

use hikyaku_tables::{Change, Condition, IntegerWidth, Outcome, Stamp, Table, TableError, Update};

use super::{
    administration,
    arguments::{For, Gathering},
    double,
    iterator::KeyIterator,
    keys::Word,
    misc,
    wire::{self, DONE, FAILED, Parsed, Put, Refusal, Request},
};
use crate::{
    catalogue::{Catalogue, TableId},
    exchange::{Exchange, Handed, Protocol, Step},
    metrics::Count,
    replication::Handover,
    verb::Verb,
    writer::{Settled, Task},
};

/// What a client hears whose request did not come to its end in time.
pub(crate) const OVERDUE: &[u8] = &[FAILED];
/// A list has at most so many times the bytes of a value, and an answer of many records.
const LIST_VALUES: usize = 4;
const ANSWER_VALUES: usize = 16;
/// The original's numbers for why something was not done.
const NO_RECORD: (u32, &str) = (22, "no record found");
const EXISTS: (u32, &str) = (21, "existing record");
pub(super) const MISCELLANEOUS: u32 = 9999;

/// A conversation in Tokyo Tyrant's protocol.
#[derive(Debug, Default)]
pub(crate) struct Session {
    state: State,
    /// How to answer what was left to a table's writer.
    pending: VecDeque<Reply>,
    pub(super) keys: KeyIterator,
    /// Why the last thing that was not done was not: `misc` with `error` asks.
    pub(super) error: Option<(u32, String)>,
}

#[derive(Debug, Default)]
enum State {
    /// Between requests.
    #[default]
    Idle,
    /// Within a list.
    Gathering(Box<Gathering>),
    /// Within a request that is too long.
    Skipping(u64, Refusal),
}

/// How to answer what came of an update or a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    Silent,
    Code,
    Integer,
    Double,
    /// The task has written it; this is for when it could not.
    Written(Refusal),
}

impl Protocol for Session {
    fn step(&mut self, exchange: &mut Exchange<'_>) -> Step {
        match self.state {
            State::Idle => self.request(exchange),
            State::Gathering(_) => self.gather(exchange),
            State::Skipping(left, refusal) => self.skip(left, refusal, exchange),
        }
    }

    fn settle(&mut self, settled: Vec<Settled>, exchange: &mut Exchange<'_>) {
        for settled in settled {
            let reply = self.pending.pop_front().unwrap_or(Reply::Code);
            match settled {
                Settled::Update(outcome) => self.answer(reply, outcome, exchange),
                Settled::Task(Ok(answer)) => exchange.output.extend_from_slice(&answer),
                Settled::Task(Err(error)) => {
                    self.note(&error);
                    match reply {
                        Reply::Written(refusal) => refusal.write(exchange.output),
                        _ => exchange.output.push(FAILED),
                    }
                }
            }
        }
    }
}

impl Session {
    /// Tells whether a request has begun of which more must come.
    pub(crate) fn is_within_request(&self) -> bool {
        !matches!(self.state, State::Idle)
    }

    fn request(&mut self, exchange: &mut Exchange<'_>) -> Step {
        let value_bytes_max = exchange.config().value_bytes_max;
        let (request, bytes) = match wire::parse(exchange.input(), value_bytes_max) {
            Parsed::Whole(request, bytes) => (request, bytes),
            Parsed::Part(needed) => return Step::Read(needed),
            Parsed::TooLong(bytes, refusal) => {
                self.state = State::Skipping(bytes, refusal);
                return Step::Went;
            }
            Parsed::Broken => return refuse_all(exchange),
        };
        exchange.asks(Catalogue::DEFAULT, request.verb());
        if let Request::Put { how, key, value } = request {
            return self.put(how, key, value, bytes, exchange);
        }
        if let Some(gathering) = Gathering::begin(&request) {
            exchange.take(bytes);
            self.state = State::Gathering(Box::new(gathering));
            return Step::Went;
        }
        let step = match request {
            Request::Out(key) => {
                let update = Update::new(key, Change::Remove);
                return self.update(&update, Reply::Code, (Count::TyrantOut, bytes), exchange);
            }
            Request::AddInteger { key, by } => {
                let change = Change::AddInteger {
                    by: by.into(),
                    width: IntegerWidth::Four,
                };
                let update = Update::new(key, change);
                return self.update(&update, Reply::Integer, (Count::TyrantAdd, bytes), exchange);
            }
            Request::AddDouble { key, by } => {
                let update = Update::new(key, Change::AddDouble(by));
                return self.update(&update, Reply::Double, (Count::TyrantAdd, bytes), exchange);
            }
            Request::Keys { prefix, max } => self.list_keys(prefix, max, exchange),
            Request::Sync => self.task(Box::new(|table, _| done(table.sync())), exchange),
            Request::Optimise(parameters) => {
                let parameters = parameters.to_vec();
                let task = move |table: &dyn Table, _: Stamp| {
                    done(table.optimise(misc::text(&parameters)?))
                };
                self.task(Box::new(task), exchange)
            }
            Request::Vanish => {
                self.task(Box::new(|table, stamp| done(table.vanish(stamp))), exchange)
            }
            Request::Copy(name) => self.copy(name, exchange),
            Request::Restore {
                path,
                from_us,
                is_checked,
            } => self.restore(path, from_us, is_checked, exchange),
            Request::SetMaster {
                host,
                port,
                from_us,
            } => self.set_master(host, port, from_us, exchange),
            _ if !exchange.is_settled() => Step::Settle,
            Request::Replicate { from_us, server_id } => {
                let handover = Handover::Tyrant { from_us, server_id };
                return administration::hand_over(handover, bytes, exchange);
            }
            Request::Follow { version, server_id } => {
                let handover = Handover::Follow { version, server_id };
                return administration::hand_over(handover, bytes, exchange);
            }
            _ => {
                self.read(&request, exchange);
                Step::Went
            }
        };
        if step == Step::Went {
            exchange.take(bytes);
            exchange.count(Count::TyrantOther, 1);
        }
        step
    }

    /// Puts. Of silent puts many are carried out at once: they come in great numbers.
    fn put(
        &mut self,
        how: Put,
        key: &[u8],
        value: &[u8],
        bytes: usize,
        exchange: &mut Exchange<'_>,
    ) -> Step {
        let (change, condition, reply) = match how {
            Put::Over => (Change::Put(value), Condition::Any, Reply::Code),
            Put::Keep => (Change::Put(value), Condition::Absent, Reply::Code),
            Put::Append => (Change::Append(value), Condition::Any, Reply::Code),
            Put::Rotate(width) => {
                let change = Change::Rotate {
                    bytes: value,
                    size: Some(width),
                };
                (change, Condition::Any, Reply::Code)
            }
            Put::Silent => (Change::Put(value), Condition::Any, Reply::Silent),
        };
        let update = Update {
            condition,
            ..Update::new(key, change)
        };
        self.update(&update, reply, (Count::TyrantPut, bytes), exchange)
    }

    /// Hands an update in, and answers it if it is done.
    fn update(
        &mut self,
        update: &Update<'_>,
        reply: Reply,
        (count, bytes): (Count, usize),
        exchange: &mut Exchange<'_>,
    ) -> Step {
        let (id, key) = exchange.catalogue().resolve(update.key);
        exchange.asks_of(id);
        let table = &*exchange.catalogue().table(id).table;
        let update = Update { key, ..*update };
        let handed = match Word::of(table, key) {
            None => exchange.update(id, &update),
            // What a word stands for may change until it is asked; there it does not.
            Some(_) if !exchange.is_settled() => Handed::NotNow,
            Some(word) => Handed::Done(word.update(table, &update, exchange.stamp())),
        };
        match handed {
            Handed::Done(outcome) => self.answer(reply, outcome, exchange),
            Handed::Left => self.pending.push_back(reply),
            Handed::NotNow => return Step::Settle,
        }
        exchange.count(count, 1);
        exchange.take(bytes);
        Step::Went
    }

    fn answer(
        &mut self,
        reply: Reply,
        outcome: Result<Outcome, TableError>,
        exchange: &mut Exchange<'_>,
    ) {
        let output = &mut *exchange.output;
        match (reply, outcome) {
            (Reply::Silent, Ok(_)) => {}
            (Reply::Integer, Ok(Outcome::Integer(sum))) => {
                output.push(DONE);
                output.extend_from_slice(&(sum as i32).to_be_bytes());
            }
            (Reply::Double, Ok(Outcome::Double(sum))) if !sum.is_nan() => {
                output.push(DONE);
                output.extend_from_slice(&double::pack(sum));
            }
            (Reply::Code, Ok(Outcome::Stored { .. } | Outcome::Removed)) => output.push(DONE),
            (reply, outcome) => {
                match outcome {
                    Ok(Outcome::NotStored) => self.error = Some(own(EXISTS)),
                    Ok(_) => self.error = Some(own(NO_RECORD)),
                    Err(error) => self.note(&error),
                }
                if reply != Reply::Silent {
                    exchange.output.push(FAILED);
                }
            }
        }
    }

    /// Leaves to the default table's writer what may take long. It writes the answer itself.
    pub(super) fn task(&mut self, task: Task, exchange: &mut Exchange<'_>) -> Step {
        self.task_for(Catalogue::DEFAULT, task, Refusal::Code, exchange)
    }

    pub(super) fn task_for(
        &mut self,
        id: TableId,
        task: Task,
        refusal: Refusal,
        exchange: &mut Exchange<'_>,
    ) -> Step {
        let handed = exchange.task(id, task);
        self.handed(&handed, refusal)
    }

    /// Leaves to a table's other thread what may take long and stops nobody.
    pub(super) fn task_aside(
        &mut self,
        id: TableId,
        task: Task,
        refusal: Refusal,
        exchange: &mut Exchange<'_>,
    ) -> Step {
        let handed = exchange.task_aside(id, task);
        self.handed(&handed, refusal)
    }

    fn handed(&mut self, handed: &Handed, refusal: Refusal) -> Step {
        if matches!(handed, Handed::NotNow) {
            return Step::Settle;
        }
        self.pending.push_back(Reply::Written(refusal));
        Step::Went
    }

    /// Reads the list behind a request, and carries it out when it is whole.
    fn gather(&mut self, exchange: &mut Exchange<'_>) -> Step {
        let State::Gathering(gathering) = &mut self.state else {
            return Step::Went;
        };
        let bytes_max = exchange
            .config()
            .value_bytes_max
            .saturating_mul(LIST_VALUES);
        let Ok(taken) = gathering.take(exchange.input(), bytes_max.min(i32::MAX as usize)) else {
            return refuse_all(exchange);
        };
        exchange.take(taken.bytes);
        if taken.bytes > 0 {
            return Step::Went;
        }
        if let Some(needed) = taken.needed {
            return Step::Read(needed);
        }
        if !exchange.is_settled() {
            return Step::Settle;
        }
        let State::Gathering(gathering) = std::mem::take(&mut self.state) else {
            return Step::Went;
        };
        exchange.count(Count::TyrantOther, 1);
        exchange.asks(
            Catalogue::DEFAULT,
            match gathering.purpose {
                For::GetMany => Verb::GetMany,
                For::Misc(_) => Verb::Misc,
            },
        );
        match (gathering.strings, gathering.purpose) {
            (Some(keys), For::GetMany) => self.get_many(&keys, exchange),
            (Some(arguments), For::Misc(name)) => self.misc(name, arguments, exchange),
            (None, purpose) => {
                self.error = Some((MISCELLANEOUS, "the list is too long".to_owned()));
                match purpose {
                    For::GetMany => Refusal::Code.write(exchange.output),
                    For::Misc(_) => Refusal::CodeAndCount.write(exchange.output),
                }
            }
        }
        Step::Went
    }

    /// Skips the rest of a request that is too long, and refuses it.
    fn skip(&mut self, left: u64, refusal: Refusal, exchange: &mut Exchange<'_>) -> Step {
        if left > 0 {
            let skipped = left.min(exchange.input().len() as u64);
            if skipped == 0 {
                return Step::Read(1);
            }
            exchange.take(skipped as usize);
            self.state = State::Skipping(left - skipped, refusal);
            return Step::Went;
        }
        if !exchange.is_settled() {
            return Step::Settle;
        }
        self.state = State::Idle;
        self.error = Some((MISCELLANEOUS, "the request is too long".to_owned()));
        exchange.count(Count::Refused, 1);
        exchange.asks(None, Verb::Refused);
        refusal.write(exchange.output);
        Step::Went
    }

    /// Notes why there is nothing, if there is nothing.
    pub(super) fn heed<T>(&mut self, found: Result<Option<T>, TableError>) -> Option<T> {
        match found {
            Ok(Some(found)) => Some(found),
            Ok(None) => {
                self.error = Some(own(NO_RECORD));
                None
            }
            Err(error) => {
                self.note(&error);
                None
            }
        }
    }

    pub(super) fn note(&mut self, error: &TableError) {
        let why = match error {
            // What kind it is, and not where on this machine.
            TableError::Io(source) => format!("{error}: {}", source.kind()),
            error => error.to_string(),
        };
        self.error = Some((MISCELLANEOUS, why));
    }
}

/// Ends the conversation: what follows can't be understood. Says so first.
pub(super) fn refuse_all(exchange: &mut Exchange<'_>) -> Step {
    if !exchange.is_settled() {
        return Step::Settle;
    }
    exchange.count(Count::Refused, 1);
    exchange.asks(None, Verb::Refused);
    exchange.output.push(FAILED);
    Step::Close
}

fn own((code, text): (u32, &str)) -> (u32, String) {
    (code, text.to_owned())
}

pub(super) fn done(result: Result<(), TableError>) -> Result<Vec<u8>, TableError> {
    result.map(|()| vec![DONE])
}

pub(super) fn resolve<'a, 'k>(
    key: &'k [u8],
    exchange: &mut Exchange<'a>,
) -> (&'a dyn Table, &'k [u8]) {
    let (id, key) = exchange.catalogue().resolve(key);
    exchange.asks_of(id);
    (&*exchange.catalogue().table(id).table, key)
}

pub(super) fn answer_bytes_max(exchange: &Exchange<'_>) -> usize {
    exchange
        .config()
        .value_bytes_max
        .saturating_mul(ANSWER_VALUES)
}
