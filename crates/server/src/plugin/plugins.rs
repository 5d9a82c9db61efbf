//! What one worker does with its handlers: asks those that decide, tells those that listen.

use std::{
    borrow::Cow,
    cell::Cell,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use hikyaku_event::{Event, Filter};
use hikyaku_store::LocalFuture;
use tokio::sync::{Notify, mpsc};

use super::{
    Client, QueryVerdict,
    call::{Call, CallFailure, Caller},
    hooks::{Hook, Hooks},
    verdict::{Decision, with_word},
};

/// Handlers that may be told something at the same time. What comes beyond is dropped and counted,
/// lest a slow one takes all memory.
const NOTICES_MAX: usize = 16_384;

/// One worker's plugins.
pub(crate) struct Plugins {
    pub(crate) hooks: Hooks,
    pub(crate) caller: Rc<Caller>,
    notices: mpsc::UnboundedSender<Call<()>>,
    notices_under_way: Cell<usize>,
    /// The last notice has ended.
    silent: Notify,
}

/// What is answered of a REQ or COUNT.
#[derive(Debug, Clone)]
pub(crate) enum QueryDecision {
    Accept,
    Narrow(Vec<Filter>),
    Answer(Vec<Event>),
    Refuse(Cow<'static, str>),
}

impl Plugins {
    pub(crate) fn new(
        hooks: Hooks,
        caller: Rc<Caller>,
    ) -> (Rc<Self>, mpsc::UnboundedReceiver<Call<()>>) {
        let (notices, waiting) = mpsc::unbounded_channel();
        let plugins = Self {
            hooks,
            caller,
            notices,
            notices_under_way: Cell::new(0),
            silent: Notify::new(),
        };
        (Rc::new(plugins), waiting)
    }

    /// Tells everybody who wants to know. What a handler does before it first waits is done when
    /// this returns; the rest follows, and nobody waits for it.
    pub(crate) fn tell<A: Clone>(&self, listeners: &Hook<A, ()>, news: &A) {
        for (handler, listener) in listeners {
            if self.notices_under_way.get() >= NOTICES_MAX {
                self.caller.note_dropped(*handler);
                continue;
            }
            let mut call = self.caller.call(*handler, listener(news.clone()));
            let mut cx = Context::from_waker(Waker::noop());
            if std::pin::Pin::new(&mut call).poll(&mut cx).is_pending() {
                self.notices_under_way.set(self.notices_under_way.get() + 1);
                // The receiver goes when the worker does.
                let _ = self.notices.send(call);
            }
        }
    }

    /// Sees the handlers that had to wait to their ends; never returns.
    pub(crate) async fn follow(self: Rc<Self>, mut waiting: mpsc::UnboundedReceiver<Call<()>>) {
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(call) = waiting.recv() => running.push(call),
                Some(_) = running.next(), if !running.is_empty() => {
                    self.notices_under_way.set(self.notices_under_way.get() - 1);
                    if self.notices_under_way.get() == 0 {
                        self.silent.notify_waiters();
                    }
                }
            }
        }
    }

    /// Resolves when no handler is being told anything.
    pub(crate) async fn silence(&self) {
        loop {
            let silent = self.silent.notified();
            if self.notices_under_way.get() == 0 {
                return;
            }
            silent.await;
        }
    }

    /// Decides about each of a client's events; all of them are asked about at once.
    pub(crate) async fn decide(
        &self,
        client: &Rc<Client>,
        events: impl ExactSizeIterator<Item = &Arc<Event>>,
    ) -> Vec<Decision> {
        let mut decisions = Vec::with_capacity(events.len());
        let mut undecided = FuturesUnordered::new();
        for (index, event) in events.enumerate() {
            let mut decision: LocalFuture<'_, Decision> = Box::pin(self.judge(client, event));
            // Most answer at once. Who does not is asked again when it can go on.
            if let Some(decision) = poll_once(&mut decision) {
                decisions.push(decision);
            } else {
                decisions.push(Decision::Accept);
                undecided.push(async move { (index, decision.await) });
            }
        }
        while let Some((index, decision)) = undecided.next().await {
            if let Some(place) = decisions.get_mut(index) {
                *place = decision;
            }
        }
        decisions
    }

    /// Asks one handler after the other about an event, until one objects.
    async fn judge(&self, client: &Rc<Client>, event: &Arc<Event>) -> Decision {
        for (handler, hook) in &self.hooks.event {
            let asked = hook((Rc::clone(client), Arc::clone(event)));
            let decision = match self.caller.call(*handler, asked).await {
                Ok(verdict) => verdict.settle(client, event),
                Err(failure) => Decision::Reject(failure.reason().into()),
            };
            if decision != Decision::Accept {
                return decision;
            }
        }
        Decision::Accept
    }

    /// Asks one handler after the other about a query; each sees what those before it have left.
    pub(crate) async fn judge_query(
        self: Rc<Self>,
        client: Rc<Client>,
        filters: Arc<[Filter]>,
    ) -> QueryDecision {
        let mut filters = filters;
        let mut decision = QueryDecision::Accept;
        for (handler, hook) in &self.hooks.query {
            let asked = hook((Rc::clone(&client), Arc::clone(&filters)));
            match self.caller.call(*handler, asked).await {
                Ok(QueryVerdict::Accept) => {}
                Ok(QueryVerdict::RequireAuth) if !client.keys().is_empty() => {}
                Ok(QueryVerdict::RequireAuth) => {
                    let reason = "auth-required: this relay answers authenticated clients only";
                    return QueryDecision::Refuse(reason.into());
                }
                Ok(QueryVerdict::Refuse(reason)) => {
                    return QueryDecision::Refuse(with_word(reason, "restricted"));
                }
                Ok(QueryVerdict::Answer(events)) => return QueryDecision::Answer(events),
                Ok(QueryVerdict::Narrow(mut narrowed)) => {
                    narrowed.iter_mut().for_each(in_order);
                    filters = narrowed.as_slice().into();
                    decision = QueryDecision::Narrow(narrowed);
                }
                Err(failure) => return QueryDecision::Refuse(failure.reason().into()),
            }
        }
        decision
    }
}

impl CallFailure {
    /// Returns what a client hears whose request it was.
    fn reason(self) -> &'static str {
        match self {
            Self::Panicked => "error: a part of this relay has failed, the operator is told",
            Self::TooSlow => "error: a part of this relay took too long, try again later",
        }
    }
}

/// Polls a future for the first time, with nobody to be woken; `None` if it has to wait.
fn poll_once<T>(future: &mut LocalFuture<'_, T>) -> Option<T> {
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Gives a filter that somebody has made the order that filters have.
fn in_order(filter: &mut Filter) {
    fn set<T: Ord>(values: &mut Vec<T>) {
        values.sort_unstable();
        values.dedup();
    }
    filter.ids.iter_mut().for_each(set);
    filter.authors.iter_mut().for_each(set);
    filter.kinds.iter_mut().for_each(set);
    filter.tags.sort_by(|a, b| a.name.cmp(&b.name));
    for condition in &mut filter.tags {
        set(&mut condition.values);
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, net::Ipv4Addr, time::Duration};

    use hikyaku_relay::{Limits, RelayConfig, RelayUrls};

    use super::*;
    use crate::plugin::{HandlerBook, HandlerId, HandlerName};

    #[tokio::test]
    async fn what_nobody_has_time_to_be_told_is_dropped_and_counted() {
        let name = HandlerName {
            plugin: "Slow",
            task: "on_open".to_owned(),
        };
        let book = HandlerBook::new(vec![name], 1);
        let caller = Caller::new(Arc::clone(&book), 0, Duration::from_mins(1));
        let mut hooks = Hooks::default();
        let called = Rc::new(Cell::new(0));
        let calls = Rc::clone(&called);
        hooks.connected.push((
            HandlerId(0),
            Box::new(move |_| {
                calls.set(calls.get() + 1);
                Box::pin(pending())
            }),
        ));
        let (plugins, mut waiting) = Plugins::new(hooks, caller);
        let relay = RelayConfig {
            limits: Limits::default(),
            urls: RelayUrls::listening(([127, 0, 0, 1], 0).into()),
        };
        let client = Client::new(Ipv4Addr::LOCALHOST.into(), 1, Arc::new(relay));
        let client = Rc::new(client);
        for _ in 0..NOTICES_MAX + 3 {
            plugins.tell(&plugins.hooks.connected, &client);
        }
        assert_eq!((called.get(), waiting.len()), (NOTICES_MAX, NOTICES_MAX));
        let dropped = &book.workers[0].cells(HandlerId(0)).unwrap().dropped;
        assert_eq!(dropped.load(std::sync::atomic::Ordering::Relaxed), 3);
        assert!(waiting.try_recv().is_ok());
    }
}
