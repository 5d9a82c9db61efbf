//! How long a key has been known here: since it first tried to write.

use std::{sync::Arc, time::Duration};

use hikyaku_event::PublicKey;
use hikyaku_tables::{
    Attributes, Change, Condition, Found, Outcome, Stamp, Table, TableError, Update,
};

/// A key that does not come back for so long after it would have been old enough is forgotten, lest
/// keys that somebody makes up take room for ever.
const FORGOTTEN_AFTER: u64 = 30 * 24 * 60 * 60;
/// One that was old enough when it last wrote is known for so long. That it has written is taken down
/// when half of it is over.
const KEPT_FOR: u64 = 2 * 365 * 24 * 60 * 60;
/// Keys that are known at most: some hundred bytes of disk for each.
const KEYS_MAX: u64 = 5_000_000;
/// Records looked at before others have their turn.
const SWEPT_AT_ONCE: usize = 10_000;
/// The part of all records that one sweep looks at.
const SWEPT_PART: u64 = 100;

/// When each key first tried to write, in a table of the application's.
#[derive(Debug, Clone)]
pub(crate) struct Ages {
    first_tries: Arc<dyn Table>,
    least: u64,
    keys_max: u64,
}

/// How a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Age {
    /// It may write.
    OldEnough,
    /// It must wait for so many seconds.
    New(u64),
    /// There is no room to take down that it is new.
    Unknown,
}

impl Ages {
    pub(crate) fn new(first_tries: Arc<dyn Table>, least: Duration) -> Self {
        Self {
            first_tries,
            least: least.as_secs(),
            keys_max: KEYS_MAX,
        }
    }

    /// Returns how a key stands that tries to write `now` (seconds since 1970). The first try is taken
    /// down.
    pub(crate) async fn of(&self, key: &PublicKey, now: u64) -> Result<Age, TableError> {
        let (first, kept_until) = match self.find(key, now)? {
            Some((first, found)) => (first, Some(found.expires_at)),
            None if self.first_tries.count() >= self.keys_max => return Ok(Age::Unknown),
            None => (now, None),
        };
        let wait = (first + self.least).saturating_sub(now);
        let until = match wait {
            0 => now + KEPT_FOR,
            _ => first + self.least + FORGOTTEN_AFTER,
        };
        let is_noted = match kept_until {
            None => false,
            // It is kept for ever.
            Some(0) => true,
            Some(known) => wait > 0 || known >= now + KEPT_FOR / 2,
        };
        if !is_noted {
            // A table may wait for its disk, and a worker may not.
            let (ages, key) = (self.clone(), *key);
            hikyaku_server::blocking(move || ages.note(&key, now, until)).await?;
        }
        Ok(match wait {
            0 => Age::OldEnough,
            wait => Age::New(wait),
        })
    }

    /// Forgets keys that never came back: looks at a part of them, the larger the more there are.
    pub(crate) async fn sweep(&self, now: u64) -> Result<(), TableError> {
        for _ in 0..steps(self.first_tries.count()) {
            let table = Arc::clone(&self.first_tries);
            hikyaku_server::blocking(move || table.sweep(now, SWEPT_AT_ONCE)).await?;
        }
        Ok(())
    }

    fn find(&self, key: &PublicKey, now: u64) -> Result<Option<(u64, Found)>, TableError> {
        let mut value = Vec::new();
        let found = self.first_tries.get(key.as_bytes(), now, &mut value)?;
        let first = value.as_slice().try_into().map(u64::from_le_bytes).ok();
        Ok(first.zip(found))
    }

    /// Takes a first try down, or until when a key is to be known.
    fn note(&self, key: &PublicKey, now: u64, until: u64) -> Result<Outcome, TableError> {
        let (first, value) = (self.find(key, now)?, now.to_le_bytes());
        let update = Update {
            condition: match first {
                Some(_) => Condition::Present,
                None => Condition::Absent,
            },
            attributes: Attributes {
                flags: 0,
                expires_at: until,
            },
            ..Update::new(
                key.as_bytes(),
                match first {
                    Some(_) => Change::Touch,
                    None => Change::Put(&value),
                },
            )
        };
        let stamp = Stamp {
            at_us: now.saturating_mul(1_000_000),
            origin: 0,
        };
        self.first_tries.update(&update, stamp)
    }
}

/// Returns how many steps a sweep has that looks at its part of so many records.
fn steps(records: u64) -> u64 {
    1 + records / (SWEPT_PART * SWEPT_AT_ONCE as u64)
}

#[cfg(test)]
mod tests {
    use hikyaku_tables::{MemoryOptions, MemoryTable};

    use super::*;

    fn ages(least: u64) -> (Arc<MemoryTable>, Ages) {
        let table = Arc::new(MemoryTable::new(MemoryOptions::default(), None));
        let ages = Ages::new(table.clone(), Duration::from_secs(least));
        (table, ages)
    }

    fn key(number: u32) -> PublicKey {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        PublicKey::new(bytes)
    }

    #[tokio::test]
    async fn a_key_ages_from_its_first_try() {
        let (table, ages) = ages(100);
        let (one, other) = (key(1), key(2));
        for (key, now, age) in [
            (one, 1000, Age::New(100)),
            (one, 1000, Age::New(100)),
            (one, 1001, Age::New(99)),
            (other, 1050, Age::New(100)),
            (one, 1099, Age::New(1)),
            (one, 1100, Age::OldEnough),
            (other, 1100, Age::New(50)),
        ] {
            assert_eq!(ages.of(&key, now).await.unwrap(), age, "{key} at {now}");
        }
        // The one that came back is known for long, and longer if it writes; the other is forgotten.
        let later = 1100 + 2 * FORGOTTEN_AFTER;
        ages.sweep(later).await.unwrap();
        assert_eq!(table.count(), 1);
        assert_eq!(ages.of(&other, later).await.unwrap(), Age::New(100));
        let mut now = 1100;
        for _ in 0..3 {
            now += KEPT_FOR - 1;
            assert_eq!(ages.of(&one, now).await.unwrap(), Age::OldEnough);
        }
        now += KEPT_FOR;
        assert_eq!(ages.of(&one, now).await.unwrap(), Age::New(100));
    }

    /// Counts what is written.
    fn until(table: &MemoryTable, key: &PublicKey, now: u64) -> u64 {
        let found = table.get(key.as_bytes(), now, &mut Vec::new()).unwrap();
        found.unwrap().expires_at
    }

    #[tokio::test]
    async fn a_key_that_is_known_is_written_down_only_when_half_its_time_is_over() {
        let (table, ages) = ages(100);
        let one = key(1);
        for now in [1000, 1000, 1050] {
            ages.of(&one, now).await.unwrap();
            assert_eq!(until(&table, &one, now), 1100 + FORGOTTEN_AFTER, "{now}");
        }
        for (now, expected) in [
            (1100, 1100 + KEPT_FOR),
            (1101, 1100 + KEPT_FOR),
            (1100 + KEPT_FOR / 2, 1100 + KEPT_FOR),
            (1101 + KEPT_FOR / 2, 1101 + KEPT_FOR / 2 + KEPT_FOR),
        ] {
            ages.of(&one, now).await.unwrap();
            assert_eq!(until(&table, &one, now), expected, "{now}");
        }
    }

    #[tokio::test]
    async fn keys_beyond_what_there_is_room_for_are_not_taken_down() {
        let (table, mut ages) = ages(100);
        ages.keys_max = 3;
        for n in 0..3 {
            assert_eq!(ages.of(&key(n), 1000).await.unwrap(), Age::New(100));
        }
        assert_eq!(ages.of(&key(3), 1001).await.unwrap(), Age::Unknown);
        assert_eq!(table.count(), 3);
        assert_eq!(ages.of(&key(0), 1100).await.unwrap(), Age::OldEnough);
    }

    #[test]
    fn a_hundred_sweeps_look_at_all_keys_however_many_there_are() {
        for records in [0, 1, 999_999, 1_000_000, KEYS_MAX] {
            let seen = 100 * steps(records) * SWEPT_AT_ONCE as u64;
            assert!(seen >= records && seen <= records + 1_000_000, "{records}");
        }
    }
}
