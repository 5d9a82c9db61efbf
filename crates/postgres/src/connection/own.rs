//! Connections with a thread of their own, for who asks a little and has no store open.

use tokio::runtime::{Builder, Runtime};

use super::{Connector, Session};
use crate::{Options, PostgresError};

/// A way to a database, and the thread that drives it.
pub(crate) struct OwnThread {
    pub(crate) connector: Connector,
    pub(crate) runtime: Runtime,
}

impl OwnThread {
    /// Starts the thread; connects to nothing yet.
    pub(crate) fn start(options: &Options) -> Result<Self, PostgresError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| {
                PostgresError::Unavailable(format!("can't start a thread for it: {error}"))
            })?;
        let connector = Connector::new(options, runtime.handle().clone())?;
        Ok(Self { connector, runtime })
    }

    /// Acts on a new connection, and waits for the end of it.
    pub(crate) fn with<T>(
        &self,
        act: impl AsyncFnOnce(&Session) -> Result<T, PostgresError>,
    ) -> Result<T, PostgresError> {
        self.runtime.block_on(async {
            let session = self.connector.connect().await?;
            act(&session).await
        })
    }
}
