//! How far the log is durable, and who waits for it: threads, and futures without a runtime.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::{options::LogPosition, update_log::Shared};
use crate::TableError;

#[derive(Debug)]
pub(super) struct Progress {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    durable: LogPosition,
    /// Bytes that were written to files since the log was opened.
    written: u64,
    ended: Option<Arc<str>>,
    /// By the position they wait for, and a number of their own.
    wakers: BTreeMap<(LogPosition, u64), Waker>,
    next_waiter: u64,
}

impl Progress {
    pub(super) fn new(durable: LogPosition) -> Self {
        Self {
            state: Mutex::new(State {
                durable,
                written: 0,
                ended: None,
                wakers: BTreeMap::new(),
                next_waiter: 0,
            }),
            changed: Condvar::new(),
        }
    }

    pub(super) fn durable(&self) -> LogPosition {
        self.lock().durable
    }

    /// Tells all who wait for a position up to this one.
    pub(super) fn publish(&self, durable: LogPosition, written: u64) {
        let mut state = self.lock();
        state.durable = durable;
        state.written += written;
        let later = state.wakers.split_off(&(LogPosition(durable.0 + 1), 0));
        let woken = std::mem::replace(&mut state.wakers, later);
        drop(state);
        self.changed.notify_all();
        for waker in woken.into_values() {
            waker.wake();
        }
    }

    /// Tells all who wait that nothing more will become durable.
    pub(super) fn end_with(&self, why: &Arc<str>) {
        let mut state = self.lock();
        if state.ended.is_none() {
            state.ended = Some(Arc::clone(why));
        }
        let woken = std::mem::take(&mut state.wakers);
        drop(state);
        self.changed.notify_all();
        for waker in woken.into_values() {
            waker.wake();
        }
    }

    /// Returns the bytes that were written since the log was opened.
    pub(super) fn written(&self) -> u64 {
        self.lock().written
    }

    /// Waits until so many bytes were written since the log was opened; false at its end.
    pub(super) fn wait_written(&self, bytes: u64) -> bool {
        let waits = |state: &mut State| state.written < bytes && state.ended.is_none();
        let state = self.lock();
        let waited = self.changed.wait_while(state, waits);
        let state = waited.unwrap_or_else(PoisonError::into_inner);
        state.written >= bytes && state.ended.is_none()
    }

    /// Waits until all before a position is durable.
    pub(super) fn wait(&self, position: LogPosition) -> Result<(), TableError> {
        let mut state = self.lock();
        loop {
            if let Some(reached) = state.reached(position) {
                return reached;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for at most a time; false if that was not enough.
    pub(super) fn wait_for(
        &self,
        position: LogPosition,
        at_most: Duration,
    ) -> Result<bool, TableError> {
        let state = self.lock();
        let waited = self
            .changed
            .wait_timeout_while(state, at_most, |state| state.reached(position).is_none());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state
            .reached(position)
            .map_or(Ok(false), |it| it.map(|()| true))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns what a waiter hears, if anything yet.
    fn reached(&self, position: LogPosition) -> Option<Result<(), TableError>> {
        if self.durable >= position {
            return Some(Ok(()));
        }
        let why = self.ended.as_ref()?;
        Some(Err(TableError::Stopped(why.to_string())))
    }
}

/// Resolves when all before a position is durable; an error if the log stops before. Needs no
/// runtime.
#[derive(Debug)]
#[must_use = "a future does nothing unless polled"]
pub struct WhenDurable {
    shared: Arc<Shared>,
    position: LogPosition,
    waiter: Option<u64>,
}

impl WhenDurable {
    pub(super) fn new(shared: Arc<Shared>, position: LogPosition) -> Self {
        Self {
            shared,
            position,
            waiter: None,
        }
    }
}

impl Future for WhenDurable {
    type Output = Result<(), TableError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let is_new = this.waiter.is_none();
        {
            let mut state = this.shared.progress.lock();
            if let Some(reached) = state.reached(this.position) {
                return Poll::Ready(reached);
            }
            let waiter = *this.waiter.get_or_insert_with(|| {
                state.next_waiter += 1;
                state.next_waiter
            });
            let waker = cx.waker().clone();
            state.wakers.insert((this.position, waiter), waker);
        }
        if is_new {
            this.shared.hurry_for(this.position);
        }
        Poll::Pending
    }
}

impl Drop for WhenDurable {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            let mut state = self.shared.progress.lock();
            state.wakers.remove(&(self.position, waiter));
        }
    }
}
