//! `Rc<u32>` cannot be sent between threads safely
use std::rc::Rc;

use hikyaku_server::{PluginList, Request, Server, get};

struct Policy;

pub fn server(server: Server) -> Server<impl PluginList> {
    let shared = Rc::new(1_u32);
    server
        .plugin(async |_| Ok(Policy))
        .route(get("/"), async move |_: &Policy, _: Request| shared.to_string())
}
