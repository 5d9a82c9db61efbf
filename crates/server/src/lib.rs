//! Workers, WebSocket and HTTP, metrics.
//!
//! A [`Server`] serves a relay from an [`EventStore`](hikyaku_store::EventStore). It starts one
//! worker per core: a thread with one loop, which accepts connections of its own and owns their
//! sessions, its part of the live-subscription index, a reader of the store and a signature
//! verifier. Workers share nothing that needs a lock; what all must see (commits, ephemeral events)
//! comes to each by a feed. Beside them, on the thread that calls [`Server::run`], the metrics are
//! served and expired events swept.
//!
//! This is where sockets, the clock, randomness and the async runtime are: nothing below has them.

/// The samples in the document on HTTP.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/http.md")]
pub struct HttpDocument;

mod access_log;
mod address;
mod arrivals;
mod bans;
mod bound;
mod clock;
mod condition;
mod config;
mod connection;
mod entrance;
mod feed;
mod http;
mod metrics;
mod neighbours;
mod phase;
mod plugin;
#[cfg(feature = "postgres")]
pub mod postgres;
mod rates;
mod recorder;
mod requests;
mod server;
mod sessions;
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tls;
pub mod websocket;
mod worker;

pub use access_log::{AccessLog, AccessLogFormat};
pub use address::{AddressRange, AddressRangeError};
pub use arrivals::RecentClients;
pub use bans::{Banned, BannedError, BannedKeys, Bans};
pub use bound::BoundServer;
pub use condition::Watch;
pub use config::ServerConfig;
pub use http::{
    Body, BodyError, ClientAddress, Cors, EntityTag, Html, IntoResponse, Json, Problem, Request,
    Response, Route, Service, Session, Versioned, current_request, delete, get, patch, post, put,
};
pub use metrics::{Gauge, Gauges, Metrics};
pub use plugin::{
    Among, Client, CommandError, Counter, Has, Last, Level, NoPlugins, PluginError, PluginList,
    QueryVerdict, Verdict, With, Worker, blocking, work_done,
};
pub use rates::Rates;
pub use server::{Server, ServerError};
pub use sessions::{SessionError, SessionKeeper, SessionOptions, Sessions, WhoseSessions};
pub use tls::{Tls, TlsError};
