//! What a connection knows: it takes messages and carries out what the session wants. No sockets.

use std::{rc::Rc, sync::Arc};

use hikyaku_event::{Event, PublicKey};
use hikyaku_relay::{
    Action, ListenerKey, Publication, PublishOutcome, Session, SubscriptionKey, ok, rate_limited,
};
use hikyaku_store::{QueryCursor, Sequence};

use super::{
    answering::Answering,
    deciding::{Asked, Deciding},
    made::Made,
    outbox::Outbox,
    publishing::{Publisher, Publishing},
};
use crate::{
    clock::unix_now,
    metrics::{Count, Level},
    plugin::QueryDecision,
    recorder::Observation,
    websocket::{CloseCode, Decoder, Incoming},
    worker::{Tick, Worker},
};

/// How far a connection is on its way to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// Messages are taken.
    Open,
    /// No message is taken any more; what was published is still answered, then this is said.
    Finishing(CloseCode, Box<str>),
    /// The last word is in the outbox.
    Closing,
}

pub(super) struct State {
    id: u64,
    publisher: Publisher,
    session: Session,
    decoder: Decoder,
    pub(super) outbox: Outbox,
    pub(super) answering: Answering,
    pub(super) publishing: Publishing,
    /// Queries that plugins decide about.
    deciding: Deciding,
    /// The subscriptions in the worker's live index.
    listening: Vec<SubscriptionKey>,
    pub(super) phase: Phase,
    /// The client has said its last word: a close frame, or the end of its stream.
    pub(super) peer_done: bool,
    /// The socket is broken: nothing can be sent.
    pub(super) broken: bool,
    /// When the client last showed life, or the phase last changed.
    active: Tick,
    /// A ping has been sent since then.
    pinged: bool,
}

impl State {
    pub(super) fn new(
        id: u64,
        publisher: Publisher,
        session: Session,
        message_bytes_max: usize,
        now: Tick,
    ) -> Self {
        Self {
            id,
            publisher,
            session,
            decoder: Decoder::new(message_bytes_max),
            outbox: Outbox::default(),
            answering: Answering::default(),
            publishing: Publishing::default(),
            deciding: Deciding::default(),
            listening: Vec::new(),
            phase: Phase::Open,
            peer_done: false,
            broken: false,
            active: now,
            pinged: false,
        }
    }

    /// Tells plugins that the client is there.
    pub(super) fn announce(&self, worker: &Worker) {
        if let Some(who) = &self.publisher.who {
            worker.plugins.tell(&worker.plugins.hooks.connected, who);
        }
    }

    /// Tells plugins that the client has gone.
    pub(super) fn take_leave(&self, worker: &Worker) {
        if let Some(who) = &self.publisher.who {
            worker.plugins.tell(&worker.plugins.hooks.disconnected, who);
        }
    }

    /// Greets the client.
    pub(super) fn open(&mut self, worker: &Worker) {
        let mut actions = worker.take_actions();
        self.session.open(&mut actions);
        self.perform(worker, &mut actions);
        worker.put_actions(actions);
    }

    /// Tells whether more may be read: what the client has sent waits in its socket while its
    /// events are on their way to the store, or it does not read what it asked for.
    pub(super) fn wants_input(&self, worker: &Worker) -> bool {
        if self.broken || self.peer_done {
            return false;
        }
        let config = &worker.shared.config;
        self.phase != Phase::Open
            || (self.publishing.has_room(config.publications_in_flight_max)
                && self.outbox.bytes() < config.queued_bytes_max / 2)
    }

    /// Notes that the client lives.
    pub(super) fn note_activity(&mut self, now: Tick) {
        if self.phase == Phase::Open {
            self.active = now;
            self.pinged = false;
        }
    }

    /// Takes the client's bytes.
    pub(super) fn receive(&mut self, worker: &Worker, mut bytes: &mut [u8]) {
        worker.metrics.add(Count::BytesReceived, bytes.len() as u64);
        let mut actions = worker.take_actions();
        let now = unix_now();
        loop {
            match self.decoder.next(&mut bytes) {
                Ok(None) => break,
                // After our last word only the client's is of interest.
                Ok(Some(Incoming::Close(_))) if self.phase != Phase::Open => self.peer_done = true,
                Ok(Some(_)) if self.phase != Phase::Open => {}
                Err(_) if self.phase != Phase::Open => {
                    self.peer_done = true;
                    break;
                }
                Ok(Some(Incoming::Text(text))) => {
                    worker.metrics.add(message_type(text), 1);
                    let mut verifier = worker.verifier.borrow_mut();
                    self.session
                        .receive(text.as_bytes(), now, &mut verifier, &mut actions);
                    drop(verifier);
                    self.perform(worker, &mut actions);
                }
                Ok(Some(Incoming::Ping(payload))) => self.outbox.pong(payload),
                Ok(Some(Incoming::Pong(_))) => {}
                Ok(Some(Incoming::Close(code))) => {
                    let code = code.map_or(CloseCode::NORMAL, |(code, _)| code);
                    self.finish(worker, code, "");
                    self.peer_done = true;
                }
                Err(error) => {
                    tracing::debug!(connection = self.id, %error, "protocol error");
                    self.finish(worker, error.close_code(), &error.to_string());
                    break;
                }
            }
        }
        worker.put_actions(actions);
    }

    /// Carries out what the session wants, and empties the list.
    pub(super) fn perform(&mut self, worker: &Worker, actions: &mut Vec<Action>) {
        for action in actions.drain(..) {
            if self.phase != Phase::Open {
                continue;
            }
            match action {
                Action::Send(message) => self.outbox.message(message),
                Action::Publish(publication) => self.take_event(worker, publication),
                Action::Open {
                    key,
                    query,
                    filters,
                } => self.ask(
                    worker,
                    Asked {
                        key,
                        query,
                        live: Some(filters),
                    },
                ),
                Action::Count { key, query } => self.ask(
                    worker,
                    Asked {
                        key,
                        query,
                        live: None,
                    },
                ),
                Action::Cancel { key } => {
                    if let Some(index) = self.listening.iter().position(|other| *other == key) {
                        self.listening.swap_remove(index);
                        worker.live.borrow_mut().remove(self.listener(key));
                    }
                    self.deciding.cancel(key);
                    self.answering
                        .cancel(key, &worker.metrics, &worker.requests);
                }
                Action::Authenticated(key) => {
                    self.note_key(worker, key);
                    self.enforce_bans(worker);
                }
                Action::Disconnect { reason } => self.finish(worker, CloseCode::POLICY, &reason),
            }
        }
        worker
            .metrics
            .set(Level::Subscriptions, worker.live.borrow().len());
    }

    /// Ends the connection if its client is kept out.
    pub(super) fn enforce_bans(&mut self, worker: &Worker) {
        let keys = self.session.reader().keys();
        if let Some(reason) = worker.ban_of(self.publisher.client.address, keys) {
            self.finish(worker, CloseCode::POLICY, &format!("blocked: {reason}"));
        }
    }

    /// Takes down that the client has shown to have a key.
    fn note_key(&mut self, worker: &Worker, key: PublicKey) {
        let family = self.publisher.client.family;
        worker.observe(vec![Observation::Authenticated(key, family)]);
        if let Some(who) = &self.publisher.who {
            let who = Rc::new(who.with_keys(self.session.reader().keys()));
            self.publisher.who = Some(Rc::clone(&who));
            let plugins = &worker.plugins;
            plugins.tell(&plugins.hooks.authenticated, &(who, key));
        }
    }

    /// Takes a query, unless the client asks too much; where plugins have a say, they are asked.
    fn ask(&mut self, worker: &Worker, asked: Asked) {
        if self.is_too_fast(worker, asked.key) {
            return;
        }
        match &self.publisher.who {
            Some(who) if !worker.plugins.hooks.query.is_empty() => {
                self.deciding.ask(&worker.plugins, who, asked);
            }
            _ => self.begin(worker, asked),
        }
    }

    /// Begins to answer a query.
    fn begin(&mut self, worker: &Worker, asked: Asked) {
        let Asked { key, query, live } = asked;
        let Some(filters) = live else {
            let measured = worker.requests.count(&query.filters);
            let cursor = worker.reader.count(query);
            return self.answering.count(key, cursor, measured);
        };
        // INVARIANT: listening begins before the snapshot is taken, so every event is in the
        // snapshot, comes live, or both; the session drops the doubles.
        self.listening.push(key);
        let measured = worker.requests.req(&filters);
        worker.live.borrow_mut().insert(self.listener(key), filters);
        let cursor = worker.reader.query(query);
        self.session.query_started(key, cursor.snapshot());
        self.answering.query(key, cursor, measured);
    }

    /// Begins to answer a query with events that a plugin has made for it.
    fn begin_made(&mut self, worker: &Worker, asked: Asked, events: Vec<Event>) {
        let Some(filters) = asked.live else {
            let reason = "restricted: what this asks for can not be counted";
            return self.refuse(worker, asked.key, reason);
        };
        let measured = worker.requests.req(&filters);
        let cursor = Made::new(events);
        self.session.query_started(asked.key, cursor.snapshot());
        self.answering.query(asked.key, Box::new(cursor), measured);
    }

    /// Goes on with the queries that plugins have decided about.
    pub(super) fn decide(&mut self, worker: &Worker, cx: &mut std::task::Context<'_>) {
        while let Some((asked, decision)) = self.deciding.next(cx) {
            match decision {
                QueryDecision::Accept => self.begin(worker, asked),
                QueryDecision::Narrow(filters) => self.begin(worker, asked.narrowed(filters)),
                QueryDecision::Answer(events) => self.begin_made(worker, asked, events),
                QueryDecision::Refuse(reason) => self.refuse(worker, asked.key, &reason),
            }
        }
    }

    fn refuse(&mut self, worker: &Worker, key: SubscriptionKey, reason: &str) {
        worker.metrics.add(Count::QueriesRefused, 1);
        let mut actions = Vec::new();
        self.session.query_refused(key, reason, &mut actions);
        self.perform(worker, &mut actions);
    }

    /// Takes an event to publish, unless its author is kept out, or the client sends too many.
    fn take_event(&mut self, worker: &Worker, publication: Publication) {
        let author = publication.event.pubkey();
        let banned = worker.bans.borrow().of_key(&author, unix_now());
        if let Some(reason) = banned {
            worker.metrics.add(Count::EventsRefused, 1);
            let outcome = PublishOutcome::Banned { reason: &reason };
            self.outbox.message(ok(&publication.event.id(), outcome));
            return;
        }
        match worker.shared.rates.event_from(self.publisher.client) {
            Ok(()) => self.publishing.push(publication),
            Err(wait_seconds) => {
                worker.metrics.add(Count::EventsTooFast, 1);
                let outcome = PublishOutcome::TooFast { wait_seconds };
                self.outbox.message(ok(&publication.event.id(), outcome));
            }
        }
    }

    /// Refuses a query if the client asks too much.
    fn is_too_fast(&mut self, worker: &Worker, key: SubscriptionKey) -> bool {
        let Err(wait_seconds) = worker.shared.rates.query_from(self.publisher.client) else {
            return false;
        };
        worker.metrics.add(Count::QueriesTooFast, 1);
        let mut actions = Vec::new();
        self.session
            .query_refused(key, &rate_limited(wait_seconds), &mut actions);
        self.perform(worker, &mut actions);
        true
    }

    /// Works on the stored queries. Tells whether they could go on at once.
    pub(super) fn answer(&mut self, worker: &Worker, cx: &mut std::task::Context<'_>) -> bool {
        use super::answering::{Stopped, budget_of_a_turn};

        if self.answering.len() == 0 {
            return false;
        }
        let mut budget = budget_of_a_turn();
        let mut actions = worker.take_actions();
        let stopped = loop {
            let stopped = self.answering.poll(
                cx,
                &mut budget,
                &mut self.session,
                &mut self.outbox,
                (&worker.metrics, &worker.requests),
                &mut actions,
            );
            if actions.is_empty() {
                break stopped;
            }
            self.perform(worker, &mut actions);
        };
        worker.put_actions(actions);
        stopped == Stopped::Spent
    }

    /// Goes on with what was published, and sends the OKs that are due.
    pub(super) fn publish(&mut self, worker: &Rc<Worker>, cx: &mut std::task::Context<'_>) {
        let (outbox, deaf) = (&mut self.outbox, self.broken);
        self.publishing.poll(cx, worker, &self.publisher, |ok| {
            if !deaf {
                outbox.message(ok);
            }
        });
    }

    /// Takes a new event for a subscription. Tells whether the client gets it.
    pub(super) fn live(
        &mut self,
        worker: &Worker,
        key: SubscriptionKey,
        sequence: Option<Sequence>,
        event: &Arc<Event>,
    ) -> bool {
        if self.phase != Phase::Open {
            return false;
        }
        let mut actions = worker.take_actions();
        let taken = self
            .session
            .live(key, sequence, event, unix_now(), &mut actions);
        self.perform(worker, &mut actions);
        worker.put_actions(actions);
        if self.outbox.bytes() > worker.shared.config.queued_bytes_max {
            worker.metrics.add(Count::SlowReaders, 1);
            tracing::debug!(
                connection = self.id,
                "closed: does not read its live events"
            );
            self.outbox.drop_unsent();
            self.finish(
                worker,
                CloseCode::POLICY,
                "too slow: live events were not read",
            );
        }
        taken
    }

    /// Takes no more messages; what was published is still answered.
    pub(super) fn finish(&mut self, worker: &Worker, code: CloseCode, reason: &str) {
        if self.phase != Phase::Open {
            return;
        }
        self.phase = Phase::Finishing(code, reason.into());
        self.active = worker.now();
        self.answering.cancel_all(&worker.metrics, &worker.requests);
        self.deciding = Deciding::default();
        let mut live = worker.live.borrow_mut();
        for key in std::mem::take(&mut self.listening) {
            live.remove(self.listener(key));
        }
        worker.metrics.set(Level::Subscriptions, live.len());
    }

    /// Says the last word when everything before it has been said.
    pub(super) fn settle(&mut self, worker: &Worker) {
        if let Phase::Finishing(code, reason) = &self.phase
            && self.publishing.is_empty()
        {
            if !self.broken {
                self.outbox.close(*code, reason);
            }
            self.phase = Phase::Closing;
            self.active = worker.now();
        }
    }

    /// Notes that the socket is of no use any more.
    pub(super) fn break_off(&mut self, worker: &Worker) {
        self.broken = true;
        self.peer_done = true;
        self.outbox.clear();
        self.finish(worker, CloseCode::GOING_AWAY, "");
    }

    /// Looks after a silent client: pings it, gives it up. Tells whether there is something to do.
    pub(super) fn look_after(&mut self, worker: &Worker) -> bool {
        let silence = worker.now().since(self.active);
        let patience = &worker.patience;
        match self.phase {
            Phase::Open if silence >= 2 * patience.ping => {
                worker.metrics.add(Count::Unresponsive, 1);
                self.break_off(worker);
            }
            Phase::Open if silence >= patience.ping && !self.pinged => {
                self.outbox.ping();
                self.pinged = true;
            }
            // What is in the store's hands is waited for: the store answers.
            Phase::Closing if silence >= patience.close && !self.broken => self.break_off(worker),
            _ => return false,
        }
        true
    }

    fn listener(&self, subscription: SubscriptionKey) -> ListenerKey {
        ListenerKey {
            connection: self.id,
            subscription,
        }
    }
}

/// Tells the type of a message by its beginning, for counting alone.
fn message_type(text: &str) -> Count {
    let text = text.trim_start_matches(['[', ' ', '\t', '\r', '\n', '"']);
    let word = text.split('"').next().unwrap_or_default();
    match word {
        "EVENT" => Count::MessagesEvent,
        "REQ" => Count::MessagesReq,
        "COUNT" => Count::MessagesCount,
        "CLOSE" => Count::MessagesClose,
        "AUTH" => Count::MessagesAuth,
        _ => Count::MessagesOther,
    }
}
