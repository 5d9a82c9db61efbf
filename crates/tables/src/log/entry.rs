//! One entry of the log: an effect, or how far another server's updates were applied.

use std::{mem, ops::Range};

use super::number::{put_varint, u32_at, u64_at, varint_at};
use crate::{Attributes, Effect, Stamp};

/// FORMAT: the kinds of entries, in the lowest bits of the tag.
const KIND_APPLIED: u8 = 0;
const KIND_PUT: u8 = 1;
const KIND_REMOVE: u8 = 2;
const KIND_VANISH: u8 = 3;
const KIND_BITS: u8 = 0x03;

/// FORMAT: flags in the tag: flags and expiry stand in the entry; a stamp stands in it (if not, the
/// one of the entry before holds).
const FLAG_ATTRIBUTES: u8 = 0x04;
const FLAG_STAMP: u8 = 0x08;

/// Bytes that an entry has at most besides its key and value.
pub(super) const ENTRY_OVERHEAD_MAX: usize = 1 + 5 + 12 + 5 + 12 + 5;

/// How far the updates of another server were applied here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Applied {
    /// The other server.
    pub(crate) source: u32,
    /// The end of what was applied, in the other server's log.
    pub(crate) position: u64,
    /// The time of the last update.
    pub(crate) at_us: u64,
}

/// An entry without its stamp, made before the queue is locked.
pub(super) struct Prepared {
    /// The entry, if it is short: most are, and need no memory of their own.
    short: [u8; SHORT],
    short_len: usize,
    long: Vec<u8>,
}

/// Room for a small record's entry.
const SHORT: usize = 128;

impl Prepared {
    /// Makes the entry of an effect.
    pub(super) fn effect(table: u32, effect: &Effect<'_>) -> Self {
        let mut prepared = Self {
            short: [0; SHORT],
            short_len: 0,
            long: Vec::new(),
        };
        // What is usual: a short key and a short value, whose lengths take a byte each.
        if let Effect::Put {
            key,
            value,
            attributes,
        } = effect
            && *attributes == Attributes::default()
            && table < 0x80
            && key.len() + value.len() + 4 <= SHORT
        {
            let (key_len, value_len) = (key.len(), value.len());
            let mut rest = &mut prepared.short[..];
            let parts: [&[u8]; 4] = [
                &[KIND_PUT, table as u8, key_len as u8],
                key,
                &[value_len as u8],
                value,
            ];
            for part in parts {
                let split = mem::take(&mut rest).split_at_mut_checked(part.len());
                if let Some((to, behind)) = split {
                    to.copy_from_slice(part);
                    rest = behind;
                }
            }
            prepared.short_len = 4 + key_len + value_len;
        } else {
            put_effect(&mut prepared.long, table, effect);
        }
        prepared
    }

    /// Makes the entry of how far another server's updates were applied.
    pub(super) fn applied(applied: &Applied) -> Self {
        let mut long = Vec::new();
        put_applied(&mut long, applied);
        Self {
            short: [0; SHORT],
            short_len: 0,
            long,
        }
    }

    /// Appends it. Without a stamp it has that of the entry before in its batch.
    #[inline]
    pub(super) fn put(&self, bytes: &mut Vec<u8>, stamp: Option<Stamp>) {
        let entry = match self.short_len {
            0 => &self.long,
            len => self.short.get(..len).unwrap_or_default(),
        };
        match (stamp, entry.split_first()) {
            (Some(stamp), Some((tag, rest))) => {
                bytes.push(tag | FLAG_STAMP);
                bytes.extend_from_slice(&stamp.at_us.to_le_bytes());
                bytes.extend_from_slice(&stamp.origin.to_le_bytes());
                bytes.extend_from_slice(rest);
            }
            _ => bytes.extend_from_slice(entry),
        }
    }
}

/// Appends an effect, without its stamp.
fn put_effect(bytes: &mut Vec<u8>, table: u32, effect: &Effect<'_>) {
    let (kind, attributes) = match effect {
        Effect::Put { attributes, .. } => (KIND_PUT, *attributes),
        Effect::Remove { .. } => (KIND_REMOVE, Attributes::default()),
        Effect::Vanish => (KIND_VANISH, Attributes::default()),
    };
    let has_attributes = attributes != Attributes::default();
    let mut tag = kind;
    if has_attributes {
        tag |= FLAG_ATTRIBUTES;
    }
    bytes.push(tag);
    put_varint(bytes, table);
    let (Effect::Put { key, .. } | Effect::Remove { key }) = effect else {
        return;
    };
    put_varint(bytes, key.len() as u32);
    bytes.extend_from_slice(key);
    if has_attributes {
        bytes.extend_from_slice(&attributes.flags.to_le_bytes());
        bytes.extend_from_slice(&attributes.expires_at.to_le_bytes());
    }
    if let Effect::Put { value, .. } = effect {
        put_varint(bytes, value.len() as u32);
        bytes.extend_from_slice(value);
    }
}

/// Appends how far another server's updates were applied, without its stamp.
fn put_applied(bytes: &mut Vec<u8>, applied: &Applied) {
    bytes.push(KIND_APPLIED);
    bytes.extend_from_slice(&applied.source.to_le_bytes());
    bytes.extend_from_slice(&applied.position.to_le_bytes());
    bytes.extend_from_slice(&applied.at_us.to_le_bytes());
}

/// An entry that was read; keys and values are ranges of the bytes it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) stamp: Stamp,
    pub(super) body: Body,
    /// Where the next entry begins.
    pub(super) end: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    Applied(Applied),
    Put {
        table: u32,
        key: Range<usize>,
        value: Range<usize>,
        attributes: Attributes,
    },
    Remove {
        table: u32,
        key: Range<usize>,
    },
    Vanish {
        table: u32,
    },
}

impl Entry {
    /// Reads the entry at an offset; `before` is the stamp of the one before in its batch. `None` if
    /// it is nothing that this version writes.
    pub(super) fn read(bytes: &[u8], at: usize, before: Option<Stamp>) -> Option<Self> {
        let tag = *bytes.get(at)?;
        let mut at = at + 1;
        let stamp = if tag & FLAG_STAMP > 0 {
            let stamp = Stamp {
                at_us: u64_at(bytes, at)?,
                origin: u32_at(bytes, at + 8)?,
            };
            at += 12;
            stamp
        } else {
            before?
        };
        let has_attributes = match tag & !(KIND_BITS | FLAG_STAMP) {
            0 => false,
            FLAG_ATTRIBUTES if tag & KIND_BITS == KIND_PUT => true,
            _ => return None,
        };
        let body = match tag & KIND_BITS {
            KIND_APPLIED => {
                let applied = Applied {
                    source: u32_at(bytes, at)?,
                    position: u64_at(bytes, at + 4)?,
                    at_us: u64_at(bytes, at + 12)?,
                };
                at += 20;
                Body::Applied(applied)
            }
            KIND_PUT => {
                let table = varint_at(bytes, &mut at)?;
                let key = slice_at(bytes, &mut at)?;
                let mut attributes = Attributes::default();
                if has_attributes {
                    attributes.flags = u32_at(bytes, at)?;
                    attributes.expires_at = u64_at(bytes, at + 4)?;
                    at += 12;
                }
                Body::Put {
                    table,
                    key,
                    value: slice_at(bytes, &mut at)?,
                    attributes,
                }
            }
            KIND_REMOVE => Body::Remove {
                table: varint_at(bytes, &mut at)?,
                key: slice_at(bytes, &mut at)?,
            },
            _ => Body::Vanish {
                table: varint_at(bytes, &mut at)?,
            },
        };
        Some(Self {
            stamp,
            body,
            end: at,
        })
    }
}

impl Body {
    /// Returns the table's number and the effect, if it is one. `bytes` are those it was read from.
    pub(super) fn effect<'a>(&self, bytes: &'a [u8]) -> Option<(u32, Effect<'a>)> {
        let of = |range: &Range<usize>| bytes.get(range.clone()).unwrap_or_default();
        match self {
            Self::Applied(_) => None,
            Self::Put {
                table,
                key,
                value,
                attributes,
            } => {
                let effect = Effect::Put {
                    key: of(key),
                    value: of(value),
                    attributes: *attributes,
                };
                Some((*table, effect))
            }
            Self::Remove { table, key } => Some((*table, Effect::Remove { key: of(key) })),
            Self::Vanish { table } => Some((*table, Effect::Vanish)),
        }
    }
}

fn slice_at(bytes: &[u8], at: &mut usize) -> Option<Range<usize>> {
    let len = varint_at(bytes, at)? as usize;
    let range = *at..at.checked_add(len)?;
    bytes.get(range.clone())?;
    *at = range.end;
    Some(range)
}
