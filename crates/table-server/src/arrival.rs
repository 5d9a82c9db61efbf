//! Where connections come in: accepted, counted, and given to the worker that has the fewest.

use std::{io, rc::Rc, time::Duration};

use tokio::{
    net::{TcpListener, UnixListener},
    sync::mpsc,
};

use crate::{
    connection::Connection,
    metrics::Count,
    socket::{Parcel, Stream},
    worker::{ConnectionPermit, Worker},
};

/// How long to wait after a failure to accept that will not pass at once (no descriptors left).
const PAUSE: Duration = Duration::from_millis(100);

/// What a client hears that is one too many; memcached's own words.
const REFUSAL: &[u8] = b"ERROR Too many open connections\r\n";

/// A connection that one worker has accepted for another.
#[derive(Debug)]
pub(crate) struct Arrival {
    stream: Parcel,
    permit: ConnectionPermit,
}

/// What a worker listens on.
pub(crate) struct Listeners {
    pub(crate) tcp: Option<TcpListener>,
    pub(crate) unix: Option<UnixListener>,
}

impl Listeners {
    async fn accept(&self) -> io::Result<Stream> {
        let tcp = async {
            match &self.tcp {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        let unix = async {
            match &self.unix {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = tcp => {
                let (stream, _) = accepted?;
                // Answers are gathered before they are written: there is nothing to wait for.
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            accepted = unix => Ok(Stream::Unix(accepted?.0)),
        }
    }
}

/// Accepts connections, and takes those that others have accepted for this worker; never returns.
pub(crate) async fn receive(
    worker: Rc<Worker>,
    listeners: Listeners,
    mut arrivals: mpsc::UnboundedReceiver<Arrival>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listeners.accept() => accepted,
            Some(Arrival { stream, permit }) = arrivals.recv() => {
                match Stream::unpack(stream) {
                    Ok(stream) => serve(&worker, stream, permit),
                    Err(error) => tracing::warn!(%error, "connection not taken over"),
                }
                continue;
            }
        };
        match accepted {
            Ok(stream) => admit(&worker, stream),
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Tells errors of the connection that was to be accepted from those of accepting.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::NotConnected
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::Interrupted
    )
}

/// Counts the connection and serves it, hands it over, or refuses it.
fn admit(worker: &Rc<Worker>, stream: Stream) {
    let Some(permit) = worker.shared.admit(worker.index) else {
        worker.counts.add(Count::ConnectionsRefused, 1);
        // A courtesy: whether it arrives is not our concern.
        let _ = stream.try_write(REFUSAL);
        return;
    };
    if permit.worker == worker.index {
        serve(worker, stream, permit);
        return;
    }
    match (stream.pack(), worker.shared.entrances.get(permit.worker)) {
        (Ok(stream), Some(entrance)) => {
            // A worker that has stopped takes the server with it.
            let _ = entrance.send(Arrival { stream, permit });
        }
        (Err(error), _) => tracing::warn!(%error, "connection not handed over"),
        (_, None) => {}
    }
}

fn serve(worker: &Rc<Worker>, stream: Stream, permit: ConnectionPermit) {
    let presence = worker.enter(permit);
    let connection = Connection::new(worker, stream, presence);
    tokio::task::spawn_local(connection.run(Rc::clone(worker)));
}
