//! Making a connection, with what every one of ours is set to.

use std::{str::FromStr, sync::Arc};

use tokio::{runtime::Handle, sync::oneshot};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, config::SslMode};

use super::Session;
use crate::{Options, PostgresError, meters::Meters, schema::SchemaName};

/// The planner is told what to do, and not asked: each statement has the shape of one index, and the
/// store has chosen which. Generic plans then are the right ones for all values, are made once per
/// connection, and no estimate of a skewed tag can turn one into a scan or a sort of everything.
const PLANNER: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off \
    -c enable_bitmapscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c enable_memoize=off \
    -c jit=off -c max_parallel_workers_per_gather=0 -c client_min_messages=warning \
    -c idle_in_transaction_session_timeout=30000";

/// Makes connections to one database.
#[derive(Clone)]
pub(crate) struct Connector {
    config: Arc<Config>,
    pub(crate) schema: SchemaName,
    /// Where connections are driven.
    runtime: Handle,
    pub(crate) meters: Arc<Meters>,
}

impl Connector {
    pub(crate) fn new(options: &Options, runtime: Handle) -> Result<Self, PostgresError> {
        let refused = |text: String| PostgresError::Refused(text);
        let schema = SchemaName::new(&options.schema)?;
        let mut config = Config::from_str(&options.url).map_err(|error| {
            let cause = std::error::Error::source(&error);
            let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
            refused(format!("the database's address is not one{cause}"))
        })?;
        if config.get_ssl_mode() == SslMode::Require {
            return Err(refused(
                "sslmode=require: this program speaks to PostgreSQL without TLS; use a Unix socket, \
                 a private network, or a tunnel that encrypts"
                    .to_owned(),
            ));
        }
        // Lest a server that offers TLS is asked for it.
        config.ssl_mode(SslMode::Disable);
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
            config.application_name("hikyaku");
        }
        Ok(Self {
            config: Arc::new(config),
            schema,
            runtime,
            meters: Arc::default(),
        })
    }

    /// Makes a connection; waits on any thread.
    pub(crate) async fn connect(&self) -> Result<Arc<Session>, PostgresError> {
        self.connect_and_hear(|_| {}).await
    }

    /// Makes a connection whose notifications go to `hear`.
    pub(crate) async fn connect_and_hear(
        &self,
        mut hear: impl FnMut(AsyncMessage) + Send + 'static,
    ) -> Result<Arc<Session>, PostgresError> {
        let (reply, made) = oneshot::channel::<Result<Client, PostgresError>>();
        let config = Arc::clone(&self.config);
        self.runtime.spawn(async move {
            let (client, mut connection) = match config.connect(NoTls).await {
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
        });
        let stopped = || PostgresError::Unavailable("the store is closed".to_owned());
        let client = made.await.map_err(|_| stopped())??;
        Ok(Arc::new(Session::new(
            client,
            self.schema.clone(),
            Arc::clone(&self.meters),
        )))
    }
}
