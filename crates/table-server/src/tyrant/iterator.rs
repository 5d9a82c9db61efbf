//! A connection's walk over the keys of the default table.

use std::collections::VecDeque;

use hikyaku_tables::{Table, TableError};

/// Keys that are read ahead.
const AHEAD: usize = 64;

/// Where a walk is.
#[derive(Debug, Default)]
pub(super) enum KeyIterator {
    /// Not begun, or at its end.
    #[default]
    Resting,
    /// Under way.
    Walking {
        /// Keys that come next.
        ahead: VecDeque<Vec<u8>>,
        /// The last key that was read (`None`: none yet).
        last: Option<Vec<u8>>,
    },
}

impl KeyIterator {
    /// Begins at the first key.
    pub(super) fn begin() -> Self {
        Self::Walking {
            ahead: VecDeque::new(),
            last: None,
        }
    }

    /// Begins at a key, or behind it if it is not there.
    pub(super) fn begin_at(table: &dyn Table, key: &[u8], now: u64) -> Result<Self, TableError> {
        let is_there = table.size(key, now)?.is_some();
        Ok(Self::Walking {
            ahead: is_there.then(|| key.to_vec()).into_iter().collect(),
            last: Some(key.to_vec()),
        })
    }

    /// Returns the next key; `None` at the end, and before a beginning.
    pub(super) fn next(&mut self, table: &dyn Table) -> Result<Option<Vec<u8>>, TableError> {
        let Self::Walking { ahead, last } = self else {
            return Ok(None);
        };
        if ahead.is_empty() {
            ahead.extend(table.keys_after(last.as_deref(), AHEAD)?);
            if let Some(key) = ahead.back() {
                *last = Some(key.clone());
            }
        }
        let key = ahead.pop_front();
        if key.is_none() {
            *self = Self::Resting;
        }
        Ok(key)
    }
}
