//! Who does it: one node at a time, at the pace the operator wants; and who makes indexes that are missing.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hikyaku_event::TagName;
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use super::{BackfillState, BackfillStatus, Pace, index_configured, step::Steps};
use crate::{
    PostgresError,
    connection::{Connector, lock_key},
    schema::{VERSIONS, make_missing_indexes},
};

/// What is told on the nodes' channel when there may be something to do.
pub(crate) const WAKE: &str = "backfill";
/// How often a node looks without having been told: so long after a node that was at it has gone,
/// another one takes over.
const LOOK: Duration = Duration::from_secs(15);
/// How long it is left alone at most after it has failed again and again.
const PAUSE_MAX: Duration = Duration::from_mins(10);
/// How often a paused backfill looks whether it may go on.
const PAUSED: Duration = Duration::from_millis(500);
/// How often a backfill that waits between two batches looks for a new pace.
const LOOK_WAITING: Duration = Duration::from_secs(5);

const TAKE: &str = "SELECT pg_try_advisory_lock($1)";

/// Works whenever there is something to do, for as long as the store is open, and has tags of the
/// configured names indexed. A connection is used while there is, and for a look now and then.
pub(crate) async fn work(connector: Connector, wake: Arc<Notify>, configured: Vec<TagName>) {
    let mut pause = LOOK;
    loop {
        match turn(&connector, &configured).await {
            Ok(()) => pause = LOOK,
            Err(PostgresError::Unavailable(text)) => {
                tracing::debug!(text, "the backfill waits for the database");
            }
            Err(error) => {
                tracing::warn!(%error, "the backfill does not go on; it is tried again");
                // What fails may have filled a disk.
                pause = (2 * pause).min(PAUSE_MAX);
            }
        }
        // Not having been told is no error.
        let _ = timeout(pause, wake.notified()).await;
    }
}

async fn turn(connector: &Connector, configured: &[TagName]) -> Result<(), PostgresError> {
    if run(connector, |_| true).await? && !configured.is_empty() {
        // If this begins something everybody is told, this node too.
        let session = connector.connect().await?;
        index_configured(&session, &connector.schema, configured).await?;
    }
    Ok(())
}

/// Works until there is nothing to do, `go_on` says no, or another node is at it. Returns whether
/// nothing is left.
pub(super) async fn run(
    connector: &Connector,
    mut go_on: impl FnMut(&BackfillStatus) -> bool,
) -> Result<bool, PostgresError> {
    let session = connector.connect().await?;
    // An entry that is there already is known by the index.
    if !make_missing_indexes(&session, &connector.schema, VERSIONS).await? {
        return Ok(false);
    }
    let mut status = BackfillStatus::read(&session).await?;
    if status.state == BackfillState::Idle {
        return Ok(true);
    }
    // The lock goes with the connection.
    let lock = lock_key(&connector.schema, "backfill");
    let taken = session.rows(TAKE, &[&lock]).await?;
    if !taken.first().is_some_and(|row| row.get(0)) {
        return Ok(false);
    }
    tracing::info!(filling = ?status.filling, dropping = ?status.dropping, "backfill begun");
    let mut steps = Steps::new(&session, connector);
    let mut spent = Duration::ZERO;
    loop {
        if !go_on(&status) {
            return Ok(false);
        }
        match status.state {
            BackfillState::Idle => {
                tracing::info!(events = status.done, "backfill ended");
                return Ok(true);
            }
            BackfillState::Paused => {
                steps.rest();
                sleep(PAUSED).await;
            }
            BackfillState::Running => {
                let begun = Instant::now();
                let done = steps.step(status.pace, spent).await?;
                let took = begun.elapsed();
                // What the pace wants may be a long wait, and another pace meanwhile.
                while status.state == BackfillState::Running {
                    let whole = took + wait(status.pace, done.unwrap_or(0), took);
                    let left = whole.saturating_sub(begun.elapsed());
                    if left.is_zero() {
                        break;
                    }
                    sleep(left.min(LOOK_WAITING)).await;
                    if left > LOOK_WAITING {
                        status = BackfillStatus::read(&session).await?;
                        if !go_on(&status) {
                            return Ok(false);
                        }
                    }
                }
                spent = begun.elapsed();
            }
        }
        status = BackfillStatus::read(&session).await?;
    }
}

/// Returns how long to wait after a batch of so many events that took so long.
fn wait(pace: Pace, count: u64, took: Duration) -> Duration {
    let share = pace.share.clamp(1, 100);
    let for_share = took * (100 - share) / share;
    let for_rate = pace.rate.map_or(Duration::ZERO, |rate| {
        let whole = Duration::from_secs_f64(count as f64 / f64::from(rate.max(1)));
        whole.saturating_sub(took)
    });
    for_share.max(for_rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_keeps_to_share_and_rate() {
        let pace = |share, rate| Pace { share, rate };
        let ms = Duration::from_millis;
        assert_eq!(wait(pace(100, None), 1000, ms(40)), ms(0));
        assert_eq!(wait(pace(25, None), 1000, ms(40)), ms(120));
        assert_eq!(wait(pace(100, Some(5000)), 1000, ms(40)), ms(160));
        assert_eq!(wait(pace(10, Some(5000)), 1000, ms(40)), ms(360));
        assert_eq!(wait(pace(100, Some(1)), 1000, ms(40)), ms(999_960));
        assert_eq!(wait(pace(1, None), 1000, ms(400)), ms(39_600));
    }
}
