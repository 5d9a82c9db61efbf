//! One connection's queries that plugins decide about.

use std::{
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

use hikyaku_event::Filter;
use hikyaku_relay::SubscriptionKey;
use hikyaku_store::{LocalFuture, Query};

use crate::plugin::{self, Plugins, QueryDecision};

/// A REQ or COUNT that is to be answered.
pub(super) struct Asked {
    pub(super) key: SubscriptionKey,
    pub(super) query: Query,
    /// The live part of a REQ.
    pub(super) live: Option<Arc<[Filter]>>,
}

impl Asked {
    /// Returns the same with other filters.
    pub(super) fn narrowed(self, filters: Vec<Filter>) -> Self {
        let live = self.live.map(|_| {
            let mut live = filters.clone();
            live.retain(|filter| !filter.matches_nothing());
            live.into()
        });
        let query = Query {
            filters,
            ..self.query
        };
        Self {
            query,
            live,
            ..self
        }
    }
}

/// The queries that wait for a decision, oldest first. Bounded by the session's subscriptions.
#[derive(Default)]
pub(super) struct Deciding(Vec<(Asked, LocalFuture<'static, QueryDecision>)>);

impl Deciding {
    /// Has plugins decide about a query; the answer comes with [`Deciding::next`].
    pub(super) fn ask(&mut self, plugins: &Rc<Plugins>, who: &Rc<plugin::Client>, asked: Asked) {
        let filters: Arc<[Filter]> = asked.query.filters.as_slice().into();
        let decision = Rc::clone(plugins).judge_query(Rc::clone(who), filters);
        self.0.push((asked, Box::pin(decision)));
    }

    /// Forgets a query that is not asked any more.
    pub(super) fn cancel(&mut self, key: SubscriptionKey) {
        self.0.retain(|(asked, _)| asked.key != key);
    }

    /// Returns the next query that is decided about.
    pub(super) fn next(&mut self, cx: &mut Context<'_>) -> Option<(Asked, QueryDecision)> {
        for (index, (_, decision)) in self.0.iter_mut().enumerate() {
            if let Poll::Ready(decision) = decision.as_mut().poll(cx) {
                return Some((self.0.remove(index).0, decision));
            }
        }
        None
    }
}
