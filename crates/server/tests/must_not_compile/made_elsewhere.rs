//! `Rc<u32>` cannot be sent between threads safely
use std::rc::Rc;

use hikyaku_server::{PluginList, Server};

struct Policy(Rc<u32>);

pub fn server(server: Server) -> Server<impl PluginList> {
    let shared = Rc::new(1);
    server.plugin(async move |_| Ok(Policy(shared)))
}
