//! Who looked at whose page: the last visitors, newest first, each once.
//!
//! Footprints are written only by an explicit call, between members who have both switched them on.

use std::sync::Arc;

use hikyaku_tables::{Change, Stamp, Table, Update};

use crate::{MemberNumber, MembersError};

/// How much is kept of a page's visitors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FootprintLimits {
    /// Visitors kept per page; no more than [`FootprintLimits::VISITORS_MAX`].
    pub visitors_max: usize,
    /// Seconds after which a footprint is gone.
    pub seconds_max: u64,
}

impl FootprintLimits {
    /// What a record has room for.
    pub const VISITORS_MAX: usize = 60;
}

impl Default for FootprintLimits {
    fn default() -> Self {
        Self {
            visitors_max: Self::VISITORS_MAX,
            seconds_max: 90 * 24 * 60 * 60,
        }
    }
}

/// One footprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// Who looked.
    pub visitor: MemberNumber,
    /// When, in Unix seconds.
    pub at: u64,
}

impl Visit {
    /// Bytes of one footprint.
    pub(crate) const LEN: usize = 8;

    // FORMAT: the visitor's number, the Unix seconds (until 2106); 32 bits each, big-endian, so that
    // a comparison of bytes is one of numbers.
    fn encode(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let (visitor, at) = bytes.split_at_mut(4);
        visitor.copy_from_slice(&self.visitor.get().to_be_bytes());
        at.copy_from_slice(&seconds(self.at).to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (visitor, at) = bytes.split_first_chunk()?;
        Some(Self {
            visitor: MemberNumber::new(u32::from_be_bytes(*visitor))?,
            at: u32::from_be_bytes(at.try_into().ok()?).into(),
        })
    }
}

fn seconds(at: u64) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[derive(Debug)]
pub(crate) struct Footprints {
    table: Arc<dyn Table>,
    settings: Arc<dyn Table>,
    limits: FootprintLimits,
}

impl Footprints {
    pub(crate) fn new(
        table: Arc<dyn Table>,
        settings: Arc<dyn Table>,
        limits: FootprintLimits,
    ) -> Self {
        let visitors_max = limits.visitors_max.clamp(1, FootprintLimits::VISITORS_MAX);
        Self {
            table,
            settings,
            limits: FootprintLimits {
                visitors_max,
                ..limits
            },
        }
    }

    /// Tells whether a member takes part.
    pub(crate) fn are_on(&self, member: MemberNumber) -> Result<bool, MembersError> {
        let mut value = Vec::with_capacity(1);
        let there = self.settings.get(member.key().as_bytes(), 0, &mut value)?;
        Ok(there.is_some() && value == [1])
    }

    /// Switches on or off; off takes the page's footprints away, and those left on other pages from
    /// view.
    pub(crate) fn switch(
        &self,
        member: MemberNumber,
        on: bool,
        stamp: Stamp,
    ) -> Result<(), MembersError> {
        let key = member.key();
        let change = if on {
            Change::Put(&[1])
        } else {
            Change::Remove
        };
        self.settings
            .update(&Update::new(key.as_bytes(), change), stamp)?;
        if !on {
            self.table
                .update(&Update::new(key.as_bytes(), Change::Remove), stamp)?;
        }
        Ok(())
    }

    /// Leaves a footprint, in one write of one array; false where one of the two does not take part,
    /// or looks at the own page.
    pub(crate) fn leave(
        &self,
        visitor: MemberNumber,
        page_of: MemberNumber,
        stamp: Stamp,
    ) -> Result<bool, MembersError> {
        if visitor == page_of || !self.are_on(visitor)? || !self.are_on(page_of)? {
            return Ok(false);
        }
        let at = stamp.seconds();
        let change = Change::RotateEntry {
            entry: &Visit { visitor, at }.encode(),
            size: Some(self.limits.visitors_max * Visit::LEN),
            identity: 4,
            not_before: &seconds(self.oldest(at)).to_be_bytes(),
        };
        self.table
            .update(&Update::new(page_of.key().as_bytes(), change), stamp)?;
        Ok(true)
    }

    /// Lists the visitors of a page, newest first.
    pub(crate) fn of(&self, page_of: MemberNumber, now: u64) -> Result<Vec<Visit>, MembersError> {
        let mut value = Vec::with_capacity(self.limits.visitors_max * Visit::LEN);
        let key = page_of.key();
        if self.table.get(key.as_bytes(), 0, &mut value)?.is_none() {
            return Ok(Vec::new());
        }
        let mut visits = Vec::with_capacity(value.len() / Visit::LEN);
        for entry in value.rchunks_exact(Visit::LEN) {
            let visit = Visit::decode(entry).ok_or_else(|| MembersError::Corrupt {
                table: "footprints",
                key: key.clone(),
            })?;
            if visit.at >= self.oldest(now) && self.are_on(visit.visitor)? {
                visits.push(visit);
            }
        }
        Ok(visits)
    }

    fn oldest(&self, now: u64) -> u64 {
        now.saturating_sub(self.limits.seconds_max)
    }
}
