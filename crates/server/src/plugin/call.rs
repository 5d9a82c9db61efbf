//! One call of a handler: watched, timed, bounded, and its panics caught.

use std::{
    any::Any,
    cell::Cell,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hikyaku_store::LocalFuture;
use tokio::time::Sleep;
use tracing::Span;

use super::book::{HandlerBook, HandlerCells, HandlerId, HandlerName, WorkerPage, count};

/// Why a call has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallFailure {
    Panicked,
    TooSlow,
}

/// One worker's way to call handlers.
pub(crate) struct Caller {
    book: Arc<HandlerBook>,
    worker: usize,
    /// How often handlers have been entered, from 1.
    entered: Cell<u64>,
    spans: Box<[Span]>,
    time_max: Duration,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

impl Caller {
    pub(crate) fn new(book: Arc<HandlerBook>, worker: usize, time_max: Duration) -> Rc<Self> {
        let span = |name: &HandlerName| tracing::info_span!("plugin", name = name.plugin, handler = %name.task);
        Rc::new(Self {
            spans: book.names.iter().map(span).collect(),
            book,
            worker,
            entered: Cell::new(1),
            time_max,
        })
    }

    /// Returns what a handler's lease is called: the same at all nodes.
    pub(crate) fn lease_of(&self, handler: HandlerId) -> String {
        let name = self.book.names.get(usize::from(handler.0));
        name.map_or_else(String::new, |name| format!("{} {}", name.plugin, name.task))
    }

    /// Returns the worker's place among all, from 0.
    pub(crate) fn worker(&self) -> usize {
        self.worker
    }

    /// Calls a handler whose future this is, for no longer than handlers may take.
    pub(crate) fn call<T>(
        self: &Rc<Self>,
        handler: HandlerId,
        future: LocalFuture<'static, T>,
    ) -> Call<T> {
        self.call_for(handler, future, None)
    }

    /// Calls a handler that may take as long as it likes.
    pub(crate) fn call_without_limit<T>(
        self: &Rc<Self>,
        handler: HandlerId,
        future: LocalFuture<'static, T>,
    ) -> Call<T> {
        self.call_within(handler, future, None)
    }

    /// Calls a handler that has a time of its own.
    pub(crate) fn call_for<T>(
        self: &Rc<Self>,
        handler: HandlerId,
        future: LocalFuture<'static, T>,
        time_max: Option<Duration>,
    ) -> Call<T> {
        self.call_within(handler, future, Some(time_max.unwrap_or(self.time_max)))
    }

    fn call_within<T>(
        self: &Rc<Self>,
        handler: HandlerId,
        future: LocalFuture<'static, T>,
        time_max: Option<Duration>,
    ) -> Call<T> {
        Call {
            caller: Rc::clone(self),
            handler,
            future: Some(future),
            started: None,
            took: Duration::ZERO,
            time_max,
            deadline: None,
        }
    }

    /// Notes that a call was not made, for too many were under way.
    pub(crate) fn note_dropped(&self, handler: HandlerId) {
        if let Some(cells) = self.page().and_then(|page| page.cells(handler)) {
            count(&cells.dropped);
        }
    }

    fn page(&self) -> Option<&WorkerPage> {
        self.book.workers.get(self.worker)
    }

    /// Runs a part of a handler under the watchdog's eyes. `Err` with what it panicked with.
    fn watched<T>(
        &self,
        handler: HandlerId,
        begun: Instant,
        part: impl FnOnce() -> T,
    ) -> Result<T, Box<dyn Any + Send>> {
        let Some(page) = self.page() else {
            return Ok(part());
        };
        let times = self.entered.get();
        self.entered.set(times + 1);
        let stay = self.book.enter(page, handler, times, begun);
        let span = self.spans.get(usize::from(handler.0)).map(Span::enter);
        // What a panic leaves behind is the plugin's own: nothing of ours is in between.
        let result = catch_unwind(AssertUnwindSafe(part));
        drop(span);
        if let Some(held) = self.book.leave(page, stay) {
            page.count_hold(stay);
            if let Some(name) = self.book.names.get(usize::from(handler.0)) {
                let held_ms = held.as_millis();
                tracing::warn!(plugin = name.plugin, handler = %name.task, held_ms, "handler held its worker");
            }
        }
        result
    }

    /// Runs a part of what a handler has left to be done, under the same eyes.
    pub(crate) fn run_part<T>(
        &self,
        handler: HandlerId,
        part: impl FnOnce() -> T,
    ) -> Result<T, CallFailure> {
        self.watched(handler, Instant::now(), part)
            .map_err(|panic| {
                self.note_panic(handler, &*panic);
                CallFailure::Panicked
            })
    }

    fn note_panic(&self, handler: HandlerId, panic: &(dyn Any + Send)) {
        if let Some((name, cells)) = self.of(handler) {
            count(&cells.panics);
            let panic = text_of(panic);
            tracing::error!(plugin = name.plugin, handler = %name.task, panic, "handler panicked");
        }
    }

    fn note_too_slow(&self, handler: HandlerId, time_max: Duration) {
        if let Some((name, cells)) = self.of(handler) {
            count(&cells.timeouts);
            let seconds = time_max.as_secs_f64();
            tracing::error!(plugin = name.plugin, handler = %name.task, seconds, "handler given up: it took too long");
        }
    }

    fn of(&self, handler: HandlerId) -> Option<(&HandlerName, &HandlerCells)> {
        let name = self.book.names.get(usize::from(handler.0))?;
        Some((name, self.page()?.cells(handler)?))
    }

    fn note_end(&self, handler: HandlerId, took: Duration) {
        if let Some(cells) = self.page().and_then(|page| page.cells(handler)) {
            cells.seconds.record(took);
        }
    }
}

/// Returns what somebody has panicked with.
pub(super) fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("something that is no text")
}

/// One call under way.
pub(crate) struct Call<T> {
    caller: Rc<Caller>,
    handler: HandlerId,
    /// `None` once it has ended.
    future: Option<LocalFuture<'static, T>>,
    /// When it was polled first: it may have been put by until then.
    started: Option<Instant>,
    /// How long it took, once it has ended.
    took: Duration,
    time_max: Option<Duration>,
    /// When it is given up; set when it first has to wait.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<T> Future for Call<T> {
    type Output = Result<T, CallFailure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(future) = &mut this.future else {
            return Poll::Pending;
        };
        let now = Instant::now();
        let started = *this.started.get_or_insert(now);
        // Put into its place, rather than returned from one layer to the next: an answer is large.
        let mut polled = Poll::Pending;
        let ended = (this.caller).watched(this.handler, now, || polled = future.as_mut().poll(cx));
        if ended.is_ok() && polled.is_ready() {
            this.note_end();
            // Nothing is left in it.
            this.future = None;
            return polled.map(Ok);
        }
        let failure = match ended {
            Ok(()) => {
                let end = |time_max| Some((time_max, started.checked_add(time_max)?));
                // One that the clock does not reach is none.
                let Some((time_max, end)) = this.time_max.and_then(end) else {
                    return Poll::Pending;
                };
                let deadline = this
                    .deadline
                    .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end.into())));
                if deadline.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                this.caller.note_too_slow(this.handler, time_max);
                CallFailure::TooSlow
            }
            Err(panic) => {
                this.caller.note_panic(this.handler, &*panic);
                CallFailure::Panicked
            }
        };
        this.note_end();
        Poll::Ready(Err(failure))
    }
}

impl<T> Drop for Call<T> {
    /// What a handler leaves behind that is not waited for any more is its own, too.
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            let _ = self.caller.run_part(self.handler, || drop(future));
        }
    }
}

impl<T> Call<T> {
    /// Returns how long it took, once it has ended.
    pub(crate) fn took(&self) -> Duration {
        self.took
    }

    fn note_end(&mut self) {
        self.took = self.started.map_or(Duration::ZERO, |at| at.elapsed());
        self.caller.note_end(self.handler, self.took);
    }
}
