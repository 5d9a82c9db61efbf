//! The matches of one filter, in order: the filter's fields race, and the one that gets there with the
//! least work decides.
//!
//! Each field alone could drive (its streams hold every match, the others are conditions). Which is
//! the rarest is known only afterwards, so each may spend a little, then each a little more: a search
//! costs at most some times what the best of them costs, with no statistics and no estimates.

use hikyaku_event::{Filter, TagName};

use super::{
    condition::{Asked, Decided},
    driver::Driver,
    place::{Direction, Hit, Place, Span},
    statement::{self, Index, Lead},
};
use crate::{
    PostgresError, columns,
    columns::Word,
    connection::{Session, Sessions},
};

/// With so many streams, walking a wider index and looking at each event may be less.
const STREAMS_MANY: usize = 256;

/// A search of one filter.
pub(crate) struct Search {
    /// `None`: nothing can match.
    asked: Option<Asked>,
    drivers: Vec<Driver>,
    span: Span,
    direction: Direction,
    /// Everything before this place has been handed out; `None`: everything.
    next: Option<Place>,
    started: bool,
}

impl Search {
    pub(crate) fn new(
        asked: Option<Asked>,
        filter: &Filter,
        mut span: Span,
        direction: Direction,
    ) -> Self {
        if let Some(until) = filter.until {
            let place = Place {
                age: columns::age(until),
                ..Place::NEWEST
            };
            span.newest = span.newest.max(place);
        }
        if let Some(since) = filter.since {
            let place = Place {
                age: columns::age(since),
                ..Place::OLDEST
            };
            span.oldest = span.oldest.min(place);
        }
        Self {
            asked: asked.filter(|_| !span.is_empty()),
            drivers: Vec::new(),
            span,
            direction,
            next: Some(span.start(direction)),
            started: false,
        }
    }

    /// Counts all matches without handing them out, where that can be done: one field, whose streams
    /// have no event in common.
    pub(crate) async fn count(&mut self, session: &Session) -> Result<Option<u64>, PostgresError> {
        let Some(asked) = &self.asked else {
            return Ok(Some(0));
        };
        if asked.ids.is_some() {
            return Ok(None);
        }
        // Kinds beside one of these only race it for the first matches.
        let narrower = asked.authors.is_some() || asked.parties().is_some();
        match &mut drivers(asked, &self.span, self.direction)[..] {
            [first, ..]
                if asked.tags.len() + usize::from(narrower) <= 1
                    && first.streams() <= STREAMS_MANY =>
            {
                first.count(session, asked).await
            }
            _ => Ok(None),
        }
    }

    /// Returns the next matches: as many as wanted, fewer only at the end.
    pub(crate) async fn take(
        &mut self,
        sessions: Sessions<'_>,
        want: usize,
    ) -> Result<Vec<Hit>, PostgresError> {
        let Some(next) = self.next else {
            return Ok(Vec::new());
        };
        let Some(asked) = &self.asked else {
            return Ok(Vec::new());
        };
        if !self.started {
            self.started = true;
            self.drivers = match &asked.ids {
                Some(ids) => {
                    let hits = statement::by_id(sessions, ids, asked).await?;
                    vec![Driver::finished(hits, self.direction)]
                }
                None => drivers(asked, &self.span, self.direction),
            };
        }
        for driver in &mut self.drivers {
            driver.skip_to(next);
        }
        let end = self.span.end(self.direction);
        loop {
            if let Some(driver) = self.drivers.iter_mut().find(|driver| driver.has(want)) {
                let mut hits = driver.take(want);
                let exhausted = hits.len() < want && driver.is_exhausted();
                self.next = match hits.last() {
                    Some(last) if !exhausted => last.place.next(self.direction),
                    _ => None,
                };
                hits.retain(|hit| !self.direction.is_before(end, hit.place));
                if hits.len() < want {
                    self.next = None;
                }
                return Ok(hits);
            }
            let cheapest = self
                .drivers
                .iter_mut()
                .min_by_key(|driver| driver.spent + driver.next_cost(want));
            let Some(driver) = cheapest else {
                self.next = None;
                return Ok(Vec::new());
            };
            driver.advance(sessions, asked, want).await?;
        }
    }
}

/// Returns the drivers of a filter without ids.
fn drivers(asked: &Asked, span: &Span, direction: Direction) -> Vec<Driver> {
    let (start, end) = (span.start(direction), span.end(direction).age);
    let driver = |streams: Vec<_>| Driver::new(streams, start, end, direction, asked);
    let mut drivers = Vec::new();
    for (number, (name, values)) in asked.tags.iter().enumerate() {
        let decided = Decided {
            tag: Some(number),
            ..Decided::default()
        };
        let stream = |value: &Vec<u8>| {
            (
                Index::Tag(name.clone()),
                Lead::Value(value.clone()),
                decided,
            )
        };
        drivers.push(driver(values.iter().map(stream).collect()));
    }
    if let Some(authors) = &asked.authors {
        drivers.push(driver(author_streams(
            authors.iter().map(|key| Word::from(*key)),
            asked.kinds.as_deref(),
        )));
    } else if let Some((keys, hex)) = asked.parties() {
        let tagged = |hex: &Vec<u8>| {
            let lead = Lead::Value(hex.clone());
            (
                Index::Tag(TagName::of_letter(b'p')),
                lead,
                Decided::default(),
            )
        };
        // Their conditions stay: an author may read only the old form of message.
        let mut streams = author_streams(keys.iter().copied(), asked.kinds.as_deref());
        for (_, _, decided) in &mut streams {
            decided.authors = false;
        }
        streams.extend(hex.iter().map(tagged));
        drivers.push(driver(streams));
    }
    let most = drivers.iter().map(Driver::streams).min();
    let many = most.is_none_or(|most| most > STREAMS_MANY);
    match &asked.kinds {
        // The streams of authors have their kinds in them: they never hold more than the kinds' do.
        Some(kinds) if many || asked.authors.is_none() && asked.parties().is_none() => {
            let decided = Decided {
                kinds: true,
                ..Decided::default()
            };
            let stream = |kind: &i32| (Index::Kind, Lead::Kind(*kind), decided);
            drivers.push(driver(kinds.iter().map(stream).collect()));
        }
        // All of time is walked if nothing narrower is there, or what is there is many streams.
        None if many => {
            drivers.push(driver(vec![(Index::Time, Lead::All, Decided::default())]));
        }
        _ => {}
    }
    drivers
}

fn author_streams(
    authors: impl Iterator<Item = Word>,
    kinds: Option<&[i32]>,
) -> Vec<(Index, Lead, Decided)> {
    let mut decided = Decided {
        authors: true,
        ..Decided::default()
    };
    match kinds {
        Some(kinds) => {
            decided.kinds = true;
            let pairs = authors.flat_map(|author| kinds.iter().map(move |kind| (author, *kind)));
            let stream =
                |(author, kind)| (Index::AuthorKind, Lead::AuthorKind(author, kind), decided);
            pairs.map(stream).collect()
        }
        None => authors
            .map(|author| (Index::Author, Lead::Author(author), decided))
            .collect(),
    }
}
