//! found function signature `fn((&Other, hikyaku_server::Request)) -> _`
use hikyaku_server::{PluginList, Request, Server, get};

struct Policy;
struct Other;

pub fn server(server: Server) -> Server<impl PluginList> {
    server
        .plugin(async |_| Ok(Policy))
        .route(get("/"), async |_: &Other, _: Request| "")
}
