//! Leases: what one node at a time may do. Each is an advisory lock of a connection of its own, so that
//! a node that ends, however it ends, gives it up, and one that waits has it at once.

use std::{sync::Arc, time::Duration};

use hikyaku_store::{Lease, StoreError};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use crate::{
    connection::{Connector, Session, lock_key},
    schema::SchemaName,
};

/// How often the holder looks whether it still is, and how long it believes so without an answer.
const LOOK: Duration = Duration::from_secs(3);
/// Waiting for a lease is no slow statement; and a holder whose machine is gone is found out by the
/// server later than by itself, also while an answer to it is under way (`tcp_user_timeout`).
const SETTINGS: &str = "SET statement_timeout = 0; SET lock_timeout = 0; \
    SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 2; \
    SET tcp_user_timeout = 20000";

/// Waits for a lease. It ends when the connection does, and with what is returned.
pub(crate) async fn lease(
    connector: Connector,
    schema: SchemaName,
    name: String,
) -> Result<Lease, StoreError> {
    let session = connector.connect().await?;
    session
        .client
        .batch_execute(SETTINGS)
        .await
        .map_err(crate::PostgresError::from)?;
    let key = lock_key(&schema, &format!("lease:{name}"));
    session.rows("SELECT pg_advisory_lock($1)", &[&key]).await?;
    let (lost, held) = oneshot::channel();
    connector.spawn(watch(session, lost));
    Ok(Box::pin(async move {
        // However the watch ends, nobody knows any more that this node is the one.
        let _ = held.await;
    }))
}

/// Holds the connection until it is lost, or nobody wants it any more.
async fn watch(session: Arc<Session>, mut lost: oneshot::Sender<()>) {
    loop {
        tokio::select! {
            () = lost.closed() => return,
            () = sleep(LOOK) => {}
        }
        let look = session.rows("SELECT 1", &[]);
        if !matches!(timeout(LOOK, look).await, Ok(Ok(_))) {
            // Its holder may have stopped waiting meanwhile.
            let _ = lost.send(());
            return;
        }
    }
}
