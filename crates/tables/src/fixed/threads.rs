//! A small number for each thread that writes, which no other living thread has.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Numbers that were given back, and the next one that was never given.
static NUMBERS: Mutex<(BinaryHeap<Reverse<u64>>, u64)> = Mutex::new((BinaryHeap::new(), 0));

struct Number(u64);

thread_local! {
    static NUMBER: Number = Number::take();
}

fn numbers() -> MutexGuard<'static, (BinaryHeap<Reverse<u64>>, u64)> {
    NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Number {
    fn take() -> Self {
        let mut numbers = numbers();
        if let Some(Reverse(number)) = numbers.0.pop() {
            return Self(number);
        }
        numbers.1 += 1;
        Self(numbers.1 - 1)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        numbers().0.push(Reverse(self.0));
    }
}

/// Returns this thread's number: the lowest that was free when it first asked. `None` when the thread
/// is ending and has given it back.
#[inline]
pub(super) fn number() -> Option<u64> {
    NUMBER.try_with(|number| number.0).ok()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Barrier, thread};

    use super::*;

    #[test]
    fn no_two_threads_have_a_number_at_once() {
        let barrier = Barrier::new(8);
        let numbers: BTreeSet<_> = thread::scope(|scope| {
            let ask = || {
                let number = number();
                barrier.wait();
                number
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(numbers.len(), 8);
        assert!(!numbers.contains(&None));
    }
}
