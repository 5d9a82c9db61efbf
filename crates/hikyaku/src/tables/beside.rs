//! Tables that the relay's own process serves, on an address of their own.

use std::{
    collections::BTreeMap,
    sync::Arc,
    thread::{self, JoinHandle},
};

use futures_channel::oneshot;
use hikyaku_observe::Observations;
use hikyaku_server::Gauge;
use hikyaku_table_server::{Count, Metrics, TableServer};
use hikyaku_tables::{Table, Tables};

use super::asked::Asked;
use crate::{
    configuration::Settings,
    control::ControlServer,
    failure::{Failure, chain},
};

/// Tables that are being served; until [`ServedTables::stop`].
pub(crate) struct ServedTables {
    control: Option<ControlServer>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
    tables: Arc<Tables>,
    metrics: Metrics,
    observations: Option<Observations>,
}

impl ServedTables {
    /// Opens the tables and serves them on threads of their own; none if none are configured.
    pub(crate) fn start(settings: &Settings) -> Result<Option<Self>, Failure> {
        let wanted = &settings.tables;
        if wanted.open.is_empty() {
            return Ok(None);
        }
        let folder = settings.data.join("tables");
        let tables = wanted.open(&folder)?;
        let config = wanted.config(settings.server.measure_requests);
        let server = TableServer::bind_set(config, Arc::clone(&tables)).map_err(|error| {
            Failure::Failed(format!("the tables can't be served: {}", chain(&error)))
        })?;
        let metrics = server.metrics();
        let observations = server.observations();
        if let Some(address) = server.address() {
            tracing::info!("tables are ready at {address}");
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new()
            .name("tables".into())
            .spawn(move || {
                let served = server.run(async {
                    let _ = stopped.await;
                });
                if let Err(error) = served {
                    // The relay goes on: its members are not to suffer from the tables.
                    tracing::error!(error = chain(&error), "the tables are served no more");
                }
            })
            .map_err(|error| Failure::io("no thread for the tables", &error))?;
        let asked = Asked {
            tables: Arc::clone(&tables),
            observations: observations.clone(),
        };
        Ok(Some(Self {
            control: asked.listen(&folder),
            stop,
            thread,
            tables,
            metrics,
            observations,
        }))
    }

    /// Returns what requests cost, if that is measured.
    pub(crate) fn observations(&self) -> Option<Observations> {
        self.observations.clone()
    }

    /// Returns the tables by their names, for plugins.
    pub(crate) fn by_name(&self) -> BTreeMap<String, Arc<dyn Table>> {
        let named = self.tables.iter();
        named
            .map(|(named, table)| (named.name.clone(), Arc::clone(table)))
            .collect()
    }

    /// Returns what asks for the figures.
    pub(crate) fn gauges(&self) -> impl Fn() -> Vec<Gauge> + Send + Sync + use<> {
        let metrics = self.metrics.clone();
        move || {
            let sum = |counts: &[Count]| counts.iter().map(|count| metrics.get(*count)).sum();
            let gauge = |name, help, value: u64| Gauge {
                name,
                help,
                value: value as f64,
            };
            vec![
                gauge(
                    "tables_connections",
                    "Connections of the tables' clients.",
                    metrics.connections(),
                ),
                gauge(
                    "tables_reads",
                    "Keys that the tables' clients asked for.",
                    sum(&[Count::Get, Count::TyrantGet]),
                ),
                gauge(
                    "tables_writes",
                    "Values that the tables' clients sent.",
                    sum(&[Count::Set, Count::TyrantPut]),
                ),
                gauge(
                    "tables_refused",
                    "Requests of the tables' clients that were refused.",
                    metrics.get(Count::Refused),
                ),
                gauge(
                    "tables_received_bytes",
                    "Bytes that the tables' clients sent.",
                    metrics.get(Count::BytesRead),
                ),
                gauge(
                    "tables_sent_bytes",
                    "Bytes that were sent to the tables' clients.",
                    metrics.get(Count::BytesWritten),
                ),
            ]
        }
    }

    /// Answers what was asked, and closes the tables.
    pub(crate) fn stop(self) {
        if let Some(control) = self.control {
            control.stop();
        }
        // It may have stopped by itself.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("serving the tables has failed");
        }
        if let Some(Err(error)) = Arc::into_inner(self.tables).map(Tables::close) {
            tracing::warn!(%error, "the tables are left as they are");
        }
    }
}
