//! Tasks of plugins beside all requests: started once for each server, or once for all nodes, and again
//! when they fail.

use std::{rc::Rc, sync::Arc, time::Duration};

use hikyaku_store::{Lease, Neighbours};

use super::{Plugins, call::CallFailure, hooks::Hook};

/// How long to wait before a task that has panicked is started again; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_mins(1);

/// What a try to carry a task out came to.
enum Ended {
    ByItself,
    ByFailure,
    /// Another node may have it now.
    LeaseLost,
}

impl Plugins {
    /// Starts the tasks, on the first worker alone. They end with it.
    pub(crate) fn start_tasks(self: &Rc<Self>, neighbours: Option<&Arc<dyn Neighbours>>) {
        if self.caller.worker() > 0 {
            return;
        }
        for index in 0..self.hooks.tasks.len() {
            let running = Rc::clone(self).keep_running(|plugins| &plugins.hooks.tasks, index, None);
            tokio::task::spawn_local(running);
        }
        for index in 0..self.hooks.shared_tasks.len() {
            let neighbours = neighbours.cloned();
            let tasks: Tasks = |plugins| &plugins.hooks.shared_tasks;
            tokio::task::spawn_local(Rc::clone(self).keep_running(tasks, index, neighbours));
        }
    }

    async fn keep_running(
        self: Rc<Self>,
        tasks: Tasks,
        index: usize,
        neighbours: Option<Arc<dyn Neighbours>>,
    ) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.run_once(tasks, index, neighbours.as_ref()).await {
                Ended::ByItself => return,
                Ended::LeaseLost => pause = FIRST_PAUSE,
                Ended::ByFailure => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    async fn run_once(
        self: &Rc<Self>,
        tasks: Tasks,
        index: usize,
        neighbours: Option<&Arc<dyn Neighbours>>,
    ) -> Ended {
        let Some((handler, task)) = tasks(self).get(index) else {
            return Ended::ByItself;
        };
        let lease: Lease = match neighbours {
            // Nobody else could have it.
            None => Box::pin(std::future::pending()),
            Some(neighbours) => match neighbours.lease(&self.caller.lease_of(*handler)).await {
                Ok(lease) => lease,
                Err(error) => {
                    tracing::warn!(%error, "whose turn it is to carry a task out is not known");
                    return Ended::ByFailure;
                }
            },
        };
        tokio::select! {
            ended = self.caller.call_without_limit(*handler, task(())) => match ended {
                Ok(()) => Ended::ByItself,
                Err(CallFailure::Panicked | CallFailure::TooSlow) => Ended::ByFailure,
            },
            () = lease => {
                tracing::warn!("a task was taken from this node: its lease is lost");
                Ended::LeaseLost
            }
        }
    }
}

/// Finds tasks among a worker's handlers.
type Tasks = fn(&Plugins) -> &Hook<(), ()>;
