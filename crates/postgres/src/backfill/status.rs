//! How a backfill is to work, and how far it is.

use std::time::Duration;

use crate::{PostgresError, connection::Session};

const STATUS: &str = "SELECT b.paused, b.share, b.rate, b.done, b.total, b.milliseconds, \
        array(SELECT name FROM {schema}.tag_names WHERE NOT filled AND NOT dropping ORDER BY name), \
        array(SELECT name FROM {schema}.tag_names WHERE dropping ORDER BY name), \
        array(SELECT name FROM {schema}.tag_names WHERE filled AND NOT dropping ORDER BY name) \
    FROM {schema}.backfill b";

/// What a backfill is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackfillState {
    /// There is nothing to do.
    Idle,
    /// It runs, if a node does.
    Running,
    /// It waits to be resumed.
    Paused,
}

/// How fast a backfill goes: the slower of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Of the time, how many percent it keeps the database at work: 1 to 100.
    pub share: u32,
    /// Events a second at most.
    pub rate: Option<u32>,
}

/// A backfill at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackfillStatus {
    /// What it is doing.
    pub state: BackfillState,
    /// How fast it may go.
    pub pace: Pace,
    /// The names being indexed.
    pub filling: Vec<String>,
    /// The names being taken out of the index.
    pub dropping: Vec<String>,
    /// The names that are indexed wholly.
    pub indexed: Vec<String>,
    /// Events looked at.
    pub done: u64,
    /// About how many events there were when it began.
    pub total: u64,
    /// How long it has worked, its waiting included, pauses by the operator not.
    pub elapsed: Duration,
}

impl BackfillStatus {
    /// Returns the events a second so far.
    pub fn rate(&self) -> f64 {
        self.done as f64 / self.elapsed.as_secs_f64().max(0.001)
    }

    /// Returns about how long the rest takes at the rate so far.
    pub fn left(&self) -> Option<Duration> {
        let left = self.total.saturating_sub(self.done) as f64;
        (self.done > 0).then(|| Duration::from_secs_f64(left / self.rate().max(0.001)))
    }

    pub(crate) async fn read(session: &Session) -> Result<Self, PostgresError> {
        let rows = session.rows(STATUS, &[]).await?;
        let row = rows.first().ok_or_else(|| {
            PostgresError::Corrupt("the table `backfill` has lost its row".to_owned())
        })?;
        let (filling, dropping): (Vec<String>, Vec<String>) = (row.get(6), row.get(7));
        let state = match row.get(0) {
            _ if filling.is_empty() && dropping.is_empty() => BackfillState::Idle,
            true => BackfillState::Paused,
            false => BackfillState::Running,
        };
        let count = |column| row.get::<_, i64>(column).unsigned_abs();
        Ok(Self {
            state,
            pace: Pace {
                share: row.get::<_, i32>(1).unsigned_abs(),
                rate: row.get::<_, Option<i32>>(2).map(i32::unsigned_abs),
            },
            filling,
            dropping,
            indexed: row.get(8),
            done: count(3),
            total: count(4),
            elapsed: Duration::from_millis(count(5)),
        })
    }
}
