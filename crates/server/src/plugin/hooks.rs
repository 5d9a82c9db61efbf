//! One worker's handlers, each bound to this worker's instance of its plugin.

use std::{net::IpAddr, rc::Rc, sync::Arc};

use hikyaku_event::{Event, Filter, PublicKey};
use hikyaku_store::LocalFuture;

use super::{Client, PluginError, QueryVerdict, Verdict, book::HandlerId};
use crate::http::{Request, Response};

/// A handler, bound to its plugin.
pub(crate) type Bound<Arguments, Answer> = Box<dyn Fn(Arguments) -> LocalFuture<'static, Answer>>;

/// The handlers for one occasion, in the order of registration.
pub(crate) type Hook<Arguments, Answer> = Vec<(HandlerId, Bound<Arguments, Answer>)>;

/// All handlers of one worker.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) routes: Hook<Request, Response>,
    pub(crate) connected: Hook<Rc<Client>, ()>,
    pub(crate) disconnected: Hook<Rc<Client>, ()>,
    pub(crate) authenticated: Hook<(Rc<Client>, PublicKey), ()>,
    pub(crate) event: Hook<(Rc<Client>, Arc<Event>), Verdict>,
    pub(crate) stored: Hook<(Rc<Client>, Arc<Event>), ()>,
    pub(crate) deleted: Hook<(Rc<Client>, Arc<Event>), ()>,
    pub(crate) query: Hook<(Rc<Client>, Arc<[Filter]>), QueryVerdict>,
    /// Each is called again when it has failed.
    pub(crate) tasks: Hook<(), ()>,
    /// The same, at one node at a time.
    pub(crate) shared_tasks: Hook<(), ()>,
    /// In the order of their names.
    pub(crate) commands: Hook<Vec<String>, Result<(), PluginError>>,
}

impl Hooks {
    /// Tells whether any handler wants to know who a client is.
    pub(crate) fn need_clients(&self) -> bool {
        !(self.connected.is_empty()
            && self.disconnected.is_empty()
            && self.authenticated.is_empty()
            && self.event.is_empty()
            && self.stored.is_empty()
            && self.deleted.is_empty()
            && self.query.is_empty())
    }

    /// Makes what handlers know of a client, if any wants to know.
    pub(crate) fn client(
        &self,
        address: IpAddr,
        connection: u64,
        relay: &Arc<hikyaku_relay::RelayConfig>,
    ) -> Option<Rc<Client>> {
        self.need_clients()
            .then(|| Rc::new(Client::new(address, connection, Arc::clone(relay))))
    }
}
