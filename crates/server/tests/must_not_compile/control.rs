//! Compiles: a plugin that is neither `Send` nor `Sync`, and a handler that holds what is neither while it
//! waits. What must not compile differs from this in one thing.
use std::{cell::RefCell, rc::Rc};

use hikyaku_server::{PluginList, Problem, Request, Server, get};

struct Policy(Rc<RefCell<u32>>);

pub fn server(server: Server) -> Server<impl PluginList> {
    server
        .plugin(async |_| Ok(Policy(Rc::default())))
        .route(get("/"), async |policy: &Policy, request: Request| {
            let count = Rc::clone(&policy.0);
            let body = request.bytes().await?;
            *count.borrow_mut() += 1;
            Ok::<_, Problem>(body)
        })
}
