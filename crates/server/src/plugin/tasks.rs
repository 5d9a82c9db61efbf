//! Tasks of plugins beside all requests: started once for each server, and again when they fail.

use std::{rc::Rc, time::Duration};

use super::Plugins;

/// How long to wait before a task that has panicked is started again; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_mins(1);

impl Plugins {
    /// Starts the tasks, on the first worker alone. They end with it.
    pub(crate) fn start_tasks(self: &Rc<Self>) {
        if self.caller.worker() > 0 {
            return;
        }
        for index in 0..self.hooks.tasks.len() {
            tokio::task::spawn_local(Rc::clone(self).keep_running(index));
        }
    }

    async fn keep_running(self: Rc<Self>, index: usize) {
        let Some((handler, task)) = self.hooks.tasks.get(index) else {
            return;
        };
        let mut pause = FIRST_PAUSE;
        while self
            .caller
            .call_without_limit(*handler, task(()))
            .await
            .is_err()
        {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
}
