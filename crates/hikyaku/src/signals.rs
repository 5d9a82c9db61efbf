//! SIGTERM and SIGINT: the first asks to stop in order, the second stops at once. SIGHUP: files are read
//! again.

use std::{
    future::Future,
    io,
    sync::{Arc, atomic::AtomicBool},
    thread,
};

use futures_channel::oneshot;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
    iterator::Signals,
    low_level,
};

const STOPPING: [i32; 2] = [SIGTERM, SIGINT];

/// Returns a flag that the first signal sets.
pub(crate) fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in STOPPING {
        // In this order: the first signal finds the flag not set.
        flag::register_conditional_default(signal, stop.clone())?;
        flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Returns a future that the first signal resolves. From here on a signal does not kill.
pub(crate) fn first() -> io::Result<impl Future<Output = ()>> {
    let mut signals = Signals::new(STOPPING)?;
    let (told, came) = oneshot::channel();
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let mut arriving = signals.forever();
            if arriving.next().is_some() {
                // Nobody waits when the server has ended by itself.
                let _ = told.send(());
            }
            if let Some(signal) = arriving.next() {
                let _ = low_level::emulate_default_handler(signal);
            }
        })?;
    Ok(async move {
        let _ = came.await;
    })
}

/// Does this at every SIGHUP, which does not end the program from here on.
pub(crate) fn at_hang_up(told: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP])?;
    thread::Builder::new()
        .name("hang-up".into())
        .spawn(move || {
            for _ in signals.forever() {
                told();
            }
        })?;
    Ok(())
}
