//! What a running server's requests cost: printed once (`slow`) or live (`top`).

mod kept;
mod screen;
mod slow;
mod table;
mod top;

pub(crate) use slow::slow;
pub(crate) use table::Sort;
pub(crate) use top::top;

use std::os::unix::net::UnixStream;

use hikyaku_observe::Snapshot;

use crate::{
    configuration::Settings,
    control,
    failure::Failure,
    operations::{Operation, Report},
    store::Store,
};

/// Asks the running server.
fn ask(settings: &Settings) -> Result<Snapshot, Failure> {
    let socket = control::socket(&settings.data);
    if UnixStream::connect(&socket).is_err() {
        return Err(Failure::Failed(format!(
            "no server runs on {}: what requests cost is known to the running server alone; name the \
             right folder with --data",
            settings.data.display()
        )));
    }
    match Store::Served(socket).ask(&Operation::Requests)? {
        Report::Requests(snapshot) => Ok(snapshot),
        _ => Err(Failure::Failed(
            "the figures have another answer".to_owned(),
        )),
    }
}
