//! The keys-only cursor: matches of one filter in storage order, in either direction, no payload.

use std::{collections::BinaryHeap, sync::Arc};

use hikyaku_store::{Budget, Key, KeyRange};

use super::{
    part_cursor::{PartCursor, Step},
    plan::Plan,
    stream::{self, FilterStream, StreamStep},
};
use crate::{error::EngineError, segment::DocId, snapshot::Snapshot};

/// Documents per window of a backward walk: each window is walked forward and given out reversed.
const WINDOW_DOCUMENTS: u32 = 2048;

/// Returns the keys of a filter's matches in a range.
pub(crate) fn keys(
    snapshot: Arc<Snapshot>,
    plan: Plan,
    range: KeyRange,
) -> Box<dyn Iterator<Item = Result<Key, EngineError>>> {
    if range.backward {
        match Backward::new(snapshot, plan, range) {
            Ok(backward) => Box::new(backward),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    } else {
        let to = range.to;
        let stream = FilterStream::new(snapshot, plan, range.from);
        Box::new(Forward { stream }.take_while(move |key| match (key, &to) {
            (Ok(key), Some(to)) => key < to,
            _ => true,
        }))
    }
}

struct Forward {
    stream: FilterStream,
}

impl Iterator for Forward {
    type Item = Result<Key, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.stream.next(&mut Budget::new(u32::MAX)) {
                Ok(StreamStep::Match(found)) => return Some(Ok(found.key)),
                Ok(StreamStep::Yield) => {}
                Ok(StreamStep::End) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Oldest first: each part from its end, in windows.
struct Backward {
    snapshot: Arc<Snapshot>,
    plan: Plan,
    parts: Vec<PartBackward>,
    /// (key, index in `parts`): the greatest key is the oldest.
    heads: BinaryHeap<(Key, usize)>,
}

struct PartBackward {
    part: usize,
    start: DocId,
    /// Everything at or after this is given out or in `window`.
    end: DocId,
    window: Vec<Key>,
}

impl Backward {
    fn new(snapshot: Arc<Snapshot>, plan: Plan, range: KeyRange) -> Result<Self, EngineError> {
        let mut parts = Vec::new();
        for (number, part) in snapshot.parts.iter().enumerate() {
            let segment = &part.segment;
            let mut start = segment.first_not_newer_than(plan.until)?;
            if let Some(from) = &range.from {
                start = start.max(segment.first_at_or_after_key(from)?);
            }
            let mut end = segment.first_older_than(plan.since)?;
            if let Some(to) = &range.to {
                end = end.min(segment.first_at_or_after_key(to)?);
            }
            parts.push(PartBackward {
                part: number,
                start,
                end,
                window: Vec::new(),
            });
        }
        let mut backward = Self {
            snapshot,
            plan,
            heads: BinaryHeap::new(),
            parts,
        };
        for index in 0..backward.parts.len() {
            backward.find_head(index)?;
        }
        Ok(backward)
    }

    fn find_head(&mut self, index: usize) -> Result<(), EngineError> {
        let Some(walk) = self.parts.get_mut(index) else {
            return Ok(());
        };
        let part = stream::part(&self.snapshot, walk.part)?;
        while walk.window.is_empty() && walk.start < walk.end {
            let start = DocId(walk.end.0.saturating_sub(WINDOW_DOCUMENTS)).max(walk.start);
            if let Some(mut cursor) = PartCursor::open_between(&self.plan, part, start, walk.end)? {
                while let Step::Found(doc) =
                    cursor.advance(&self.plan, part, &mut Budget::new(u32::MAX))?
                {
                    walk.window.push(part.segment.key(doc)?);
                }
            }
            walk.end = start;
        }
        if let Some(key) = walk.window.pop() {
            self.heads.push((key, index));
        }
        Ok(())
    }
}

impl Iterator for Backward {
    type Item = Result<Key, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (key, index) = self.heads.pop()?;
        match self.find_head(index) {
            Ok(()) => Some(Ok(key)),
            Err(error) => {
                self.heads.clear();
                Some(Err(error))
            }
        }
    }
}
