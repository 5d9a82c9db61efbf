//! The fixed table as a [`Table`].

use std::path::Path;

use super::{
    key::{Digits, number},
    layout::VANISHING_OFFSET,
    records::disk_error,
    table::{FixedTable, locked, unique},
};
use crate::{
    Attributes, Change, Condition, Effect, Found, Interval, Kind, Outcome, Stamp, Table,
    TableError, Update,
};

impl FixedTable {
    /// Reads a key.
    fn key(&self, bytes: &[u8]) -> Result<u64, TableError> {
        number(bytes)?.ok_or_else(|| TableError::KeyTooLarge {
            limit: self.limit(),
        })
    }
}

fn without_attributes(attributes: Attributes) -> Result<(), TableError> {
    if attributes == Attributes::default() {
        Ok(())
    } else {
        Err(TableError::NoAttributes)
    }
}

impl Table for FixedTable {
    fn kind(&self) -> Kind {
        Kind::Fixed
    }

    fn updates_wait(&self) -> bool {
        false
    }

    fn width(&self) -> Option<usize> {
        Some(self.width())
    }

    fn get(&self, key: &[u8], _now: u64, value: &mut Vec<u8>) -> Result<Option<Found>, TableError> {
        let found = self.get_vec(self.key(key)?, value)?;
        Ok(found.then(|| Found {
            flags: 0,
            expires_at: 0,
            unique: unique(value),
        }))
    }

    fn size(&self, key: &[u8], _now: u64) -> Result<Option<usize>, TableError> {
        self.value_len(self.key(key)?)
    }

    fn update(&self, update: &Update<'_>, stamp: Stamp) -> Result<Outcome, TableError> {
        without_attributes(update.attributes)?;
        let key = self.key(update.key)?;
        if let (Condition::Any, Change::Put(value)) = (update.condition, update.change) {
            // Without zeros before it, it is written as the table would write it.
            let digits = (!update.key.starts_with(b"0")).then_some(update.key);
            self.put_named(key, digits, value, stamp)?;
            return Ok(Outcome::Stored {
                unique: unique(value),
            });
        }
        self.change(key, update.condition, update.change, stamp)
    }

    fn check(&self, key: &[u8], value_bytes: usize) -> Result<(), TableError> {
        self.records().index(self.key(key)?)?;
        let limit = self.width();
        if value_bytes > limit {
            return Err(TableError::ValueTooLong { limit });
        }
        Ok(())
    }

    fn apply(&self, effect: Effect<'_>, stamp: Stamp) -> Result<(), TableError> {
        let (key, change) = match effect {
            Effect::Put {
                key,
                value,
                attributes,
            } => {
                without_attributes(attributes)?;
                (key, Change::Put(value))
            }
            Effect::Remove { key } => (key, Change::Remove),
            Effect::Vanish => return self.vanish(stamp),
        };
        self.change(self.key(key)?, Condition::Any, change, stamp)
            .map(|_| ())
    }

    fn count(&self) -> u64 {
        self.counted()
    }

    fn bytes(&self) -> u64 {
        let map = self.records().map();
        map.disk_bytes().unwrap_or_else(|_| map.len())
    }

    fn keys_after(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<Vec<u8>>, TableError> {
        let start = match after {
            None => 0,
            Some(key) => number(key)?.unwrap_or(u64::MAX),
        };
        Ok(self.key_bytes(start..u64::MAX, limit))
    }

    fn last_key(&self) -> Result<Option<Vec<u8>>, TableError> {
        Ok(self.last().map(|key| Digits::default().of(key).to_vec()))
    }

    fn range(&self, interval: &Interval, limit: usize) -> Result<Vec<Vec<u8>>, TableError> {
        self.keys_within(interval, limit)
    }

    fn with_prefix(&self, _prefix: &[u8], _limit: usize) -> Result<Vec<Vec<u8>>, TableError> {
        Err(TableError::Unsupported {
            kind: "fixed",
            what: "list by prefix",
        })
    }

    fn vanish(&self, stamp: Stamp) -> Result<(), TableError> {
        let _alone = locked(&self.maintenance);
        let all = self.lock_all();
        let records = self.records();
        let map = records.map();
        self.tell_vanish(stamp)?;
        all.write(|| {
            // If the process ends in between, the next one that opens the table goes on with it.
            map.store_u64(VANISHING_OFFSET, 1);
            let cleared = map.clear(records.layout().records_offset..map.len());
            map.store_u64(VANISHING_OFFSET, 0);
            all.set_count(match &cleared {
                Ok(()) => {
                    records.blocks.clear_all();
                    0
                }
                // Some records may be gone.
                Err(_) => records.scan(),
            });
            cleared.map_err(disk_error)
        })
    }

    fn optimise(&self, options: &str) -> Result<(), TableError> {
        self.resize(options)
    }

    fn copy(&self, to: &Path) -> Result<(), TableError> {
        self.copy_to(to)
    }

    fn sync(&self) -> Result<(), TableError> {
        self.sync_now()
    }
}
