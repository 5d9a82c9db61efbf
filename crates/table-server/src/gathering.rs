//! Silent requests that come one by one are gathered, as a network card gathers packets.
//!
//! A set without an answer costs a client one send and the server a wake-up, which is ten times the
//! set. Where such requests flood a worker, and nobody waits for an answer, it pauses a moment before
//! it asks the system again, and finds many together. The first answer, or requests that come
//! together anyway, or too few of them, end that.
//!
//! The state is the thread's: what asks it is called by the runtime, before a worker waits.

use std::{
    cell::{Cell, RefCell},
    thread,
    time::{Duration, Instant},
};

/// So many wake-ups in a row, each for few silent bytes, within so much time are a flood.
const WAKE_UPS: u32 = 16;
const WITHIN: Duration = Duration::from_micros(WAKE_UPS as u64 * 25);
/// A pause. The system's timer adds its slack, of 50 microseconds.
const PAUSE: Duration = Duration::from_micros(20);
/// A pause that brought less (some ten requests) was not worth it.
const WORTH_BYTES: usize = 384;
/// What brings this much needs no gathering.
const TOGETHER_BYTES: usize = 32 * 1024;

thread_local! {
    static RECEIVED: Cell<usize> = const { Cell::new(0) };
    static ANSWERED: Cell<bool> = const { Cell::new(false) };
    static FLOOD: RefCell<Flood> = const { RefCell::new(Flood { wake_ups: 0, since: None, is_on: false }) };
}

/// Notes that requests have come.
pub(crate) fn received(bytes: usize) {
    RECEIVED.set(RECEIVED.get() + bytes);
}

/// Notes that answers were sent.
pub(crate) fn answered() {
    ANSWERED.set(true);
}

/// Pauses, if there is a flood: to be called before the worker waits.
pub(crate) fn before_wait() {
    let received = match ANSWERED.take() {
        true => None,
        false => Some(RECEIVED.get()),
    };
    RECEIVED.set(0);
    if FLOOD.with_borrow_mut(|flood| flood.goes_on(received, Instant::now)) {
        thread::sleep(PAUSE);
    }
}

/// Whether there is a flood.
#[derive(Debug, Default)]
struct Flood {
    wake_ups: u32,
    since: Option<Instant>,
    is_on: bool,
}

impl Flood {
    /// Tells whether to pause after a wake-up for so many bytes; `None`: something was answered.
    fn goes_on(&mut self, received: Option<usize>, now: impl FnOnce() -> Instant) -> bool {
        let silent = received.filter(|bytes| (1..TOGETHER_BYTES).contains(bytes));
        let Some(bytes) = silent.filter(|bytes| !self.is_on || *bytes >= WORTH_BYTES) else {
            *self = Self::default();
            return false;
        };
        if self.is_on && bytes >= WORTH_BYTES {
            return true;
        }
        self.wake_ups += 1;
        if self.wake_ups == 1 {
            self.since = Some(now());
        } else if self.wake_ups > WAKE_UPS {
            let took = self
                .since
                .map(|since| now().saturating_duration_since(since));
            *self = Self::default();
            self.is_on = took.is_some_and(|took| took < WITHIN);
        }
        self.is_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wakes up so often, each time after so long; returns the pauses.
    fn pauses(flood: &mut Flood, times: u32, bytes: usize, apart: Duration) -> u32 {
        let begun = Instant::now();
        let pause = |n| u32::from(flood.goes_on(Some(bytes), || begun + apart * n));
        (0..times).map(pause).sum()
    }

    const OFTEN: Duration = Duration::from_micros(5);

    #[test]
    fn a_flood_of_silent_requests_pauses_until_something_is_answered() {
        let mut flood = Flood::default();
        assert_eq!(pauses(&mut flood, WAKE_UPS, 40, OFTEN), 0);
        assert_eq!(pauses(&mut flood, 1, 40, OFTEN), 1);
        assert_eq!(pauses(&mut flood, 10, WORTH_BYTES, OFTEN), 10);
        assert!(!flood.goes_on(None, Instant::now));
        assert_eq!(pauses(&mut flood, WAKE_UPS, WORTH_BYTES, OFTEN), 0);
    }

    #[test]
    fn nobody_pauses_for_few_requests_or_for_many_together() {
        let mut flood = Flood::default();
        assert_eq!(pauses(&mut flood, 100, 40, WITHIN / 10), 0);
        assert_eq!(pauses(&mut flood, 100, TOGETHER_BYTES, OFTEN), 0);
        // A pause that brings little is the last for a while.
        pauses(&mut flood, WAKE_UPS + 1, 40, OFTEN);
        assert!(flood.is_on);
        assert_eq!(pauses(&mut flood, WAKE_UPS, 40, OFTEN), 0);
    }
}
