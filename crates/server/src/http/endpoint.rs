//! One connection while it speaks HTTP.

use std::{cell::Cell, convert::Infallible, future::ready, net::IpAddr, sync::Arc};

use http::{Request, StatusCode};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use super::site::{Answer, Site, text};
use crate::{
    ServerConfig,
    address::{AddressCounts, AddressPermit, forwarded_client},
};

/// Bytes of a request's head. hyper takes no less than 8 kB.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Browsers behind proxies send some thirty.
const HEADERS_MAX: usize = 64;

/// A connection that has become a WebSocket; nothing of HTTP is left.
#[derive(Debug)]
pub(crate) struct Upgraded {
    pub(crate) stream: TcpStream,
    /// What the client has sent already. A copy: the bytes themselves would keep hyper's whole
    /// buffer alive.
    pub(crate) received: Vec<u8>,
    /// The client, as far as we can know.
    pub(crate) client: IpAddr,
    pub(crate) permit: Option<AddressPermit>,
}

/// Speaks HTTP until the client upgrades (or goes away, or takes too long: `None`).
pub(crate) async fn serve(
    stream: TcpStream,
    peer: IpAddr,
    permit: Option<AddressPermit>,
    site: &Site,
    counts: &Arc<AddressCounts>,
    config: &ServerConfig,
) -> Option<Upgraded> {
    let permit = Cell::new(permit);
    let upgraded = Cell::new(None);
    let service = service_fn(|request: Request<Incoming>| {
        let response = match site.answer(&request) {
            Answer::Respond(response) => response,
            Answer::Upgrade(response) => match admit(&request, peer, &permit, counts, config) {
                Some(client) => {
                    upgraded.set(Some(client));
                    response
                }
                None => text(
                    StatusCode::TOO_MANY_REQUESTS,
                    "too many connections from your address\n",
                ),
            },
        };
        ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(config.header_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .without_shutdown();
    let parts = tokio::time::timeout(config.http_timeout, connection)
        .await
        .ok()?
        .inspect_err(|error| tracing::debug!(%peer, %error, "http connection failed"))
        .ok()?;
    Some(Upgraded {
        client: upgraded.get()?,
        stream: parts.io.into_inner(),
        received: parts.read_buf.to_vec(),
        permit: permit.take(),
    })
}

/// Finds out who the client is, and counts its connection. Where the peer itself is the client it
/// has been counted before it said anything.
fn admit<B>(
    request: &Request<B>,
    peer: IpAddr,
    permit: &Cell<Option<AddressPermit>>,
    counts: &Arc<AddressCounts>,
    config: &ServerConfig,
) -> Option<IpAddr> {
    if !config
        .trusted_proxies
        .iter()
        .any(|range| range.contains(peer))
    {
        return Some(peer);
    }
    let forwarded = request.headers().get_all("x-forwarded-for");
    let client = forwarded_client(
        peer,
        &config.trusted_proxies,
        forwarded
            .iter()
            .map(|value| value.to_str().unwrap_or_default()),
    );
    permit.set(Some(counts.enter(client)?));
    Some(client)
}
