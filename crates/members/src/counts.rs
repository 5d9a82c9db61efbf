//! How many events of which kind each member wrote.

use std::sync::Arc;

use hikyaku_event::Kind;
use hikyaku_tables::{Change, IntegerWidth, Stamp, Table, TableError, Update};

use crate::{MemberNumber, MembersError};

/// A kind is a number of 16 bits.
const KINDS_MAX: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct Counts {
    /// In order, so that a member's kinds stand together.
    table: Arc<dyn Table>,
}

impl Counts {
    pub(crate) fn new(table: Arc<dyn Table>) -> Self {
        Self { table }
    }

    /// Adds to many counts in one go.
    pub(crate) fn add(
        &self,
        counts: &[(MemberNumber, Kind, i64)],
        stamp: Stamp,
    ) -> Result<(), MembersError> {
        let keys: Vec<_> = counts
            .iter()
            .map(|(member, kind, _)| key(*member, *kind))
            .collect();
        let updates: Vec<_> = keys
            .iter()
            .zip(counts)
            .map(|(key, (_, _, by))| {
                let change = Change::AddInteger {
                    by: *by,
                    width: IntegerWidth::Eight,
                };
                Update::new(key, change)
            })
            .collect();
        self.update(&updates, stamp)
    }

    /// Lists a member's counts, by kind.
    pub(crate) fn of(&self, member: MemberNumber) -> Result<Vec<(Kind, u64)>, MembersError> {
        let mut found = Vec::new();
        let mut value = Vec::with_capacity(8);
        for name in self.names(member)? {
            let kind = name
                .last_chunk()
                .map(|kind| Kind(u16::from_be_bytes(*kind)));
            let there = self.table.get(&name, 0, &mut value)?.is_some();
            let count = value.as_slice().try_into().map(u64::from_le_bytes);
            match (kind, count) {
                (Some(kind), Ok(count)) if there => found.push((kind, count)),
                // Forgotten meanwhile.
                _ if !there => {}
                _ => {
                    return Err(MembersError::Corrupt {
                        table: "counts",
                        key: name.escape_ascii().to_string(),
                    });
                }
            }
        }
        Ok(found)
    }

    pub(crate) fn forget(&self, member: MemberNumber, stamp: Stamp) -> Result<(), MembersError> {
        let names = self.names(member)?;
        let updates: Vec<_> = names
            .iter()
            .map(|name| Update::new(name, Change::Remove))
            .collect();
        self.update(&updates, stamp)
    }

    fn update(&self, updates: &[Update<'_>], stamp: Stamp) -> Result<(), MembersError> {
        let mut outcomes = Vec::with_capacity(updates.len());
        self.table.update_all(updates, stamp, &mut outcomes);
        outcomes
            .into_iter()
            .try_for_each(|outcome| outcome.map(drop))?;
        Ok(())
    }

    fn names(&self, member: MemberNumber) -> Result<Vec<Vec<u8>>, TableError> {
        self.table
            .with_prefix(&member.get().to_be_bytes(), KINDS_MAX)
    }
}

// FORMAT: member's number (32 bits, big-endian), kind (16 bits, big-endian).
fn key(member: MemberNumber, kind: Kind) -> [u8; 6] {
    let mut key = [0; 6];
    let (number, of) = key.split_at_mut(4);
    number.copy_from_slice(&member.get().to_be_bytes());
    of.copy_from_slice(&kind.0.to_be_bytes());
    key
}
