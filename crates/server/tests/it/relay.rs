//! A running server over a naive store, stopped when it is dropped.

use std::{net::SocketAddr, num::NonZeroUsize, sync::Arc, thread::JoinHandle};

use hikyaku_server::{Bans, Metrics, PluginList, Server, ServerConfig, ServerError, Watch};
use hikyaku_store::{EventStore, testing::NaiveStore};
use tokio::sync::oneshot;

pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    pub(crate) metrics_address: Option<SocketAddr>,
    pub(crate) metrics: Metrics,
    pub(crate) watch: Watch,
    pub(crate) bans: Bans,
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

pub(crate) fn config() -> ServerConfig {
    let mut config = ServerConfig::new(([127, 0, 0, 1], 0).into());
    config.workers = NonZeroUsize::new(2);
    config.information.name = Some("test relay".into());
    config
}

impl Relay {
    pub(crate) fn start() -> Self {
        Self::with(config(), Arc::new(NaiveStore::new()))
    }

    pub(crate) fn with(config: ServerConfig, store: Arc<dyn EventStore>) -> Self {
        Self::serve(Server::new(config, store))
    }

    pub(crate) fn serve<P: PluginList>(server: Server<P>) -> Self {
        let server = server.bind().unwrap();
        let address = server.address();
        let metrics_address = server.metrics_address();
        let metrics = server.metrics();
        let watch = server.watch();
        let bans = server.bans();
        let (shutdown, told) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            server.run(async {
                let _ = told.await;
            })
        });
        Self {
            address,
            metrics_address,
            metrics,
            watch,
            bans,
            shutdown: Some(shutdown),
            thread: Some(thread),
        }
    }

    /// Tells the server to shut down; it may go on for a while.
    pub(crate) fn begin_shutdown(&mut self) {
        drop(self.shutdown.take());
    }

    pub(crate) fn join(mut self) -> Result<(), ServerError> {
        self.begin_shutdown();
        self.thread.take().unwrap().join().unwrap()
    }

    /// Returns one figure, as a scrape would show it.
    pub(crate) fn figure(&self, name: &str) -> f64 {
        let text = self.metrics.render();
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .unwrap_or_else(|| panic!("{name} in\n{text}"))
            .parse()
            .unwrap()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.begin_shutdown();
        if let Some(thread) = self.thread.take() {
            let result = thread.join();
            if !std::thread::panicking() {
                result.unwrap().unwrap();
            }
        }
    }
}
