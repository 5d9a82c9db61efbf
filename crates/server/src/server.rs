//! A server before it starts: what it is told, its plugins, and their handlers.

use std::{
    any::type_name, fmt, io, marker::PhantomData, net::SocketAddr, panic::Location, rc::Rc,
    sync::Arc,
};

use hikyaku_event::{Event, Filter, PublicKey};
use hikyaku_relay::UrlError;
use hikyaku_store::EventStore;
use serde_json::{Map, Value};

use crate::{
    ServerConfig,
    bound::BoundServer,
    http::{IntoResponse, Request, Route, RouteTable, Service, call_service, with_login},
    plugin::{
        self, Bound, Client, CommandName, HandlerId, HandlerName, Has, Hook, Hooks, Instances,
        NoPlugins, PluginError, PluginList, QueryVerdict, Setup, Verdict, With, Worker,
    },
};

/// Why a server can't start, or has stopped by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address can't be listened on: in use, not ours, or not allowed.
    #[error("can't listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The configured public address is not one.
    #[error("the public address is unusable")]
    PublicUrl(#[from] UrlError),
    /// A route that can't be served.
    #[error("the route {route} can't be served: {reason}")]
    Route {
        /// The route.
        route: String,
        /// Why not.
        reason: String,
    },
    /// What is said of the relay can't be changed ([`Server::information`]). Nobody has been served.
    #[error("{site} can't change the information document")]
    Information {
        /// Where the change is registered.
        site: &'static Location<'static>,
        /// What it has panicked with.
        source: PluginError,
    },
    /// A plugin that could not be made on one of the workers. Nobody has been served.
    #[error("plugin {plugin} can't start on worker {worker}")]
    Plugin {
        /// Its type.
        plugin: &'static str,
        /// The worker's number, from 0.
        worker: usize,
        /// What its factory said.
        source: PluginError,
    },
    /// The system refuses a thread, a timer, or randomness.
    #[error("the system refuses what the server needs")]
    System(#[source] io::Error),
    /// A worker has stopped by itself: a defect. The others have been shut down.
    #[error("{0} has stopped unexpectedly")]
    Worker(String),
}

/// A relay that is being told what to do: its plugins and their handlers.
///
/// `Plugins` lists the plugins that are registered. A handler names its plugin by its first
/// argument; one that names a plugin which is not registered does not compile. Handlers of one
/// occasion run in the order they are registered in.
///
/// No handler can hurt more than the request it is called for: one that panics, or takes longer than
/// [`ServerConfig::handler_timeout`], is counted and named, and the request is refused.
#[must_use = "a server serves when it is bound and run"]
pub struct Server<Plugins = NoPlugins> {
    pub(crate) config: ServerConfig,
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) setup: Setup,
    pub(crate) handlers: Vec<HandlerName>,
    pub(crate) routes: RouteTable,
    routes_count: usize,
    /// The first route that can't be served.
    pub(crate) refused: Option<ServerError>,
    pub(crate) additions: Vec<Addition>,
    pub(crate) commands: Vec<CommandName>,
    plugins: PhantomData<fn() -> Plugins>,
}

/// Finds where a handler goes among a worker's.
type Place<Arguments, Answer> = fn(&mut Hooks) -> &mut Hook<Arguments, Answer>;

/// Changes the information document.
type Change = Box<dyn FnOnce(&mut Map<String, Value>) + Send>;

/// A change, and where it is registered.
pub(crate) struct Addition {
    pub(crate) site: &'static Location<'static>,
    pub(crate) change: Change,
}

impl<Plugins> fmt::Debug for Server<Plugins> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("config", &self.config)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Makes a server of the relay's events in this store.
    pub fn new(config: ServerConfig, store: Arc<dyn EventStore>) -> Self {
        Self {
            config,
            store,
            setup: Setup::default(),
            handlers: Vec::new(),
            routes: RouteTable::default(),
            routes_count: 0,
            refused: None,
            additions: Vec::new(),
            commands: Vec::new(),
            plugins: PhantomData,
        }
    }
}

impl<Plugins: PluginList> Server<Plugins> {
    /// Registers a plugin: `factory` is called once on each worker's thread, before anybody is
    /// served. What it makes stays on that thread: it needs no lock, and need be neither `Send` nor
    /// `Sync`. If it fails on one worker the server does not start.
    pub fn plugin<P, F>(mut self, factory: F) -> Server<With<P, Plugins>>
    where
        P: 'static,
        F: AsyncFnOnce(Worker) -> Result<P, PluginError> + Clone + Send + 'static,
    {
        self.setup
            .factories
            .push(plugin::factory(name_of::<P>(), factory));
        Server {
            config: self.config,
            store: self.store,
            setup: self.setup,
            handlers: self.handlers,
            routes: self.routes,
            routes_count: self.routes_count,
            refused: self.refused,
            additions: self.additions,
            commands: self.commands,
            plugins: PhantomData,
        }
    }

    /// Has a handler answer requests to a route.
    ///
    /// The relay itself is at `/`: WebSockets and the information document stay its own, the page
    /// for browsers gives way to a route for it.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a route is made where it is given: `get(\"/path\")`"
    )]
    pub fn route<P, At, R, F>(mut self, route: Route, handler: F) -> Self
    where
        P: 'static,
        Plugins: Has<P, At>,
        R: IntoResponse,
        F: AsyncFn(&P, Request) -> R + Clone + Send + 'static,
    {
        // A connection on which nothing moves, because its handler works, is no silent one.
        let time = route.time().unwrap_or_default();
        self.config.http_timeout = self.config.http_timeout.max(time);
        let added = self.routes.add(&route, self.routes_count, name_of::<P>());
        self.note_route(&route.to_string(), added);
        self.bound::<P, At, _, _>(
            route.to_string(),
            |hooks| &mut hooks.routes,
            move |plugin| {
                let bound = Rc::new((plugin, handler));
                Box::new(move |request| {
                    let bound = Rc::clone(&bound);
                    Box::pin(async move { (bound.1)(&bound.0, request).await.into_response() })
                })
            },
        )
    }

    /// Has a service of `tower`'s kind, an `axum::Router` say, answer all that is at a path or below
    /// it. It sees its own paths: what is at `/app/x` is at `/x` for a service mounted at `/app`.
    /// Each worker has a clone of it.
    pub fn mount<S: Service>(mut self, path: &str, service: S) -> Self {
        let path = path.trim_end_matches('/').to_owned();
        let added = self.routes.mount(&path, self.routes_count);
        self.note_route(&path, added);
        let id = self.handler("mounted", path.clone());
        self.setup
            .bindings
            .push(Box::new(move |_: &Instances, hooks: &mut Hooks| {
                let path: Rc<str> = path.into();
                let bound: Bound<_, _> = Box::new(move |request| {
                    let (service, path) = (service.clone(), Rc::clone(&path));
                    Box::pin(async move { call_service(service, &path, request).await })
                });
                hooks.routes.push((id, bound));
            }));
        self
    }

    /// Has a handler decide about each event that is about to be stored, or delivered if it is
    /// ephemeral: well-formed, within the limits, signed, and not known already. The first handler
    /// that does not accept it decides. All events of a batch are asked about at once, and stored
    /// in the order they came.
    pub fn on_event<P, At, F>(self, handler: F) -> Self
    where
        P: 'static,
        Plugins: Has<P, At>,
        F: AsyncFn(&P, &Client, &Event) -> Verdict + Clone + Send + 'static,
    {
        self.bound::<P, At, _, _>(
            "on_event".to_owned(),
            |hooks| &mut hooks.event,
            move |plugin| {
                let bound = Rc::new((plugin, handler));
                Box::new(move |(client, event)| {
                    let bound = Rc::clone(&bound);
                    Box::pin(async move { (bound.1)(&bound.0, &client, &event).await })
                })
            },
        )
    }

    /// Tells a handler of each event that a client of this server has published, once it is stored
    /// or delivered.
    pub fn after_event<P, At, F>(self, handler: F) -> Self
    where
        P: 'static,
        Plugins: Has<P, At>,
        F: AsyncFn(&P, &Client, &Event) + Clone + Send + 'static,
    {
        self.bind_to_events::<P, At, _>("after_event", |hooks| &mut hooks.stored, handler)
    }

    /// Tells a handler of each deletion (kind 5, NIP-09) and each request to vanish (kind 62, NIP-62)
    /// that a client of this server has published, once it is carried out.
    pub fn after_deletion<P, At, F>(self, handler: F) -> Self
    where
        P: 'static,
        Plugins: Has<P, At>,
        F: AsyncFn(&P, &Client, &Event) + Clone + Send + 'static,
    {
        self.bind_to_events::<P, At, _>("after_deletion", |hooks| &mut hooks.deleted, handler)
    }

    /// Has a handler decide about each REQ and COUNT that is well-formed and within the limits. Each
    /// sees the filters that those before it have left; the first that refuses decides.
    pub fn on_query<P, At, F>(self, handler: F) -> Self
    where
        P: 'static,
        Plugins: Has<P, At>,
        F: AsyncFn(&P, &Client, &[Filter]) -> QueryVerdict + Clone + Send + 'static,
    {
        self.bound::<P, At, _, _>(
            "on_query".to_owned(),
            |hooks| &mut hooks.query,
            move |plugin| {
                let bound = Rc::new((plugin, handler));
                Box::new(move |(client, filters)| {
                    let bound = Rc::clone(&bound);
                    Box::pin(async move { (bound.1)(&bound.0, &client, &filters).await })
                })
            },
        )
    }

    /// Tells a handler of each key that a client has authenticated (NIP-42).
    pub fn after_auth<P, At, F>(self, handler: F) -> Self
    where
        P: 'static,
        Plugins: Has<P, At>,
        F: AsyncFn(&P, &Client, &PublicKey) + Clone + Send + 'static,
    {
        self.bound::<P, At, _, _>(
            "after_auth".to_owned(),
            |hooks| &mut hooks.authenticated,
            move |plugin| {
                let bound = Rc::new((plugin, handler));
                Box::new(move |(client, key)| {
                    let bound = Rc::clone(&bound);
                    Box::pin(async move { (bound.1)(&bound.0, &client, &key).await })
                })
            },
        )
    }

    /// Tells a handler of each WebSocket connection that was opened.
    pub fn on_open<P, At, F>(self, handler: F) -> Self
    where
        P: 'static,
        Plugins: Has<P, At>,
        F: AsyncFn(&P, &Client) + Clone + Send + 'static,
    {
        self.bind_to_clients::<P, At, _>("on_open", |hooks| &mut hooks.connected, handler)
    }

    /// Tells a handler of each WebSocket connection that has ended.
    pub fn on_close<P, At, F>(self, handler: F) -> Self
    where
        P: 'static,
        Plugins: Has<P, At>,
        F: AsyncFn(&P, &Client) + Clone + Send + 'static,
    {
        self.bind_to_clients::<P, At, _>("on_close", |hooks| &mut hooks.disconnected, handler)
    }

    /// Starts a task beside all requests, once for each server: on its first worker. It may take as
    /// long as it likes; if it panics it is started again after a pause.
    pub fn task<P, At, F>(self, name: &str, task: F) -> Self
    where
        P: 'static,
        Plugins: Has<P, At>,
        F: AsyncFn(&P) + Clone + Send + 'static,
    {
        self.bind_task::<P, At, _>(format!("task {name}"), |hooks| &mut hooks.tasks, task)
    }

    /// Starts a task as [`Server::task`] does, at one node at a time of those that share a store. When
    /// that node ends, however it ends, or loses its database, another one begins the task; a node
    /// whose task is taken from it drops it where it waits. A task that ends is not begun again here.
    pub fn shared_task<P, At, F>(self, name: &str, task: F) -> Self
    where
        P: 'static,
        Plugins: Has<P, At>,
        F: AsyncFn(&P) + Clone + Send + 'static,
    {
        self.bind_task::<P, At, _>(
            format!("shared_task {name}"),
            |hooks| &mut hooks.shared_tasks,
            task,
        )
    }

    /// Adds a command to the program ([`Server::main`]): what it does in the place of serving when its
    /// first argument is this name. The handler has the other arguments. `about` is one line.
    pub fn command<P, At, E, F>(mut self, name: &str, about: &str, command: F) -> Self
    where
        P: 'static,
        Plugins: Has<P, At>,
        E: Into<PluginError>,
        F: AsyncFn(&P, Vec<String>) -> Result<(), E> + Clone + Send + 'static,
    {
        self.commands.push(CommandName {
            name: name.to_owned(),
            about: about.to_owned(),
        });
        self.bound::<P, At, _, _>(
            format!("command {name}"),
            |hooks| &mut hooks.commands,
            move |plugin| {
                let bound = Rc::new((plugin, command));
                Box::new(move |arguments| {
                    let bound = Rc::clone(&bound);
                    Box::pin(
                        async move { (bound.1)(&bound.0, arguments).await.map_err(Into::into) },
                    )
                })
            },
        )
    }

    /// Changes what the relay says about itself (NIP-11), once, before it serves.
    #[track_caller]
    pub fn information(
        mut self,
        change: impl FnOnce(&mut Map<String, Value>) + Send + 'static,
    ) -> Self {
        self.additions.push(Addition {
            site: Location::caller(),
            change: Box::new(change),
        });
        self
    }

    /// Binds the addresses. From here on clients can connect; they are served when
    /// [`BoundServer::run`] has made the plugins.
    pub fn bind(self) -> Result<BoundServer, ServerError> {
        match self.config.sessions.clone() {
            Some(sessions) => BoundServer::bind(with_login(self, sessions).erase()),
            None => BoundServer::bind(self.erase()),
        }
    }

    /// Serves until the program is told to end (SIGINT, SIGTERM), and then ends in order.
    pub fn run(self) -> Result<(), ServerError> {
        self.bind()?.run_until_told_to_end()
    }

    fn erase(self) -> Server<NoPlugins> {
        Server {
            config: self.config,
            store: self.store,
            setup: self.setup,
            handlers: self.handlers,
            routes: self.routes,
            routes_count: self.routes_count,
            refused: self.refused,
            additions: self.additions,
            commands: self.commands,
            plugins: PhantomData,
        }
    }

    fn note_route(&mut self, route: &str, added: Result<(), String>) {
        self.routes_count += 1;
        if let Err(reason) = added
            && self.refused.is_none()
        {
            self.refused = Some(ServerError::Route {
                route: route.to_owned(),
                reason,
            });
        }
    }

    fn bind_task<P, At, F>(self, name: String, place: Place<(), ()>, task: F) -> Self
    where
        P: 'static,
        Plugins: Has<P, At>,
        F: AsyncFn(&P) + Clone + Send + 'static,
    {
        self.bound::<P, At, _, _>(name, place, move |plugin| {
            let bound = Rc::new((plugin, task));
            Box::new(move |()| {
                let bound = Rc::clone(&bound);
                Box::pin(async move { (bound.1)(&bound.0).await })
            })
        })
    }

    fn bind_to_events<P, At, F>(
        self,
        task: &str,
        place: Place<(Rc<Client>, Arc<Event>), ()>,
        handler: F,
    ) -> Self
    where
        P: 'static,
        Plugins: Has<P, At>,
        F: AsyncFn(&P, &Client, &Event) + Clone + Send + 'static,
    {
        self.bound::<P, At, _, _>(task.to_owned(), place, move |plugin| {
            let bound = Rc::new((plugin, handler));
            Box::new(move |(client, event)| {
                let bound = Rc::clone(&bound);
                Box::pin(async move { (bound.1)(&bound.0, &client, &event).await })
            })
        })
    }

    fn bind_to_clients<P, At, F>(self, task: &str, place: Place<Rc<Client>, ()>, handler: F) -> Self
    where
        P: 'static,
        Plugins: Has<P, At>,
        F: AsyncFn(&P, &Client) + Clone + Send + 'static,
    {
        self.bound::<P, At, _, _>(task.to_owned(), place, move |plugin| {
            let bound = Rc::new((plugin, handler));
            Box::new(move |client| {
                let bound = Rc::clone(&bound);
                Box::pin(async move { (bound.1)(&bound.0, &client).await })
            })
        })
    }

    /// Notes how a handler is bound to its plugin, once that is made.
    fn bound<P, At, A, R>(
        mut self,
        task: String,
        place: Place<A, R>,
        bind: impl FnOnce(Rc<P>) -> Bound<A, R> + Clone + Send + 'static,
    ) -> Self
    where
        P: 'static,
        A: 'static,
        R: 'static,
        Plugins: Has<P, At>,
    {
        let id = self.handler(name_of::<P>(), task);
        let position = Plugins::POSITION;
        self.setup
            .bindings
            .push(Box::new(move |plugins: &Instances, hooks: &mut Hooks| {
                place(hooks).push((id, bind(plugins.get(position))));
            }));
        self
    }

    fn handler(&mut self, plugin: &'static str, task: String) -> HandlerId {
        let id = HandlerId(u16::try_from(self.handlers.len()).unwrap_or(u16::MAX));
        self.handlers.push(HandlerName { plugin, task });
        id
    }
}

/// Returns a type's name without its path.
fn name_of<P>() -> &'static str {
    let name = type_name::<P>();
    let path = name.split('<').next().unwrap_or(name);
    path.rsplit("::").next().unwrap_or(path)
}
