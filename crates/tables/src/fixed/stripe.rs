//! What writers and readers of records agree on: a lock that writers take, and a sequence counter by
//! which readers, who take nothing, know whether they have seen a whole value.
//!
//! It is written against [`Primitives`], so that a model checker can drive this very code.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

/// What the protocol is made of.
pub(super) trait Primitives {
    /// A lock.
    type Lock: Lock;
    /// A number in memory.
    type Number: Number;
    /// [`std::sync::atomic::fence`].
    fn fence(order: Ordering);
    /// Lets others go on after so many attempts.
    fn wait(attempts: u32);
}

pub(super) trait Lock: Default {
    type Guard<'a>
    where
        Self: 'a;
    fn lock(&self) -> Self::Guard<'_>;
    fn try_lock(&self) -> Option<Self::Guard<'_>>;
}

pub(super) trait Number: Default {
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
}

/// The primitives of the machine.
#[derive(Debug, Default)]
pub(super) struct Std;

impl Primitives for Std {
    type Lock = Mutex<()>;
    type Number = AtomicU64;

    #[inline]
    fn fence(order: Ordering) {
        std::sync::atomic::fence(order);
    }

    fn wait(attempts: u32) {
        // The writer is copying a value: it needs some nanoseconds, unless it has lost its core.
        if attempts < 100 {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

impl Lock for Mutex<()> {
    type Guard<'a> = MutexGuard<'a, ()>;

    #[inline]
    fn lock(&self) -> MutexGuard<'_, ()> {
        // A panic leaves it unlocked: none comes between the two halves of a write.
        Mutex::lock(self)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, ()>> {
        Mutex::try_lock(self)
    }
}

impl Number for AtomicU64 {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }
}

/// What guards some of the records.
#[derive(Debug, Default)]
#[repr(align(32))]
pub(super) struct Stripe<P: Primitives = Std> {
    lock: P::Lock,
    /// Odd while bytes of the records are being changed.
    sequence: P::Number,
    /// Records there are. Changed under the lock.
    count: P::Number,
}

/// The lock of a stripe, held.
pub(super) struct Locked<'a, P: Primitives = Std> {
    stripe: &'a Stripe<P>,
    _guard: <P::Lock as Lock>::Guard<'a>,
}

impl<P: Primitives> Stripe<P> {
    /// Waits for the writers of the stripe's records. Readers go on until [`Locked::write`].
    #[inline]
    pub(super) fn lock(&self) -> Locked<'_, P> {
        Locked {
            _guard: self.lock.lock(),
            stripe: self,
        }
    }

    /// Takes the lock if no writer has it.
    pub(super) fn try_lock(&self) -> Option<Locked<'_, P>> {
        let guard = self.lock.try_lock()?;
        Some(Locked {
            _guard: guard,
            stripe: self,
        })
    }

    /// Reads once: `None` if somebody was writing. As [`Stripe::read`], which waits for that.
    #[inline]
    pub(super) fn try_read<R>(&self, read: impl FnOnce() -> R) -> Option<R> {
        // Acquire: what follows sees at least what was written before this number.
        let before = self.sequence.load(Ordering::Acquire);
        if !before.is_multiple_of(2) {
            return None;
        }
        let seen = read();
        // If `read` saw a byte of a write, then the load below sees that write's odd number or a later
        // one: this fence pairs with the one in `begin`.
        P::fence(Ordering::Acquire);
        (self.sequence.load(Ordering::Relaxed) == before).then_some(seen)
    }

    /// Reads: calls `read` until it has seen a state in which nobody was writing. What it returns
    /// before may be torn, so it must not believe what it sees.
    #[inline]
    pub(super) fn read<R>(&self, mut read: impl FnMut() -> R) -> R {
        let mut attempts = 0;
        loop {
            if let Some(seen) = self.try_read(&mut read) {
                return seen;
            }
            P::wait(attempts);
            attempts += 1;
        }
    }

    /// Returns how many records there are.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl<P: Primitives> Locked<'_, P> {
    /// Changes bytes that readers may be reading. `change` must be short and must not panic.
    #[inline]
    pub(super) fn write<R>(&self, change: impl FnOnce() -> R) -> R {
        self.begin();
        let result = change();
        self.end();
        result
    }

    /// Makes readers wait until [`Locked::end`].
    #[inline]
    pub(super) fn begin(&self) {
        let sequence = &self.stripe.sequence;
        sequence.store(sequence.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        P::fence(Ordering::Release);
    }

    /// Lets readers see what was written since [`Locked::begin`].
    #[inline]
    pub(super) fn end(&self) {
        let sequence = &self.stripe.sequence;
        sequence.store(sequence.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Changes how many records there are.
    #[inline]
    pub(super) fn set_count(&self, change: impl FnOnce(u64) -> u64) {
        let count = &self.stripe.count;
        count.store(change(count.load(Ordering::Relaxed)), Ordering::Relaxed);
    }
}
