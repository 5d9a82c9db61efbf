//! All that is known about members, in one place.

use std::sync::Arc;

use hikyaku_event::{Kind, PublicKey};
use hikyaku_tables::{Stamp, Table};

use crate::{
    FootprintLimits, MemberNumber, MembersError, Sighting, Visit, counts::Counts,
    footprints::Footprints, registry::Registry, sightings::Sightings,
};

/// The tables of the members. All but the counts are arrays with a slot per member.
#[derive(Debug, Clone)]
pub struct MemberTables {
    /// Public keys, by number.
    pub keys: Arc<dyn Table>,
    /// When each was last seen.
    pub seen: Arc<dyn Table>,
    /// How many were seen on each day.
    pub days: Arc<dyn Table>,
    /// Events by member and kind; ordered.
    pub counts: Arc<dyn Table>,
    /// Visitors of each member's page.
    pub footprints: Arc<dyn Table>,
    /// What each has switched on.
    pub settings: Arc<dyn Table>,
}

impl MemberTables {
    /// The tables, as `hikyaku-tables` opens them: name and description. Arrays grow as members come;
    /// the limits allow for 30 million (the footprints, of which few have any, for 8 million).
    pub const DESCRIPTIONS: [(&'static str, &'static str); 6] = [
        ("keys", "keys.fixed?width=32&limit=1g"),
        ("seen", "seen.fixed?width=9&limit=1g"),
        ("days", "days.fixed?width=8&limit=1m"),
        ("counts", "counts.ordered"),
        ("footprints", "footprints.fixed?width=480&limit=4g"),
        ("settings", "settings.fixed?width=1&limit=64m"),
    ];

    /// Takes the tables of the [descriptions](Self::DESCRIPTIONS) by their names; none if one is
    /// missing.
    pub fn find(table: impl Fn(&str) -> Option<Arc<dyn Table>>) -> Option<Self> {
        Some(Self {
            keys: table("keys")?,
            seen: table("seen")?,
            days: table("days")?,
            counts: table("counts")?,
            footprints: table("footprints")?,
            settings: table("settings")?,
        })
    }
}

/// What is known about one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub number: MemberNumber,
    /// Its key.
    pub key: PublicKey,
    /// When it was last here, if ever since it was numbered.
    pub seen: Option<Sighting>,
    /// Whether it takes part in footprints.
    pub footprints: bool,
}

/// The members. Shared by all threads; [`Members::see`] and [`Members::count`] are one thread's.
#[derive(Debug)]
pub struct Members {
    registry: Registry,
    sightings: Sightings,
    counts: Counts,
    footprints: Footprints,
}

impl Members {
    /// Opens the members' tables; costs a read of all keys. `seed` is to be random.
    pub fn open(
        tables: MemberTables,
        limits: FootprintLimits,
        seed: u64,
    ) -> Result<Self, MembersError> {
        Ok(Self {
            registry: Registry::open(tables.keys, seed)?,
            sightings: Sightings::new(tables.seen, tables.days),
            counts: Counts::new(tables.counts),
            footprints: Footprints::new(tables.footprints, tables.settings, limits),
        })
    }

    /// Returns how many members there are.
    pub fn len(&self) -> usize {
        self.registry.count()
    }

    /// Tells whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a key's number, if it is a member's.
    pub fn number(&self, key: &PublicKey) -> Option<MemberNumber> {
        self.registry.number(key)
    }

    /// Returns a key's number; makes it a member's if it is not.
    pub fn enrol(&self, key: &PublicKey, stamp: Stamp) -> Result<MemberNumber, MembersError> {
        self.registry.enrol(key, stamp)
    }

    /// Returns what is known about a member; nothing of a number that nobody has.
    pub fn get(&self, number: MemberNumber) -> Result<Option<Member>, MembersError> {
        let Some(key) = self.registry.key(number)? else {
            return Ok(None);
        };
        Ok(Some(Member {
            number,
            key,
            seen: self.sightings.last(number)?,
            footprints: self.footprints.are_on(number)?,
        }))
    }

    /// Goes through the members behind `after`, in the order of their numbers.
    pub fn iter(
        &self,
        after: Option<MemberNumber>,
    ) -> impl Iterator<Item = Result<Member, MembersError>> + '_ {
        let first = after.map_or(1, |after| after.get().saturating_add(1));
        (first..=self.registry.last())
            .filter_map(MemberNumber::new)
            .filter_map(|number| self.get(number).transpose())
    }

    /// Takes down that a member was here, unless a later time is known.
    pub fn see(
        &self,
        member: MemberNumber,
        sighting: Sighting,
        stamp: Stamp,
    ) -> Result<(), MembersError> {
        self.sightings.see(member, sighting, stamp)
    }

    /// Returns how many members were seen on the day (UTC) of a time in Unix seconds.
    pub fn seen_on_day_of(&self, at: u64) -> Result<u64, MembersError> {
        self.sightings.on_day_of(at)
    }

    /// Adds to the numbers of events that members wrote of a kind. May wait for the disk.
    pub fn count(
        &self,
        counts: &[(MemberNumber, Kind, i64)],
        stamp: Stamp,
    ) -> Result<(), MembersError> {
        self.counts.add(counts, stamp)
    }

    /// Returns how many events a member wrote, by kind.
    pub fn counts(&self, member: MemberNumber) -> Result<Vec<(Kind, u64)>, MembersError> {
        self.counts.of(member)
    }

    /// Switches a member's footprints on or off: those it leaves and those on its page. Off is how
    /// it begins; off again takes away what was there.
    pub fn switch_footprints(
        &self,
        member: MemberNumber,
        on: bool,
        stamp: Stamp,
    ) -> Result<(), MembersError> {
        self.footprints.switch(member, on, stamp)
    }

    /// Leaves a footprint on a member's page: to be called by what shows pages, never inferred.
    /// False, and nothing is kept, unless both have switched footprints on.
    pub fn leave_footprint(
        &self,
        visitor: MemberNumber,
        page_of: MemberNumber,
        stamp: Stamp,
    ) -> Result<bool, MembersError> {
        self.footprints.leave(visitor, page_of, stamp)
    }

    /// Lists who looked at a member's page, newest first. `now`: Unix seconds.
    pub fn footprints(&self, page_of: MemberNumber, now: u64) -> Result<Vec<Visit>, MembersError> {
        self.footprints.of(page_of, now)
    }

    /// Forgets all about a key (it has vanished). Its number is not given again.
    pub fn forget(&self, key: &PublicKey, stamp: Stamp) -> Result<(), MembersError> {
        let Some(member) = self.number(key) else {
            return Ok(());
        };
        self.footprints.switch(member, false, stamp)?;
        self.sightings.forget(member, stamp)?;
        self.counts.forget(member, stamp)?;
        self.registry.forget(member, stamp)
    }
}
