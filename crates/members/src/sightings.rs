//! When members were last here, and how many came on each day.

use std::sync::Arc;

use hikyaku_tables::{Change, IntegerWidth, Stamp, Table, Update};

use crate::{MemberNumber, MembersError};

/// The family of the address that a member was last seen at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// When and how a member was last here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// Unix seconds.
    pub at: u64,
    /// From where.
    pub family: AddressFamily,
}

impl Sighting {
    /// Bytes of a record.
    const LEN: usize = 9;

    // FORMAT: seconds (64 bits, little-endian), 4 or 6.
    fn encode(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let (at, family) = bytes.split_at_mut(8);
        at.copy_from_slice(&self.at.to_le_bytes());
        family.fill(match self.family {
            AddressFamily::V4 => 4,
            AddressFamily::V6 => 6,
        });
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (at, family) = bytes.split_first_chunk()?;
        Some(Self {
            at: u64::from_le_bytes(*at),
            family: match family {
                [4] => AddressFamily::V4,
                [6] => AddressFamily::V6,
                _ => return None,
            },
        })
    }
}

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

#[derive(Debug)]
pub(crate) struct Sightings {
    seen: Arc<dyn Table>,
    days: Arc<dyn Table>,
}

impl Sightings {
    pub(crate) fn new(seen: Arc<dyn Table>, days: Arc<dyn Table>) -> Self {
        Self { seen, days }
    }

    pub(crate) fn last(&self, member: MemberNumber) -> Result<Option<Sighting>, MembersError> {
        let mut value = Vec::with_capacity(Sighting::LEN);
        let key = member.key();
        if self.seen.get(key.as_bytes(), 0, &mut value)?.is_none() {
            return Ok(None);
        }
        let sighting = Sighting::decode(&value);
        sighting
            .map(Some)
            .ok_or(MembersError::Corrupt { table: "seen", key })
    }

    /// Takes a sighting down, if it is later than the last, and counts who is new on a day. One
    /// thread at a time, or a member may be counted twice on a day.
    pub(crate) fn see(
        &self,
        member: MemberNumber,
        sighting: Sighting,
        stamp: Stamp,
    ) -> Result<(), MembersError> {
        let last = self.last(member)?;
        if last.is_some_and(|last| last.at >= sighting.at) {
            return Ok(());
        }
        let record = sighting.encode();
        let update = (member.key(), Change::Put(&record));
        self.seen
            .update(&Update::new(update.0.as_bytes(), update.1), stamp)?;
        let day = sighting.at / SECONDS_PER_DAY;
        if last.is_none_or(|last| last.at / SECONDS_PER_DAY != day) {
            let change = Change::AddInteger {
                by: 1,
                width: IntegerWidth::Eight,
            };
            // Days are numbered from 1: the first of January 1970.
            let key = (day + 1).to_string();
            self.days
                .update(&Update::new(key.as_bytes(), change), stamp)?;
        }
        Ok(())
    }

    pub(crate) fn forget(&self, member: MemberNumber, stamp: Stamp) -> Result<(), MembersError> {
        let key = member.key();
        self.seen
            .update(&Update::new(key.as_bytes(), Change::Remove), stamp)?;
        Ok(())
    }

    /// Returns how many members were seen on the day of this time (UTC).
    pub(crate) fn on_day_of(&self, at: u64) -> Result<u64, MembersError> {
        let key = (at / SECONDS_PER_DAY + 1).to_string();
        let mut value = Vec::with_capacity(8);
        if self.days.get(key.as_bytes(), 0, &mut value)?.is_none() {
            return Ok(0);
        }
        let bytes = value.try_into();
        let bytes = bytes.map_err(|_| MembersError::Corrupt { table: "days", key })?;
        Ok(u64::from_le_bytes(bytes))
    }
}
