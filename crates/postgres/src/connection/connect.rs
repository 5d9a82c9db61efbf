//! Making a connection, with what every one of ours is set to.

use std::sync::Arc;

use hikyaku_address::Address;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::Handle,
    sync::oneshot,
};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Session;
use crate::{Options, PostgresError, meters::Meters, schema::SchemaName};

/// The planner is told what to do, and not asked: each statement has the shape of one index, and the
/// store has chosen which. Generic plans then are the right ones for all values, are made once per
/// connection, and no estimate of a skewed tag can turn one into a scan or a sort of everything.
const PLANNER: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off \
    -c enable_bitmapscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c enable_memoize=off \
    -c jit=off -c max_parallel_workers_per_gather=0 -c client_min_messages=warning \
    -c idle_in_transaction_session_timeout=30000";

/// What connections are called in `pg_stat_activity`, unless the address says something else.
const NAME: &str = "hikyaku";

/// Makes connections to one database.
#[derive(Clone)]
pub(crate) struct Connector {
    config: Arc<Config>,
    tls: Option<MakeRustlsConnect>,
    pub(crate) schema: SchemaName,
    /// Where connections are driven.
    runtime: Handle,
    pub(crate) meters: Arc<Meters>,
}

impl Connector {
    pub(crate) fn new(options: &Options, runtime: Handle) -> Result<Self, PostgresError> {
        Self::to(&options.url, options, runtime)
    }

    /// Makes connections to another server than the one that is written to.
    pub(crate) fn to(url: &str, options: &Options, runtime: Handle) -> Result<Self, PostgresError> {
        let schema = SchemaName::new(&options.schema)?;
        let Address { mut config, tls } = url.parse()?;
        let given = config.get_options().unwrap_or_default().to_owned();
        let timeouts = format!(
            "-c statement_timeout={} -c lock_timeout={}",
            options.statement_timeout.as_millis(),
            options.lock_timeout.as_millis()
        );
        config
            .options(format!("{PLANNER} {timeouts} {given}"))
            .connect_timeout(options.connect_timeout)
            .tcp_user_timeout(options.statement_timeout)
            .keepalives_idle(options.statement_timeout);
        if config.get_application_name().is_none() {
            config.application_name(NAME);
        }
        Ok(Self {
            config: Arc::new(config),
            tls,
            schema,
            runtime,
            meters: Arc::default(),
        })
    }

    /// Adds to the name of the connections made from now on. The server keeps 63 bytes of it.
    pub(crate) fn call(&mut self, addition: &str) {
        let mut config = Config::clone(&self.config);
        let name = config.get_application_name().unwrap_or(NAME);
        let kept = name.floor_char_boundary(62_usize.saturating_sub(addition.len()));
        let name = format!("{} {addition}", name.get(..kept).unwrap_or_default());
        config.application_name(name);
        self.config = Arc::new(config);
    }

    /// Runs a task where the connections are driven.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Makes a connection; waits on any thread.
    pub(crate) async fn connect(&self) -> Result<Arc<Session>, PostgresError> {
        self.connect_and_hear(|_| {}).await
    }

    /// Makes a connection whose notifications go to `hear`.
    pub(crate) async fn connect_and_hear(
        &self,
        hear: impl FnMut(AsyncMessage) + Send + 'static,
    ) -> Result<Arc<Session>, PostgresError> {
        let (reply, made) = oneshot::channel::<Result<Client, PostgresError>>();
        let (config, tls) = (Arc::clone(&self.config), self.tls.clone());
        self.runtime.spawn(async move {
            match tls {
                Some(tls) => drive(config.connect(tls).await, reply, hear).await,
                None => drive(config.connect(NoTls).await, reply, hear).await,
            }
        });
        let stopped = || PostgresError::Unavailable("the store is closed".to_owned());
        let client = made.await.map_err(|_| stopped())??;
        Ok(Arc::new(Session::new(
            client,
            self.schema.clone(),
            self.runtime.clone(),
            Arc::clone(&self.meters),
        )))
    }
}

/// Hands out what is to be used of a connection, and drives it to its end.
async fn drive<S: AsyncRead + AsyncWrite + Unpin>(
    made: Result<(Client, Connection<Socket, S>), tokio_postgres::Error>,
    reply: oneshot::Sender<Result<Client, PostgresError>>,
    mut hear: impl FnMut(AsyncMessage),
) {
    let (client, mut connection) = match made {
        Ok(made) => made,
        Err(error) => {
            // Who no longer waits needs no answer.
            let _ = reply.send(Err(error.into()));
            return;
        }
    };
    if reply.send(Ok(client)).is_err() {
        return;
    }
    loop {
        match std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(message)) => hear(message),
            Some(Err(error)) => {
                let error = PostgresError::from(error);
                tracing::debug!(%error, "a connection to the database has ended");
                break;
            }
            None => break,
        }
    }
}
