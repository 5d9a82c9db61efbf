//! How a running server does, for an operator who asks what is wrong with it.

use std::{fmt, sync::Arc};

use hikyaku_observe::Observations;

use crate::{arrivals::RecentClients, metrics::Metrics, worker::Shared};

/// Asks a running server how it does; from any thread, for as long as one likes.
#[derive(Clone)]
pub struct Watch {
    pub(crate) shared: Arc<Shared>,
    pub(crate) metrics: Metrics,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Watch {
    /// Returns what requests cost by their shape, if that is measured.
    pub fn observations(&self) -> Option<&Observations> {
        self.shared.observations.as_ref()
    }

    /// Returns the figures.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns how many workers there are.
    pub fn workers(&self) -> usize {
        self.shared.inboxes.len()
    }

    /// Returns how many connections may be open.
    pub fn connections_max(&self) -> usize {
        self.shared.config.connections_max
    }

    /// Returns from where the last clients came.
    pub fn recent_clients(&self) -> RecentClients {
        self.shared.addresses.arrivals.recent()
    }
}
