//! How fast a client may go: the generic cell rate algorithm (ITU-T I.371), one number per client.
//!
//! The number is the time at which all that the client has done would have been done at the allowed
//! rate. It may run ahead of the clock by as much as a burst takes.

use hikyaku_tables::{
    Attributes, Change, Condition, Found, MemoryOptions, MemoryTable, Outcome, Stamp, Table as _,
    TableError, Update,
};

/// So many units a minute, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Units a minute, on the long run; 0 is none at all.
    pub per_minute: u32,
    /// Units that may come at once after a pause; at least 1.
    pub burst: u32,
}

const MICROSECONDS_PER_MINUTE: u64 = 60_000_000;

impl Rate {
    fn interval_us(self) -> u64 {
        MICROSECONDS_PER_MINUTE / u64::from(self.per_minute.max(1))
    }
}

/// The state of every client that was not idle for longer than its burst takes.
#[derive(Debug)]
pub struct RateLimits {
    table: MemoryTable,
}

impl RateLimits {
    /// Keeps the state in at most so many bytes of memory.
    pub fn new(limit_bytes: u64) -> Self {
        let options = MemoryOptions {
            limit_bytes,
            ..MemoryOptions::default()
        };
        Self {
            table: MemoryTable::new(options, None),
        }
    }

    /// Forgets clients that were idle long enough, looking at about `slots` places and going on
    /// where the last sweep stopped. `now`: Unix seconds.
    pub fn sweep(&self, now: u64, slots: usize) {
        let _gone = self.table.sweep(now, slots);
    }

    /// Takes units for a client, or tells how many seconds it should wait, in which case none were
    /// taken. A client that there is no room to watch is let pass.
    pub fn take(
        &self,
        client: &[u8],
        units: u32,
        rate: Rate,
        stamp: Stamp,
    ) -> Result<Result<(), u64>, TableError> {
        let interval = rate.interval_us();
        let burst = interval.saturating_mul(rate.burst.max(1).into());
        let cost = interval.saturating_mul(units.into());
        let mut value = Vec::with_capacity(8);
        loop {
            let found = self.table.get(client, stamp.seconds(), &mut value)?;
            let then = busy_until(found, &value)
                .max(stamp.at_us)
                .saturating_add(cost);
            let excess = then.saturating_sub(stamp.at_us.saturating_add(burst));
            if rate.per_minute == 0 || excess > 0 {
                return Ok(Err(excess.div_ceil(1_000_000).max(1)));
            }
            if self.set(client, found, then, stamp)? {
                return Ok(Ok(()));
            }
        }
    }

    /// Takes units that a client has had elsewhere: more than it is allowed, too, but nobody waits
    /// longer for it than for one who has spent all at once.
    pub fn charge(
        &self,
        client: &[u8],
        units: u32,
        rate: Rate,
        stamp: Stamp,
    ) -> Result<(), TableError> {
        let interval = rate.interval_us();
        let burst = interval.saturating_mul(rate.burst.max(1).into());
        let cost = interval.saturating_mul(units.into());
        let mut value = Vec::with_capacity(8);
        loop {
            let found = self.table.get(client, stamp.seconds(), &mut value)?;
            let then = busy_until(found, &value).max(stamp.at_us);
            let most = stamp.at_us.saturating_add(burst).max(then);
            if self.set(client, found, then.saturating_add(cost).min(most), stamp)? {
                return Ok(());
            }
        }
    }

    /// Sets a client's number; tells whether nobody else has meanwhile.
    fn set(
        &self,
        client: &[u8],
        found: Option<Found>,
        then: u64,
        stamp: Stamp,
    ) -> Result<bool, TableError> {
        let condition = match found {
            Some(found) => Condition::Unique(found.unique),
            None => Condition::Absent,
        };
        let update = Update {
            key: client,
            condition,
            change: Change::Put(&then.to_le_bytes()),
            attributes: Attributes {
                flags: 0,
                expires_at: then / 1_000_000 + 1,
            },
        };
        match self.table.update(&update, stamp) {
            Ok(Outcome::Stored { .. }) | Err(TableError::Full) => Ok(true),
            Ok(_) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Returns until when a client's units last.
fn busy_until(found: Option<Found>, value: &[u8]) -> u64 {
    match value.try_into() {
        Ok(bytes) if found.is_some() => u64::from_le_bytes(bytes),
        _ => 0,
    }
}
