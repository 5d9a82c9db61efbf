//! Every interleaving of the protocol, as the memory model allows them, for small cases: driven by
//! loom through the code that the table runs.

use std::sync::atomic::Ordering;

use loom::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, fence},
    },
    thread,
};

use super::stripe::{Lock, Number, Primitives, Stripe};

#[derive(Default)]
struct Loom;

impl Primitives for Loom {
    type Lock = Mutex<()>;
    type Number = AtomicU64;

    fn fence(order: Ordering) {
        fence(order);
    }

    fn wait(_attempts: u32) {
        thread::yield_now();
    }
}

impl Lock for Mutex<()> {
    type Guard<'a> = MutexGuard<'a, ()>;

    fn lock(&self) -> MutexGuard<'_, ()> {
        Mutex::lock(self).unwrap()
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, ()>> {
        Mutex::try_lock(self).ok()
    }
}

impl Number for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }
}

/// A record of two words under one stripe, copied as the mapping copies: relaxed, word by word.
#[derive(Default)]
struct Shared {
    stripe: Stripe<Loom>,
    words: [AtomicU64; 2],
}

impl Shared {
    fn read(&self) -> [u64; 2] {
        self.stripe.read(|| self.seen())
    }

    fn seen(&self) -> [u64; 2] {
        [0, 1].map(|word: usize| self.words[word].load(Ordering::Relaxed))
    }

    fn add(&self) {
        let locked = self.stripe.lock();
        let [old, _] = self.seen();
        locked.write(|| {
            for word in &self.words {
                word.store(old + 1, Ordering::Relaxed);
            }
        });
        locked.set_count(|count| count + 1);
    }
}

fn check(case: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(case);
}

#[test]
fn a_reader_never_sees_half_a_value() {
    check(|| {
        let shared = Arc::new(Shared::default());
        let writer = Arc::clone(&shared);
        let writer = thread::spawn(move || {
            writer.add();
            writer.add();
        });
        let [first, second] = shared.read();
        assert_eq!(first, second);
        let [later, _] = shared.read();
        assert!(later >= first);
        writer.join().unwrap();
        assert_eq!(shared.read(), [2, 2]);
    });
}

#[test]
fn no_update_and_no_count_is_lost() {
    check(|| {
        let shared = Arc::new(Shared::default());
        let other = Arc::clone(&shared);
        let other = thread::spawn(move || other.add());
        shared.add();
        let [first, second] = shared.read();
        assert_eq!(first, second);
        other.join().unwrap();
        assert_eq!(shared.read(), [2, 2]);
        assert_eq!(shared.stripe.count(), 2);
    });
}

#[test]
fn who_waits_in_the_lock_does_not_stop_a_reader() {
    check(|| {
        let shared = Arc::new(Shared::default());
        let reader = Arc::clone(&shared);
        let locked = shared.stripe.lock();
        // The reader ends while the lock is held: it is given up only after the join.
        let reader = thread::spawn(move || reader.read());
        assert_eq!(reader.join().unwrap(), [0, 0]);
        drop(locked);
    });
}

/// One file takes another's place, and the old one is emptied.
#[test]
fn a_reader_never_sees_a_file_that_was_left() {
    check(|| {
        let shared = Arc::new((
            Stripe::<Loom>::default(),
            AtomicU64::new(0),
            AtomicU64::new(0),
        ));
        let (_, old, _) = &*shared;
        old.store(7, Ordering::Relaxed);
        let reader = Arc::clone(&shared);
        let reader = thread::spawn(move || {
            let (stripe, old, current) = &*reader;
            stripe.read(|| match current.load(Ordering::Acquire) {
                0 => old.load(Ordering::Relaxed),
                _ => 7,
            })
        });
        let (stripe, old, current) = &*shared;
        let locked = stripe.lock();
        locked.begin();
        current.store(1, Ordering::Release);
        locked.end();
        drop(locked);
        old.store(0, Ordering::Relaxed);
        assert_eq!(reader.join().unwrap(), 7);
    });
}
