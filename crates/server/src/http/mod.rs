//! HTTP: the relay's own endpoint (the WebSocket upgrade, the information document of NIP-11, a page
//! for browsers), and the routes of plugins.

mod body;
mod cors;
mod endpoint;
mod form;
mod gzip;
mod login;
mod mount;
mod negotiation;
mod owed;
mod paced;
mod page;
mod patience;
mod problem;
mod recorded;
mod request;
mod request_id;
mod response;
mod route;
mod session;
mod signed;
mod site;
mod validators;

pub use body::{Body, BodyError};
pub use cors::Cors;
pub(crate) use endpoint::serve;
pub(crate) use login::with_login;
pub(crate) use mount::call_service;
pub use mount::{ClientAddress, Service};
pub(crate) use patience::BorneConnections;
pub use problem::Problem;
pub(crate) use recorded::Record;
pub use request::Request;
pub use request_id::current_request;
pub(crate) use request_id::{RequestIds, carried};
pub use response::{Html, IntoResponse, Json, Response};
pub(crate) use route::RouteTable;
pub use route::{Route, delete, get, patch, post, put};
pub use session::Session;
pub(crate) use signed::SignedOnce;
pub(crate) use site::Site;
pub use validators::{EntityTag, Versioned};
