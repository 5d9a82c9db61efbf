//! `top`: the requests of the last moments, live.

use std::{
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use hikyaku_observe::Snapshot;

use super::{
    ask,
    screen::Screen,
    table::{self, Sort, rate},
};
use crate::{commands::print, configuration::Settings, failure::Failure, present::grouped};

/// How often a stop is looked for.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// Shows the requests of each interval until the operator leaves, or `count` times. Where there is no
/// terminal each is printed below the last.
pub(crate) fn top(
    settings: &Settings,
    interval: Duration,
    count: Option<u64>,
    mut sort: Sort,
    stop: &Arc<AtomicBool>,
) -> Result<ExitCode, Failure> {
    let mut before = ask(settings)?;
    let screen = Screen::enter().map_err(|error| Failure::io("can't use the terminal", &error))?;
    let mut shown = 0;
    let mut whole = false;
    let mut paused = false;
    let mut last = before.clone();
    let terminal = |error: std::io::Error| Failure::output(&error);
    if let Some(screen) = &screen {
        screen
            .show(&["waiting for the first interval".to_owned()])
            .map_err(terminal)?;
    }
    loop {
        let until = Instant::now() + interval;
        let mut redraw = false;
        while Instant::now() < until && !redraw {
            if stop.load(Ordering::Relaxed) {
                return Ok(ExitCode::SUCCESS);
            }
            let left = until.saturating_duration_since(Instant::now());
            let Some(screen) = &screen else {
                thread::sleep(left.min(STOP_CHECK));
                continue;
            };
            match screen.key(left.min(STOP_CHECK)).map_err(terminal)? {
                Some(b'q' | b'Q' | 0x04) => return Ok(ExitCode::SUCCESS),
                Some(b's') => (sort, redraw) = (sort.next(), true),
                Some(b'a') => (whole, redraw) = (!whole, true),
                Some(b' ' | b'p') => (paused, redraw) = (!paused, true),
                _ => {}
            }
        }
        if !redraw && !paused {
            let now = ask(settings)?;
            last = if whole {
                now.clone()
            } else {
                now.since(&before)
            };
            before = now;
        } else if redraw && !paused {
            last = if whole { before.clone() } else { last };
        }
        sort.apply(&mut last);
        match &screen {
            Some(screen) => {
                let lines = page(&last, sort, whole, paused);
                screen.show(&lines).map_err(terminal)?;
            }
            None => {
                print(&(page(&last, sort, whole, paused).join("\n") + "\n\n"))?;
            }
        }
        shown += u64::from(!redraw);
        if count.is_some_and(|count| shown >= count) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn page(shown: &Snapshot, sort: Sort, whole: bool, paused: bool) -> Vec<String> {
    let seconds = shown.seconds();
    let calls: u64 = shown.shapes.iter().map(|shape| shape.calls).sum();
    let total: u64 = shown.shapes.iter().map(|shape| shape.total_ns).sum();
    let mut lines = vec![
        format!(
            "hikyaku top: {} requests/s, {} in the {}{}",
            rate(calls as f64 / seconds.max(1e-6)),
            grouped(calls),
            if whole {
                "time since the start".to_owned()
            } else {
                format!("last {seconds:.1} s")
            },
            if paused { "  (paused)" } else { "" },
        ),
        format!(
            "sorted by {} (s: next)  a: since the start or the last moments  space: pause  q: quit",
            sort.name()
        ),
        String::new(),
        table::head(),
    ];
    let rows = shown.shapes.iter();
    lines.extend(rows.map(|shape| table::row(shape, total, seconds)));
    for repeat in &shown.repeats {
        lines.push(format!(
            "N+1: {} makes the same statement {} times, {}",
            repeat.shape, repeat.most, repeat.site
        ));
    }
    lines
}
