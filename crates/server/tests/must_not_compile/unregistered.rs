//! no plugin `Other` is registered on this server
use hikyaku_server::{PluginList, Request, Server, get};

struct Policy;
struct Second;
struct Other;

pub fn server(server: Server) -> Server<impl PluginList> {
    server
        .plugin(async |_| Ok(Policy))
        .plugin(async |_| Ok(Second))
        .route(get("/"), async |_: &Other, _: Request| "")
}
