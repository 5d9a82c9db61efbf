//! Removing events for good, as the operator.

use std::sync::atomic::{AtomicBool, Ordering};

use hikyaku_event::Filter;
use hikyaku_store::{EventStore, KeyRange, Outcome, Reader, RemovalReason, Write};

use super::{Audience, Progress, Report};
use crate::{
    failure::Failure,
    waiting::{unix_now, wait},
};

/// How many events one write removes: a client's event waits no longer than for these.
const BATCH: usize = 1000;

/// Removes every event that the filter matches now, newest first.
pub(super) fn delete(
    store: &dyn EventStore,
    filter: &Filter,
    stop: &AtomicBool,
    audience: &mut dyn Audience,
) -> Result<Report, Failure> {
    let reader = store.reader();
    let mut keys = reader.keys(filter, &Reader::operator(), unix_now(), KeyRange::default());
    let (mut removed, mut absent) = (0, 0);
    loop {
        let batch = keys
            .by_ref()
            .take(BATCH)
            .map(|key| {
                key.map(|key| Write::Remove {
                    id: key.id,
                    reason: RemovalReason::Operator,
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let interrupted = stop.load(Ordering::Relaxed);
        if batch.is_empty() || interrupted {
            return Ok(Report::Deleted {
                removed,
                absent,
                interrupted: interrupted && !batch.is_empty(),
            });
        }
        for outcome in wait(store.write(batch, unix_now()))? {
            match outcome {
                Outcome::Done => removed += 1,
                _ => absent += 1,
            }
        }
        let progress = Progress {
            events: removed + absent,
            bytes: 0,
        };
        audience
            .progress(progress)
            .map_err(|error| Failure::output(&error))?;
    }
}
