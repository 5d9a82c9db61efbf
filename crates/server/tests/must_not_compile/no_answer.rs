//! the trait bound `Policy: IntoResponse` is not satisfied
use hikyaku_server::{PluginList, Request, Server, get};

struct Policy;

pub fn server(server: Server) -> Server<impl PluginList> {
    server
        .plugin(async |_| Ok(Policy))
        .route(get("/"), async |_: &Policy, _: Request| Policy)
}
