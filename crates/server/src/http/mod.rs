//! HTTP on the relay's one endpoint: the WebSocket upgrade, the information document (NIP-11), and
//! a page for browsers.

mod endpoint;
mod page;
mod site;

pub(crate) use endpoint::serve;
pub(crate) use site::Site;
