//! What is recorded: events and facts about them, and their payloads' encoding.

use bytes::Bytes;
use hikyaku_store::{Hider, RemovalReason, Sequence};

use super::number::{put_varint, take_varint, u32_at, unzigzag, zigzag};

/// One record of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    /// An event was stored.
    Event {
        /// For kind 62: it is carried out here.
        vanish: bool,
        /// Its JSON.
        json: Bytes,
    },
    /// Events were removed for good.
    Removed {
        /// Why.
        reason: RemovalReason,
        /// Which.
        targets: Vec<Sequence>,
    },
    /// Events were hidden.
    Hidden {
        /// By whom.
        by: Hider,
        /// Which.
        targets: Vec<Sequence>,
    },
    /// Hidden events were taken back.
    Unhidden {
        /// By whom they had been hidden.
        by: Hider,
        /// Which.
        targets: Vec<Sequence>,
    },
}

// FORMAT: record kinds.
const EVENT: u8 = 1;
const REMOVED: u8 = 2;
const HIDDEN: u8 = 3;
const UNHIDDEN: u8 = 4;

/// FORMAT: the flag of an event of kind 62 that is carried out here.
const FLAG_VANISH: u8 = 1;

impl Record {
    /// Returns the record's kind and flags as they are written.
    pub(super) fn kind_and_flags(&self) -> (u8, u8) {
        match self {
            Self::Event { vanish, .. } => (EVENT, if *vanish { FLAG_VANISH } else { 0 }),
            Self::Removed { .. } => (REMOVED, 0),
            Self::Hidden { .. } => (HIDDEN, 0),
            Self::Unhidden { .. } => (UNHIDDEN, 0),
        }
    }

    /// Appends the record's payload.
    pub(super) fn encode(&self, buffer: &mut Vec<u8>) {
        match self {
            Self::Event { json, .. } => buffer.extend_from_slice(json),
            Self::Removed { reason, targets } => {
                buffer.push(reason_code(*reason));
                put_targets(buffer, targets);
            }
            Self::Hidden { by, targets } | Self::Unhidden { by, targets } => {
                buffer.extend_from_slice(&by.0.to_le_bytes());
                put_targets(buffer, targets);
            }
        }
    }

    /// Decodes a payload whose checksum is right; an event's JSON is a slice of it, not a copy.
    /// `None` if it is nothing that [`Record::encode`] writes.
    pub(super) fn decode(kind: u8, flags: u8, payload: &Bytes) -> Option<Self> {
        match (kind, flags) {
            (EVENT, 0 | FLAG_VANISH) => Some(Self::Event {
                vanish: flags == FLAG_VANISH,
                json: payload.clone(),
            }),
            (REMOVED, 0) => {
                let (&code, rest) = payload.split_first()?;
                Some(Self::Removed {
                    reason: reason_of(code)?,
                    targets: take_targets(rest)?,
                })
            }
            (HIDDEN | UNHIDDEN, 0) => {
                let by = Hider(u32_at(payload, 0)?);
                let targets = take_targets(payload.get(4..)?)?;
                Some(if kind == HIDDEN {
                    Self::Hidden { by, targets }
                } else {
                    Self::Unhidden { by, targets }
                })
            }
            _ => None,
        }
    }
}

/// FORMAT: removal reasons.
const fn reason_code(reason: RemovalReason) -> u8 {
    match reason {
        RemovalReason::Replaced => 1,
        RemovalReason::Deleted => 2,
        RemovalReason::Vanished => 3,
        RemovalReason::Expired => 4,
        RemovalReason::Operator => 5,
    }
}

const fn reason_of(code: u8) -> Option<RemovalReason> {
    Some(match code {
        1 => RemovalReason::Replaced,
        2 => RemovalReason::Deleted,
        3 => RemovalReason::Vanished,
        4 => RemovalReason::Expired,
        5 => RemovalReason::Operator,
        _ => return None,
    })
}

/// Writes how many there are, then each as its distance from the one before (the first from 0):
/// a list in order, as most are, takes one or two bytes for each.
fn put_targets(buffer: &mut Vec<u8>, targets: &[Sequence]) {
    put_varint(buffer, targets.len() as u64);
    let mut previous = 0;
    for target in targets {
        let distance = target.0.wrapping_sub(previous).cast_signed();
        put_varint(buffer, zigzag(distance));
        previous = target.0;
    }
}

fn take_targets(mut bytes: &[u8]) -> Option<Vec<Sequence>> {
    let count = take_varint(&mut bytes)?;
    // Each takes a byte at least, so no more memory is asked for than the payload has bytes.
    let mut targets = Vec::with_capacity(usize::try_from(count).ok()?.min(bytes.len()));
    let mut previous = 0_u64;
    for _ in 0..count {
        previous = previous.wrapping_add(unzigzag(take_varint(&mut bytes)?).cast_unsigned());
        targets.push(Sequence(previous));
    }
    bytes.is_empty().then_some(targets)
}
