//! Where connections come in: accepted, counted, spoken to in HTTP, and served as WebSockets.

use std::{io, net::IpAddr, rc::Rc, sync::Arc, time::Duration};

use hikyaku_relay::Session;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use crate::{
    address::AddressPermit,
    connection::Connection,
    http,
    metrics::Count,
    stream::Stream,
    worker::{ConnectionPermit, Shared, Worker},
};

/// How long to wait after a failure to accept that will not pass at once (no descriptors left).
const PAUSE: Duration = Duration::from_millis(100);

/// What a client hears that is one too many.
const REFUSAL: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\
    connection: close\r\nretry-after: 60\r\n\r\n";

/// A connection that one worker has accepted for another.
pub(crate) struct Arrival {
    stream: std::net::TcpStream,
    peer: IpAddr,
    permits: Permits,
}

type Permits = (ConnectionPermit, Option<AddressPermit>);

/// Accepts connections, and takes those that others have accepted for this worker; never returns.
pub(crate) async fn receive(
    worker: Rc<Worker>,
    listener: TcpListener,
    mut arrivals: mpsc::UnboundedReceiver<Arrival>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(arrival) = arrivals.recv() => {
                take_over(&worker, arrival);
                continue;
            }
        };
        match accepted {
            Ok((stream, peer)) => admit(&worker, stream, peer.ip()),
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
            | io::ErrorKind::Interrupted
    )
}

/// Counts a connection that came to a worker, unless there are too many. A trusted proxy's count for
/// the clients it speaks for, which are known only when it has named them.
fn permit(shared: &Arc<Shared>, worker: usize, peer: IpAddr) -> Option<Permits> {
    let proxies = &shared.config.trusted_proxies;
    let connection = shared.admit(worker)?;
    if proxies.iter().any(|range| range.contains(peer)) {
        return Some((connection, None));
    }
    Some((connection, Some(shared.addresses.enter(peer)?)))
}

/// Counts the connection and serves it, hands it over, or refuses it.
fn admit(worker: &Rc<Worker>, stream: TcpStream, peer: IpAddr) {
    let shared = &worker.shared;
    let Some(permits) = permit(shared, worker.index, peer) else {
        worker.metrics.add(Count::ConnectionsRefused, 1);
        // A courtesy: whether it arrives is not our concern.
        let _ = stream.try_write(REFUSAL);
        return;
    };
    if permits.0.worker == worker.index {
        tokio::task::spawn_local(serve(Rc::clone(worker), stream, peer, permits));
        return;
    }
    match stream.into_std() {
        Ok(stream) => hand_over(shared, stream, peer, permits),
        Err(error) => tracing::warn!(%peer, %error, "connection not handed over"),
    }
}

/// Counts a connection that came to a worker which can't take it now, and hands it to another.
pub(crate) fn redirect(
    shared: &Arc<Shared>,
    worker: usize,
    mut stream: std::net::TcpStream,
    peer: IpAddr,
) {
    if let Err(error) = stream.set_nonblocking(true) {
        tracing::warn!(%peer, %error, "connection not handed over");
        return;
    }
    match permit(shared, worker, peer) {
        Some(permits) => hand_over(shared, stream, peer, permits),
        None => {
            let _ = io::Write::write(&mut stream, REFUSAL);
        }
    }
}

/// Gives a connection to the worker that is to have it.
fn hand_over(shared: &Shared, stream: std::net::TcpStream, peer: IpAddr, permits: Permits) {
    if let Some(entrance) = shared.entrances.get(permits.0.worker) {
        // A worker that has stopped takes the server with it.
        let _ = entrance.send(Arrival {
            stream,
            peer,
            permits,
        });
    }
}

/// Serves a connection that another worker has accepted.
fn take_over(worker: &Rc<Worker>, arrival: Arrival) {
    let Arrival {
        stream,
        peer,
        permits,
    } = arrival;
    match TcpStream::from_std(stream) {
        Ok(stream) => {
            tokio::task::spawn_local(serve(Rc::clone(worker), stream, peer, permits));
        }
        Err(error) => tracing::warn!(%peer, %error, "connection not taken over"),
    }
}

async fn serve(worker: Rc<Worker>, stream: TcpStream, peer: IpAddr, (permit, address): Permits) {
    // Boxed, so that what HTTP needed is gone while the WebSocket lasts.
    let upgraded = {
        let _speaking = worker.http_connection();
        let Some(stream) = encrypted(&worker, stream).await else {
            return;
        };
        Box::pin(http::serve(&worker, stream, peer, address)).await
    };
    let Some(upgraded) = upgraded else {
        return;
    };
    let Some(challenge) = challenge() else {
        return;
    };
    let id = worker.next_connection();
    tracing::debug!(connection = id, client = %upgraded.client, "connected");
    let shared = &worker.shared;
    let who = worker.plugins.hooks.client(
        upgraded.client,
        shared.number_of(worker.index, id),
        &shared.relay,
    );
    let session = Session::new(worker.shared.relay.clone(), challenge);
    let permits = (permit, upgraded.permit);
    let connection = Rc::new(Connection::new(
        &worker,
        id,
        worker.shared.rates.enter(upgraded.client),
        who,
        session,
        upgraded.stream,
        permits,
    ));
    let presence = Presence::new(worker, id, connection, upgraded.record);
    presence.connection.enforce_bans(&presence.worker);
    presence
        .connection
        .run(&presence.worker, upgraded.received)
        .await;
}

/// Does the handshake, where there is one to be done; `None` if it failed.
async fn encrypted(worker: &Worker, stream: TcpStream) -> Option<Stream> {
    let config = &worker.shared.config;
    let Some(tls) = &config.tls else {
        return Some(Stream::Plain(stream));
    };
    let mut phase = worker.phase();
    let accepted = Box::pin(tls.accept(stream, config.header_timeout));
    tokio::select! {
        accepted = accepted => accepted,
        () = phase.begin_to_drain() => None,
    }
}

/// A connection that the worker knows, until this is dropped: at its end, or by a panic in it.
struct Presence {
    worker: Rc<Worker>,
    id: u64,
    connection: Rc<Connection>,
    record: Option<http::Record>,
}

impl Presence {
    fn new(
        worker: Rc<Worker>,
        id: u64,
        connection: Rc<Connection>,
        record: Option<http::Record>,
    ) -> Self {
        worker.insert(id, Rc::clone(&connection));
        worker.metrics.add(Count::ConnectionsOpened, 1);
        Self {
            worker,
            id,
            connection,
            record,
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some(record) = &mut self.record {
            record.sent(self.connection.bytes_sent());
        }
        self.connection.abandon(&self.worker);
        self.worker.remove(self.id);
        self.worker.metrics.add(Count::ConnectionsClosed, 1);
        tracing::debug!(connection = self.id, "disconnected");
    }
}

/// Makes what a client must sign to show who it is (NIP-42).
fn challenge() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .inspect_err(|error| tracing::error!(%error, "no randomness"))
        .ok()?;
    Some(data_encoding::HEXLOWER.encode(&bytes))
}
