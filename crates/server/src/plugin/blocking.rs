//! The way off the worker, for what computes long or blocks.

use std::panic::resume_unwind;

use crate::http::carried;

/// Runs `work` on another thread and resolves to what it returns.
///
/// A worker is one thread, and nothing steals its work: a handler that computes for 20 ms makes
/// everybody on its worker wait for 20 ms. A handler that computes longer than about a millisecond,
/// reads files, or calls what blocks, does it here. `work` goes to another thread, so what it takes
/// and returns must be `Send`; the plugin itself stays where it is.
///
/// A panic in `work` goes on in the handler that waits for it. When that handler is dropped, work
/// that has begun goes on to its end, and its result is dropped.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(carried(work)).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The worker is being shut down, and everything that waits with it.
            Err(_) => std::future::pending().await,
        },
    }
}
