//! A server for a test.

use std::{
    net::{SocketAddr, TcpStream},
    num::NonZeroUsize,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use hikyaku_table_server::{Metrics, TableServer, TableServerConfig, TableServerError};
use hikyaku_tables::{MemoryOptions, MemoryTable, Table, Tables};
use tokio::sync::oneshot;

/// A configuration for clients on this machine.
pub(crate) fn loopback() -> TableServerConfig {
    TableServerConfig {
        listen: Some("127.0.0.1:0".parse().unwrap()),
        workers: NonZeroUsize::new(2),
        ..TableServerConfig::default()
    }
}

/// A server on threads of its own, stopped when dropped.
pub(crate) struct Running {
    pub(crate) address: Option<SocketAddr>,
    pub(crate) metrics: Metrics,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), TableServerError>>>,
}

impl Running {
    /// Starts with one table in memory.
    pub(crate) fn start(config: TableServerConfig) -> Self {
        let table: Arc<dyn Table> = Arc::new(MemoryTable::new(MemoryOptions::default(), None));
        Self::with_tables(config, vec![("main".to_owned(), table)])
    }

    pub(crate) fn with_tables(
        config: TableServerConfig,
        tables: Vec<(String, Arc<dyn Table>)>,
    ) -> Self {
        Self::serve(TableServer::bind(config, tables).unwrap())
    }

    /// Starts with tables that were opened together.
    pub(crate) fn with_set(config: TableServerConfig, set: &Arc<Tables>) -> Self {
        Self::serve(TableServer::bind_set(config, Arc::clone(set)).unwrap())
    }

    fn serve(server: TableServer) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self {
            address: server.address(),
            metrics: server.metrics(),
            stop: Some(stop),
            thread: Some(thread::spawn(|| {
                server.run(async {
                    let _ = stopped.await;
                })
            })),
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address.unwrap()).unwrap();
        // A test that hears nothing fails in the end.
        client
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        client
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        assert!(thread::panicking() || ended.unwrap().is_ok());
    }
}
