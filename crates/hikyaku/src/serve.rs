//! `serve`: opens the store, binds, says that it is ready, and closes in order.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Weak, mpsc},
};

use hikyaku_engine::Engine;
use hikyaku_members::Members;
use hikyaku_policies::{Policies, PolicyConfig, RelayKey};
use hikyaku_postgres::{BackfillState, PostgresMeters};
use hikyaku_relay::RelayUrls;
use hikyaku_server::{
    AccessLog, BoundServer, CommandError, Cors, Gauge, Gauges, PluginList, Server, ServerError,
    Worker, delete, get, post, put,
};
use hikyaku_tables::Table;
use hikyaku_vfs::{RealDisk, Vfs};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::{
    access_log,
    bans::KeptBans,
    certificate::KeptCertificate,
    configuration::{LogFormat, Settings},
    control::{self, ControlServer},
    failure::{Failure, chain},
    footprints::FootprintsPage,
    members,
    opened::Opened,
    operations::Host,
    policies, relay_key,
    sessions::KeptSessions,
    signals, store,
    tables::ServedTables,
    waiting::wait,
};

/// Serves until a signal comes, with what plugins add.
pub(crate) fn serve<Plugins: PluginList>(
    mut settings: Settings,
    extend: impl FnOnce(Server) -> Server<Plugins>,
) -> Result<(), Failure> {
    let stop = signals::first().map_err(|error| Failure::io("can't listen to signals", &error))?;
    allow_connections();
    let certificate = KeptCertificate::open(&settings.certificate)?;
    settings.server.cors = cors(&settings.cors_origins);
    settings.server.tls = certificate.as_ref().map(|kept| kept.tls.clone());
    RealDisk
        .create_dir_all(&settings.data)
        .map_err(|error| Failure::io(&format!("can't make {}", settings.data.display()), &error))?;
    let opened = store::open_to_serve(&settings)?;
    let key = relay_key::of(&settings, &RealDisk)?;
    settings.server.information.self_key = Some(key.public());
    let kept = members::open(&settings)?;
    let members = kept.as_ref().map(|kept| kept.members.clone());
    let tables = ServedTables::start(&settings)?;
    settings.server.gauges = Some(gauges(&opened, members.as_ref(), tables.as_ref()));
    settings.server.members.clone_from(&members);
    settings.server.tables = tables
        .as_ref()
        .map(ServedTables::by_name)
        .unwrap_or_default();
    let access_log = access_log::start(&settings.access_log)?;
    settings.server.access_log.clone_from(&access_log);
    let data = settings.data.clone();
    let public_url = settings.server.public_url.clone();
    let scheme = if certificate.is_some() { "wss" } else { "ws" };
    let sessions = settings.sessions.enabled.then(|| {
        let options = settings.sessions.options.clone();
        KeptSessions::open(&data, &opened, options)
    });
    let sessions = sessions.transpose()?;
    settings.server.sessions = sessions.as_ref().map(|kept| kept.sessions.clone());
    let server = extend(Server::new(settings.server, opened.events()));
    let first_tries = policies::first_tries(&data, &settings.policies)?;
    let server = bind(server, settings.policies, key, first_tries)?;
    let bans = KeptBans::open(&data, &opened, server.bans())?;
    let followed = sessions.as_ref().map_or(Ok(()), KeptSessions::follow);
    bans.follow()
        .and(followed)
        .map_err(|error| Failure::io("can't start a thread", &error))?;
    let host = Host {
        bans: Some(bans),
        sessions,
        store: opened,
        members,
        watch: Some(server.watch()),
        tables: tables.as_ref().and_then(ServedTables::observations),
        urls: match public_url {
            Some(url) => {
                RelayUrls::public(&url).map_err(|error| Failure::Usage(error.to_string()))?
            }
            None if certificate.is_some() => RelayUrls::listening_with_tls(server.address()),
            None => RelayUrls::listening(server.address()),
        },
    };
    hear_hang_ups(certificate, access_log.clone())
        .map_err(|error| Failure::io("can't listen to signals", &error))?;
    // A relay that commands can't reach is still a relay.
    let control = ControlServer::start(control::socket(&settings.data), host.clone())
        .inspect_err(|error| tracing::warn!(%error, "commands can't reach this server"))
        .ok();
    if let Some(address) = server.metrics_address() {
        tracing::info!("metrics at http://{address}/metrics");
    }
    say_ready(server.address(), scheme, settings.log_format);
    let served = server.run(stop).map_err(|error| failure(&error));
    if let Some(log) = access_log {
        log.close();
    }
    if let Some(control) = control {
        control.stop();
    }
    drop(host.watch);
    if let Some(tables) = tables {
        tables.stop();
    }
    drop(host.members);
    if let Some(bans) = host.bans {
        bans.close();
    }
    if let Some(sessions) = host.sessions {
        sessions.close();
    }
    if let Some(kept) = kept {
        kept.close();
    }
    host.store.close();
    served
}

/// Returns which pages may use plugins' routes.
fn cors(origins: &[String]) -> Option<Cors> {
    if origins.iter().any(|origin| origin == "*") {
        return Some(Cors::any());
    }
    (!origins.is_empty()).then(|| Cors::origins(origins.iter().cloned()))
}

/// Carries a plugin's command out: its name, and its arguments.
pub(crate) fn carry_out<Plugins: PluginList>(
    settings: Settings,
    extend: impl FnOnce(Server) -> Server<Plugins>,
    arguments: &[String],
) -> Result<(), Failure> {
    let opened = store::open_to_serve(&settings)?;
    let server = extend(Server::new(settings.server, opened.events()));
    let (name, rest) = arguments
        .split_first()
        .ok_or_else(|| Failure::Usage("no command is named".to_owned()))?;
    let carried_out = server.run_command(name, rest.to_vec());
    opened.close();
    carried_out.map_err(|error| match error {
        CommandError::Usage(text) => Failure::Usage(text),
        CommandError::Server(error) => failure(&error),
        error @ CommandError::Failed { .. } => Failure::Failed(chain(&error)),
    })
}

/// Binds the server, with the policies if there are any.
fn bind<Plugins: PluginList>(
    server: Server<Plugins>,
    config: PolicyConfig,
    key: RelayKey,
    first_tries: Option<Arc<dyn Table>>,
) -> Result<BoundServer, Failure> {
    let server = server
        .plugin(async |worker: Worker| Ok(FootprintsPage::on_worker(&worker)))
        .route(get("/footprints"), FootprintsPage::show)
        .route(put("/footprints"), FootprintsPage::turn_on)
        .route(delete("/footprints"), FootprintsPage::turn_off)
        .route(post("/footprints/{key}"), FootprintsPage::leave);
    let bound = if config.is_empty() {
        server.bind()
    } else {
        let mut policies = Policies::new(config.clone())
            .map_err(|error| Failure::io("the policies can't be kept", &error))?
            .with_relay_key(key);
        if let Some(table) = first_tries {
            policies = policies.with_first_tries(table);
        }
        let decides_queries = config.decides_queries();
        let server = server
            .information(move |document| config.describe(document))
            .plugin(|worker| policies.on_worker(worker))
            .on_event(Policies::on_event)
            .task("policies", Policies::follow);
        if decides_queries {
            server.on_query(Policies::on_query).bind()
        } else {
            server.bind()
        }
    };
    bound.map_err(|error| failure(&error))
}

/// Has files read or opened again at every SIGHUP.
fn hear_hang_ups(
    certificate: Option<KeptCertificate>,
    access_log: Option<AccessLog>,
) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel();
    if let Some(certificate) = certificate {
        certificate.follow(receiver)?;
    }
    signals::at_hang_up(move || {
        // Without a certificate nobody listens.
        let _ = sender.send(());
        if let Some(log) = &access_log {
            log.reopen();
        }
    })
}

/// Says that clients can connect, whatever the log leaves out.
fn say_ready(address: SocketAddr, scheme: &str, format: LogFormat) {
    let message = format!("hikyaku is ready at {scheme}://{address}");
    match format {
        LogFormat::Text => eprintln!("{message}"),
        LogFormat::Json => eprintln!(
            "{}",
            json!({"level": "INFO", "target": "hikyaku", "fields": {"message": message}})
        ),
    }
}

fn failure(error: &ServerError) -> Failure {
    let text = chain(error);
    match error {
        ServerError::PublicUrl(_) => Failure::Usage(text),
        ServerError::Listen { .. } => Failure::Failed(format!(
            "{text}\nchoose another address with --listen, or stop the program that has it"
        )),
        _ => Failure::Failed(text),
    }
}

/// Each connection needs a descriptor; the usual soft limit of 1,024 is for programs that use
/// `select`.
pub(crate) fn allow_connections() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// Returns the store's figures for the metrics.
fn gauges(
    opened: &Opened,
    members: Option<&Arc<Members>>,
    tables: Option<&ServedTables>,
) -> Gauges {
    // Weak, lest the metrics keep them open.
    let store: Box<dyn Fn() -> Vec<Gauge> + Send + Sync> = match opened {
        Opened::Engine(engine) => {
            let engine = Arc::downgrade(engine);
            Box::new(move || store_gauges(&engine))
        }
        Opened::Postgres(store) => {
            let store = Arc::downgrade(store);
            Box::new(move || {
                let meters = store.upgrade().map(|store| store.meters());
                meters.map_or_else(Vec::new, |meters| postgres_gauges(&meters))
            })
        }
    };
    let members = members.map(Arc::downgrade);
    let tables = tables.map(ServedTables::gauges);
    Arc::new(move || {
        let mut gauges = store();
        if let Some(members) = members.as_ref().and_then(Weak::upgrade) {
            gauges.extend(members::gauges(&members));
        }
        gauges.extend(tables.iter().flat_map(|ask| ask()));
        gauges
    })
}

fn postgres_gauges(meters: &PostgresMeters) -> Vec<Gauge> {
    let gauge = |name, help, value| Gauge {
        name,
        help,
        value: value as f64,
    };
    let mut gauges = vec![
        gauge(
            "postgres_connections",
            "Open connections to the database.",
            meters.connections,
        ),
        gauge(
            "postgres_reads_under_way",
            "Reads that use a connection now.",
            meters.reads_under_way,
        ),
        gauge(
            "postgres_statements",
            "Statements sent since the start.",
            meters.statements,
        ),
        gauge(
            "postgres_batches",
            "Transactions with writes since the start.",
            meters.batches,
        ),
        gauge(
            "postgres_events_written",
            "Events stored by them.",
            meters.events_written,
        ),
        gauge(
            "postgres_write_failures",
            "Tries to write that failed since the start.",
            meters.failures,
        ),
        gauge(
            "postgres_feed_lag",
            "Commits of other nodes that subscribers here have not been told of.",
            meters.feed_lag,
        ),
    ];
    if let Some(backfill) = &meters.backfill {
        let running = backfill.state == BackfillState::Running;
        gauges.extend([
            gauge(
                "postgres_backfill_running",
                "1 while the index of tags is being filled.",
                u64::from(running),
            ),
            gauge(
                "postgres_backfill_done",
                "Events that the last backfill has looked at.",
                backfill.done,
            ),
            gauge(
                "postgres_backfill_total",
                "Events there were when it began, about.",
                backfill.total,
            ),
        ]);
    }
    gauges
}

fn store_gauges(engine: &Weak<Engine>) -> Vec<Gauge> {
    let Some(figures) = engine.upgrade().map(|engine| wait(engine.statistics())) else {
        return Vec::new();
    };
    let gauge = |name, help, value| Gauge {
        name,
        help,
        value: value as f64,
    };
    vec![
        gauge(
            "store_events",
            "Stored events, hidden and expired ones included.",
            figures.events,
        ),
        gauge(
            "store_removed_events",
            "Removed events that still take room in segments.",
            figures.removed,
        ),
        gauge("store_hidden_events", "Hidden events.", figures.hidden),
        gauge(
            "store_memory_events",
            "Events whose segment is not yet written.",
            figures.in_memory,
        ),
        gauge("store_segments", "Segment files.", figures.segments),
        gauge(
            "store_segment_bytes",
            "Bytes of segment files.",
            figures.segment_bytes,
        ),
        gauge(
            "store_log_bytes",
            "Bytes of closed log files.",
            figures.log_bytes,
        ),
        gauge(
            "store_waiting_flushes",
            "Closed log files that wait for their segment.",
            figures.waiting_flushes,
        ),
        gauge(
            "store_commits",
            "Commits since the start.",
            figures.writer.commits,
        ),
        gauge(
            "store_merges",
            "Merges since the start.",
            figures.writer.merges,
        ),
        gauge(
            "store_stopped",
            "1 if the store refuses writes.",
            u64::from(figures.stopped.is_some()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use hikyaku_server::{Request, ServerConfig};
    use hikyaku_store::testing::NaiveStore;

    use super::*;

    #[test]
    fn a_plugins_route_that_is_the_programs_own_is_refused_with_the_names_of_both() {
        struct Guestbook;
        let config = ServerConfig::new(([127, 0, 0, 1], 0).into());
        let server = Server::new(config, Arc::new(NaiveStore::new()))
            .plugin(async |_| Ok(Guestbook))
            .route(get("/footprints"), async |_: &Guestbook, _: Request| "");
        let key = RelayKey::new([1; 32]).unwrap();
        let refused = bind(server, PolicyConfig::default(), key, None).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the route GET /footprints can't be served: both Guestbook and FootprintsPage answer it"
        );
    }
}
