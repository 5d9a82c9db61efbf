//! no plugin `_` is registered on this server
use hikyaku_server::{PluginList, Request, Server, get};

struct Policy;

pub fn server(server: Server) -> Server<impl PluginList> {
    server
        .route(get("/"), async |_: &Policy, _: Request| "")
        .plugin(async |_| Ok(Policy))
}
