//! How far a server is, from its start to its end, as every worker sees it.

use tokio::sync::watch;

/// What a server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Plugins are being made; clients wait at the door.
    Starting,
    Serving,
    /// What is under way is finished, and nothing else begun.
    Draining,
}

/// The side that decides.
pub(crate) struct PhaseSetter(watch::Sender<Phase>);

/// The side that goes along.
#[derive(Clone)]
pub(crate) struct PhaseWatch(watch::Receiver<Phase>);

pub(crate) fn phases() -> (PhaseSetter, PhaseWatch) {
    let (setter, watch) = watch::channel(Phase::Starting);
    (PhaseSetter(setter), PhaseWatch(watch))
}

impl PhaseSetter {
    pub(crate) fn serve(&self) {
        // Fails only if all workers are gone.
        let _ = self.0.send(Phase::Serving);
    }

    pub(crate) fn drain(&self) {
        let _ = self.0.send(Phase::Draining);
    }
}

impl PhaseWatch {
    /// Resolves when clients are served, or never will be.
    pub(crate) async fn begin_to_serve(&mut self) {
        self.reach(Phase::Serving).await;
    }

    /// Resolves when the server shuts down, or is gone.
    pub(crate) async fn begin_to_drain(&mut self) {
        self.reach(Phase::Draining).await;
    }

    async fn reach(&mut self, phase: Phase) {
        // An error means that the server itself is gone.
        let _ = self.0.wait_for(|now| *now >= phase).await;
    }
}
