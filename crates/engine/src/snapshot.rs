//! What readers see: an immutable list of parts, published by the writer after each commit.

use std::sync::Arc;

use bytes::Bytes;
use hikyaku_event::{Event, EventId, Timestamp};
use hikyaku_store::{Sequence, StoredEvent};

use crate::{
    bitmap::Bitmap,
    error::EngineError,
    log::{LogFiles, LogPosition, Record},
    segment::{DocId, Flags, Segment},
};

/// Names a part for as long as it lives, across snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PartId(pub(crate) u64);

/// Where a part's payloads are.
#[derive(Debug, Clone)]
pub(crate) enum Payload {
    /// Beside it in memory, by document number: their log file is being written, or its segment.
    Memory {
        /// The log file that all of the part's events are in.
        log_file: u32,
        /// The events' JSON.
        json: Arc<Vec<Bytes>>,
    },
    /// In sealed log files, at the segment's positions. The number names the segment's file.
    Log { segment_file: u64 },
}

/// One segment with its tombstones and payloads.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) id: PartId,
    pub(crate) segment: Arc<Segment>,
    /// Gone for good.
    pub(crate) removed: Bitmap,
    /// Absent until taken back.
    pub(crate) hidden: Bitmap,
    pub(crate) payload: Payload,
    /// Whether it holds deletions or requests to vanish at all: most small parts do not, and need
    /// not be asked for each new event.
    pub(crate) has_deletions: bool,
    pub(crate) has_vanishes: bool,
    /// Counts the changes of the tombstones: what has been written to disk is known by it.
    pub(crate) tombstone_version: u64,
}

impl Part {
    /// Tells whether the document is not removed (it may be hidden).
    #[inline]
    pub(crate) fn is_stored(&self, doc: DocId) -> bool {
        !self.removed.contains(doc)
    }

    /// Finds the stored document with this id.
    ///
    /// An id may come back after an operator's removal, so several documents may have it, of which
    /// one at most is stored. They have one key and therefore stand side by side.
    pub(crate) fn find_stored(&self, id: &EventId) -> Result<Option<DocId>, EngineError> {
        let Some(found) = self.segment.find(id)? else {
            return Ok(None);
        };
        let mut first = found;
        while first.0 > 0 && self.segment.id(DocId(first.0 - 1))? == *id {
            first.0 -= 1;
        }
        let mut doc = first;
        while doc.0 < self.segment.len() && (doc <= found || self.segment.id(doc)? == *id) {
            if self.is_stored(doc) {
                return Ok(Some(doc));
            }
            doc.0 += 1;
        }
        Ok(None)
    }

    /// Tells whether readers may be shown the document at all.
    #[inline]
    pub(crate) fn is_visible(&self, doc: DocId) -> bool {
        !self.removed.contains(doc) && !self.hidden.contains(doc)
    }

    /// Sets a document's tombstone; tells whether it had none.
    pub(crate) fn remove(&mut self, doc: DocId) -> bool {
        let fresh = self.removed.insert(doc);
        self.tombstone_version += u64::from(fresh);
        fresh
    }

    /// Hides a document from readers, or shows it again.
    pub(crate) fn set_hidden(&mut self, doc: DocId, hidden: bool) {
        if hidden {
            self.hidden.insert(doc);
        } else {
            self.hidden.remove(doc);
        }
        self.tombstone_version += 1;
    }

    /// Tells whether the document has expired (NIP-40).
    #[inline]
    pub(crate) fn is_expired(&self, doc: DocId, now: Timestamp) -> Result<bool, EngineError> {
        if !self.segment.flags(doc)?.contains(Flags::EXPIRING) {
            return Ok(false);
        }
        Ok(self.segment.expires_at(doc)?.is_some_and(|at| at <= now))
    }
}

/// A consistent view of the whole store.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    /// Every commit up to this number is in it, and nothing after.
    pub(crate) sequence: Sequence,
    pub(crate) parts: Vec<Arc<Part>>,
    pub(crate) files: LogFiles,
}

impl Snapshot {
    /// Finds the stored (not removed) document with this id.
    pub(crate) fn find(&self, id: &EventId) -> Result<Option<(&Arc<Part>, DocId)>, EngineError> {
        for part in &self.parts {
            if let Some(doc) = part.find_stored(id)? {
                return Ok(Some((part, doc)));
            }
        }
        Ok(None)
    }

    /// Reads a document's JSON; checks the log record's checksum.
    pub(crate) fn json(&self, part: &Part, doc: DocId) -> Result<Bytes, EngineError> {
        match &part.payload {
            Payload::Memory { json, .. } => json.get(doc.0 as usize).cloned().ok_or_else(|| {
                EngineError::Corrupt(format!(
                    "document {} of part {} has no payload",
                    doc.0, part.id.0
                ))
            }),
            Payload::Log { .. } => {
                let position = LogPosition::from_u64(part.segment.position(doc)?);
                let expected = part.segment.sequence(doc)?;
                match self.files.read(position)? {
                    (sequence, Record::Event { json, .. }) if sequence == expected => Ok(json),
                    (sequence, _) => Err(EngineError::Corrupt(format!(
                        "log position {position}: expected the event of sequence {}, found the \
                         record of sequence {}",
                        expected.0, sequence.0
                    ))),
                }
            }
        }
    }

    /// Reads a document as an event.
    pub(crate) fn event(&self, part: &Part, doc: DocId) -> Result<Event, EngineError> {
        let json = self.json(part, doc)?;
        Event::from_stored(json).map_err(|error| {
            EngineError::Corrupt(format!("document {} of part {}: {error}", doc.0, part.id.0))
        })
    }

    /// Reads a document as an answer.
    pub(crate) fn stored_event(&self, part: &Part, doc: DocId) -> Result<StoredEvent, EngineError> {
        let key = part.segment.key(doc)?;
        Ok(StoredEvent {
            sequence: part.segment.sequence(doc)?,
            id: key.id,
            created_at: key.created_at,
            kind: part.segment.kind(doc)?,
            json: self.json(part, doc)?,
        })
    }
}
