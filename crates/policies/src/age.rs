//! How long a key has been known here: since it first tried to write.

use std::{sync::Arc, time::Duration};

use hikyaku_event::PublicKey;
use hikyaku_tables::{
    Attributes, Change, Condition, Found, Outcome, Stamp, Table, TableError, Update,
};

/// A key that does not come back for so long after it would have been old enough is forgotten, lest
/// keys that somebody makes up take room for ever. One that does is kept.
const FORGOTTEN_AFTER: u64 = 30 * 24 * 60 * 60;
/// Records looked at in one sweep.
const SWEPT: usize = 10_000;

/// When each key first tried to write, in a table of the application's.
#[derive(Debug, Clone)]
pub(crate) struct Ages {
    first_tries: Arc<dyn Table>,
    least: u64,
}

impl Ages {
    pub(crate) fn new(first_tries: Arc<dyn Table>, least: Duration) -> Self {
        Self {
            first_tries,
            least: least.as_secs(),
        }
    }

    /// Returns how many seconds a key must wait until it is old enough; 0 from then on. The first
    /// try is taken down. `now`: seconds since 1970.
    pub(crate) async fn wait(&self, key: &PublicKey, now: u64) -> Result<u64, TableError> {
        let (first, is_kept) = match self.find(key, now)? {
            Some((first, found)) => (first, found.expires_at == 0),
            None => (now, false),
        };
        let wait = (first + self.least).saturating_sub(now);
        if is_kept || wait > 0 && first != now {
            return Ok(wait);
        }
        // A table may wait for its disk, and a worker may not.
        let (ages, key) = (self.clone(), *key);
        hikyaku_server::blocking(move || ages.note(&key, now, wait == 0)).await?;
        Ok(wait)
    }

    /// Forgets keys that never came back.
    pub(crate) async fn sweep(&self, now: u64) -> Result<(), TableError> {
        let table = Arc::clone(&self.first_tries);
        hikyaku_server::blocking(move || table.sweep(now, SWEPT)).await?;
        Ok(())
    }

    fn find(&self, key: &PublicKey, now: u64) -> Result<Option<(u64, Found)>, TableError> {
        let mut value = Vec::new();
        let found = self.first_tries.get(key.as_bytes(), now, &mut value)?;
        let first = value.as_slice().try_into().map(u64::from_le_bytes).ok();
        Ok(first.zip(found))
    }

    /// Takes a first try down, or that a key is to be kept.
    fn note(&self, key: &PublicKey, now: u64, is_old: bool) -> Result<Outcome, TableError> {
        let (first, value) = (self.find(key, now)?, now.to_le_bytes());
        let update = Update {
            condition: match first {
                Some(_) => Condition::Present,
                None => Condition::Absent,
            },
            attributes: Attributes {
                flags: 0,
                expires_at: if is_old {
                    0
                } else {
                    now + self.least + FORGOTTEN_AFTER
                },
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

#[cfg(test)]
mod tests {
    use hikyaku_tables::{MemoryOptions, MemoryTable};

    use super::*;

    #[tokio::test]
    async fn a_key_ages_from_its_first_try() {
        let table = Arc::new(MemoryTable::new(MemoryOptions::default(), None));
        let ages = Ages::new(table.clone(), Duration::from_secs(100));
        let (one, other) = (PublicKey::new([1; 32]), PublicKey::new([2; 32]));
        for (key, now, wait) in [
            (one, 1000, 100),
            (one, 1001, 99),
            (other, 1050, 100),
            (one, 1099, 1),
            (one, 1100, 0),
            (other, 1100, 50),
        ] {
            assert_eq!(ages.wait(&key, now).await.unwrap(), wait, "{key} at {now}");
        }
        // The one that came back is kept for ever, the other one is forgotten.
        let later = 1100 + 2 * FORGOTTEN_AFTER;
        ages.sweep(later).await.unwrap();
        assert_eq!(table.count(), 1);
        assert_eq!(ages.wait(&one, later).await.unwrap(), 0);
        assert_eq!(ages.wait(&other, later).await.unwrap(), 100);
    }
}
