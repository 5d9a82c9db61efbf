//! What commands ask of the process that has the tables open.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use hikyaku_observe::Observations;
use hikyaku_tables::Tables;

use super::failure;
use crate::{
    control::{self, Carrier, ControlServer},
    failure::Failure,
    operations::{Audience, Input, NO_EVENTS, Operation, Report, requests},
};

/// The tables, and what requests cost them.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) tables: Arc<Tables>,
    pub(super) observations: Option<Observations>,
}

impl Asked {
    /// Listens to commands in the tables' folder. Tables that commands can't reach are served all the
    /// same.
    pub(super) fn listen(self, folder: &Path) -> Option<ControlServer> {
        ControlServer::start(control::socket(folder), self)
            .inspect_err(|error| tracing::warn!(%error, "commands can't reach the tables"))
            .ok()
    }
}

impl Carrier for Asked {
    fn carry_out(
        &self,
        operation: &Operation,
        _input: Input,
        _stop: &Arc<AtomicBool>,
        _audience: &mut dyn Audience,
    ) -> Result<Report, Failure> {
        match operation {
            Operation::Requests => requests(self.observations.as_ref()),
            Operation::CopyTables { to } => copy(&self.tables, to),
            _ => Err(Failure::Failed(NO_EVENTS.to_owned())),
        }
    }
}

/// Copies tables to a new folder.
pub(super) fn copy(tables: &Tables, to: &Path) -> Result<Report, Failure> {
    let position = tables
        .copy(to)
        .map_err(|error| failure(&format!("can't copy to {}", to.display()), &error))?;
    Ok(Report::TablesCopied {
        position: position.0,
    })
}
