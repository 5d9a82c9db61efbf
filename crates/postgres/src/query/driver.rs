//! A driver: one field of a filter, whose streams together hold everything that can match.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;

use super::{
    condition::{Asked, Decided},
    place::{Direction, Hit, Place},
    statement::{self, Index, Lead, Page},
};
use crate::{
    PostgresError,
    connection::{Session, Sessions},
};

/// What one more stream costs, in entries read on: a way down a tree.
const STREAM_COST: u64 = 8;
/// Entries that are read of each of many streams at first where conditions may reject most of them: about
/// as much as the way to the first one costs, and most streams are not longer.
const TAKE_SELECTIVE: usize = 16;
/// Entries that one statement reads at most, and streams it reads from: some tens of milliseconds, so
/// that others on the connection need not wait long.
const STATEMENT_ENTRIES_MAX: usize = 16_384;
const STATEMENT_STREAMS_MAX: usize = 2_048;

/// Streams that are worth a connection of their own.
pub(super) const STREAMS_SHARED: usize = 16;

/// Entries that one statement counts at most: it hands nothing out, so they may be more.
const COUNT_ENTRIES_MAX: i32 = 65_536;

struct Stream {
    index: Index,
    lead: Lead,
    decided: Decided,
    /// Where to go on; `None` once all of it is read.
    next: Option<Place>,
    /// How many entries to read next time.
    take: usize,
}

/// One field's streams, and what they have brought.
pub(crate) struct Driver {
    streams: Vec<Stream>,
    /// Matches that are not handed out. Those before every stream's place are final.
    found: BTreeMap<Place, i64>,
    direction: Direction,
    /// The time of the last place to read.
    end: i64,
    /// What its streams leave undecided may reject most of what they hold.
    selective: bool,
    /// What looking at one entry costs, in entries read on.
    entry_cost: u64,
    /// What has been spent, in entries read.
    pub(crate) spent: u64,
}

impl Driver {
    pub(crate) fn new(
        streams: impl IntoIterator<Item = (Index, Lead, Decided)>,
        start: Place,
        end: i64,
        direction: Direction,
        asked: &Asked,
    ) -> Self {
        let streams = streams.into_iter().map(|(index, lead, decided)| Stream {
            index,
            lead,
            decided,
            next: Some(start),
            take: 0,
        });
        let streams: Vec<Stream> = streams.collect();
        let decided = streams.first().map(|stream| stream.decided);
        Self {
            selective: decided.is_some_and(|decided| asked.is_selective(decided)),
            // Each value that is still to be looked for is a way down a tree.
            entry_cost: 1 + STREAM_COST * decided.map_or(0, |decided| asked.lookups(decided)),
            streams,
            found: BTreeMap::new(),
            direction,
            end,
            spent: 0,
        }
    }

    /// Makes a driver that has everything already.
    pub(crate) fn finished(hits: Vec<Hit>, direction: Direction) -> Self {
        Self {
            streams: Vec::new(),
            found: hits.into_iter().map(|hit| (hit.place, hit.seq)).collect(),
            direction,
            end: 0,
            selective: false,
            entry_cost: 1,
            spent: 0,
        }
    }

    pub(crate) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Counts everything, if its streams have no event in common; `None` if they may. Reads pages that
    /// nobody need wait long for.
    pub(crate) async fn count(
        &mut self,
        session: &Session,
        asked: &Asked,
    ) -> Result<Option<u64>, PostgresError> {
        let disjoint = self.streams.len() == 1
            || self
                .streams
                .iter()
                .all(|stream| !matches!(stream.index, Index::Tag(_)));
        if !disjoint {
            return Ok(None);
        }
        let mut count = 0;
        for stream in &mut self.streams {
            while let Some(next) = stream.next {
                let counted = statement::count(
                    session,
                    &stream.index,
                    (stream.lead.clone(), next),
                    stream.decided,
                    asked,
                    Page {
                        end: self.end,
                        take: COUNT_ENTRIES_MAX,
                        direction: self.direction,
                    },
                )
                .await?;
                count += counted.count;
                stream.next = counted.next;
            }
        }
        Ok(Some(count))
    }

    /// Skips what is before this place.
    pub(crate) fn skip_to(&mut self, place: Place) {
        let direction = self.direction;
        for stream in &mut self.streams {
            if stream
                .next
                .is_some_and(|next| direction.is_before(next, place))
            {
                stream.next = Some(place);
            }
        }
        self.found
            .retain(|found, _| !direction.is_before(*found, place));
    }

    /// Tells whether so many matches are final, or all there are.
    pub(crate) fn has(&self, want: usize) -> bool {
        match self.frontier() {
            None => true,
            Some(frontier) => self.final_count(frontier, want) >= want,
        }
    }

    /// Takes up to so many final matches out, in order.
    pub(crate) fn take(&mut self, want: usize) -> Vec<Hit> {
        let frontier = self.frontier();
        let mut hits = Vec::with_capacity(want.min(self.found.len()));
        while hits.len() < want {
            let first = match self.direction {
                Direction::Forward => self.found.first_entry(),
                Direction::Backward => self.found.last_entry(),
            };
            let Some(first) = first else { break };
            let place = *first.key();
            if frontier.is_some_and(|frontier| !self.direction.is_before(place, frontier)) {
                break;
            }
            let seq = first.remove();
            hits.push(Hit { place, seq });
        }
        hits
    }

    /// Tells whether all of it has been read.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.frontier().is_none()
    }

    /// Returns the first place that some stream has yet to read.
    fn frontier(&self) -> Option<Place> {
        let open = self.streams.iter().filter_map(|stream| stream.next);
        match self.direction {
            Direction::Forward => open.min(),
            Direction::Backward => open.max(),
        }
    }

    fn final_count(&self, frontier: Place, max: usize) -> usize {
        let is_final = |place: &&Place| self.direction.is_before(**place, frontier);
        match self.direction {
            Direction::Forward => self.found.keys().take(max).take_while(is_final).count(),
            Direction::Backward => self
                .found
                .keys()
                .rev()
                .take(max)
                .take_while(is_final)
                .count(),
        }
    }

    /// Returns the numbers of the streams to read on for so many matches: those that could still bring
    /// one before the last of them.
    fn due(&self, want: usize) -> Vec<usize> {
        let mut places = self.found.keys();
        let last = match self.direction {
            Direction::Forward => places.nth(want.saturating_sub(1)),
            Direction::Backward => places.nth_back(want.saturating_sub(1)),
        };
        let is_due = |next: Place| last.is_none_or(|last| !self.direction.is_before(*last, next));
        let mut due: Vec<_> = self
            .streams
            .iter()
            .enumerate()
            .filter_map(|(number, stream)| {
                Some((number, stream.next.filter(|next| is_due(*next))?))
            })
            .collect();
        if due.len() > STATEMENT_STREAMS_MAX {
            // Those that are furthest behind hold up the others.
            due.sort_by_key(|(_, next)| *next);
            if self.direction == Direction::Backward {
                due.reverse();
            }
        }
        due.into_iter().map(|(number, _)| number).collect()
    }

    fn next_take(&self, number: usize, want: usize, due: usize) -> usize {
        let Some(stream) = self.streams.get(number) else {
            return 0;
        };
        let take = if stream.take == 0 {
            // One stream alone needs no more than is wanted; of many each has but a share.
            if self.streams.len() == 1 {
                want
            } else {
                let share = 2 * want / self.streams.len() + 2;
                share.max(if self.selective { TAKE_SELECTIVE } else { 0 })
            }
        } else {
            stream.take * 4
        };
        take.clamp(
            1,
            (STATEMENT_ENTRIES_MAX / due.clamp(1, STATEMENT_STREAMS_MAX)).max(2),
        )
    }

    /// Returns what the next step would cost at most, in entries.
    pub(crate) fn next_cost(&self, want: usize) -> u64 {
        let due = self.due(want);
        let entries = due
            .iter()
            .map(|number| self.next_take(*number, want, due.len()));
        let entries: usize = entries.take(STATEMENT_STREAMS_MAX).sum();
        self.entry_cost * entries as u64 + STREAM_COST * due.len().min(STATEMENT_STREAMS_MAX) as u64
    }

    /// Reads on, by one statement of each index it uses and each connection that has a share in it.
    pub(crate) async fn advance(
        &mut self,
        sessions: Sessions<'_>,
        asked: &Asked,
        want: usize,
    ) -> Result<(), PostgresError> {
        self.spent += self.next_cost(want);
        let due = self.due(want);
        let len = due.len();
        let mut due: Vec<_> = due.into_iter().take(STATEMENT_STREAMS_MAX).collect();
        while let Some(first) = due.first().and_then(|number| self.streams.get(*number)) {
            let (index, decided) = (first.index.clone(), first.decided);
            let of_index = |number: &mut usize| {
                self.streams
                    .get(*number)
                    .is_some_and(|stream| stream.index == index)
            };
            let numbers: Vec<_> = due.extract_if(.., of_index).collect();
            let take = numbers
                .iter()
                .map(|number| self.next_take(*number, want, len))
                .max();
            let take = take.unwrap_or(1);
            let page = Page {
                end: self.end,
                take: i32::try_from(take).unwrap_or(i32::MAX),
                direction: self.direction,
            };
            let leads: Vec<_> = numbers
                .iter()
                .filter_map(|number| self.streams.get(*number))
                .filter_map(|stream| Some((stream.lead.clone(), stream.next?)))
                .collect();
            let shares = sessions.share(&leads, STREAMS_SHARED);
            let reads = shares.map(|(session, leads)| {
                statement::read(session, &index, leads, decided, asked, page)
            });
            let reads = try_join_all(reads).await?;
            for number in &numbers {
                if let Some(stream) = self.streams.get_mut(*number) {
                    stream.next = None;
                    stream.take = take;
                }
            }
            let mut before = 0;
            for read in reads {
                for (nth, place) in read.full {
                    let number = numbers.get(before + nth).copied().unwrap_or(usize::MAX);
                    if let Some(stream) = self.streams.get_mut(number) {
                        stream.next = place.next(self.direction);
                    }
                }
                before += read.streams;
                self.found
                    .extend(read.hits.into_iter().map(|(_, hit)| (hit.place, hit.seq)));
            }
        }
        Ok(())
    }
}
