//! The words that stand for a key of a fixed table.

use hikyaku_tables::{Condition, Kind, Outcome, Stamp, Table, TableError, Update};

/// A word instead of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// The first record.
    Min,
    /// The last record.
    Max,
    /// A new record before the first.
    Previous,
    /// A new record behind the last.
    Next,
}

impl Word {
    /// Reads a key as a word, which it only is in a fixed table.
    pub(super) fn of(table: &dyn Table, key: &[u8]) -> Option<Self> {
        let word = match key {
            b"min" => Self::Min,
            b"max" => Self::Max,
            b"prev" => Self::Previous,
            b"next" => Self::Next,
            _ => return None,
        };
        (table.kind() == Kind::Fixed).then_some(word)
    }

    /// Returns the key that it stands for now; `None`: there is none.
    pub(super) fn key(self, table: &dyn Table) -> Result<Option<Vec<u8>>, TableError> {
        let edge = match self {
            Self::Min | Self::Previous => table.keys_after(None, 1)?.pop(),
            Self::Max | Self::Next => table.last_key()?,
        };
        let number = |key: &[u8]| std::str::from_utf8(key).ok()?.parse::<u64>().ok();
        let neighbour = match self {
            Self::Min | Self::Max => return Ok(edge),
            Self::Previous => edge
                .and_then(|key| number(&key)?.checked_sub(1))
                .filter(|key| *key > 0),
            Self::Next => match edge {
                Some(key) => number(&key).and_then(|key| key.checked_add(1)),
                None => Some(1),
            },
        };
        Ok(neighbour.map(|key| key.to_string().into_bytes()))
    }

    /// Changes the record that it stands for. `prev` and `next` make a new one: two clients that do
    /// so at once make two.
    pub(super) fn update(
        self,
        table: &dyn Table,
        update: &Update<'_>,
        stamp: Stamp,
    ) -> Result<Outcome, TableError> {
        loop {
            let Some(key) = self.key(table)? else {
                return Ok(Outcome::NotFound);
            };
            let makes_new = matches!(self, Self::Previous | Self::Next);
            let update = Update {
                key: &key,
                condition: if makes_new {
                    Condition::Absent
                } else {
                    update.condition
                },
                ..*update
            };
            match table.update(&update, stamp)? {
                Outcome::NotStored if makes_new => {}
                outcome => return Ok(outcome),
            }
        }
    }
}
