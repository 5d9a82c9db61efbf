//! One entry of the log: an effect, or how far another server's updates were applied.

use std::ops::Range;

use hikyaku_vfs::MappedFile;

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
    form: Form,
    /// Its part of the sum over what waits.
    pub(super) sum: u64,
}

enum Form {
    /// The bytes as little-endian words, of which the first so many count and the others are zeros.
    /// What a small record has: it is made and kept without going through memory.
    Small([u64; SMALL_WORDS], usize),
    Long(Vec<u8>),
}

/// Room for an entry of a key of 8 bytes and a value of 8 bytes.
pub(super) const SMALL_WORDS: usize = 3;

impl Prepared {
    /// Makes the entry of an effect.
    #[inline]
    pub(super) fn effect(table: u32, effect: &Effect<'_>) -> Self {
        // What is usual: a short key and a short value, whose lengths take a byte each.
        if let Effect::Put {
            key,
            value,
            attributes,
        } = effect
            && *attributes == Attributes::default()
            && table < 0x80
            && let (Some(key_word), Some(value_word)) = (short_word(key), short_word(value))
        {
            let head = [KIND_PUT, table as u8, key.len() as u8, 0, 0, 0, 0, 0];
            let behind_key = 8 * (3 + key.len()) as u32;
            let start = u128::from(u64::from_le_bytes(head))
                | u128::from(key_word) << 24
                | (value.len() as u128) << behind_key;
            let low = start | u128::from(value_word) << (behind_key + 8);
            // What the 128 bits have no room for.
            let high = u128::from(value_word) >> 1 >> (127 - (behind_key + 8));
            let words = [low as u64, (low >> 64) as u64, high as u64];
            let len = 4 + key.len() + value.len();
            return Self {
                form: Form::Small(words, len),
                sum: sum_of_words(words, len),
            };
        }
        let mut bytes = Vec::with_capacity(ENTRY_OVERHEAD_MAX + effect.bytes());
        put_effect(&mut bytes, table, effect);
        Self::long(bytes)
    }

    /// Makes the entry of how far another server's updates were applied.
    pub(super) fn applied(applied: &Applied) -> Self {
        let mut bytes = Vec::new();
        put_applied(&mut bytes, applied);
        Self::long(bytes)
    }

    fn long(bytes: Vec<u8>) -> Self {
        Self {
            sum: sum_of(&bytes),
            form: Form::Long(bytes),
        }
    }

    /// Returns the same entry with a stamp. Without one it has that of the entry before in its batch.
    pub(super) fn stamped(&self, stamp: Stamp) -> Self {
        let small;
        let bytes = match &self.form {
            Form::Small(words, len) => {
                small = words.map(u64::to_le_bytes);
                small.as_flattened().get(..*len).unwrap_or_default()
            }
            Form::Long(bytes) => bytes,
        };
        let mut with_stamp = Vec::with_capacity(bytes.len() + 12);
        if let Some((tag, rest)) = bytes.split_first() {
            with_stamp.push(tag | FLAG_STAMP);
            with_stamp.extend_from_slice(&stamp.at_us.to_le_bytes());
            with_stamp.extend_from_slice(&stamp.origin.to_le_bytes());
            with_stamp.extend_from_slice(rest);
        }
        Self::long(with_stamp)
    }

    /// Returns how many bytes it has.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match &self.form {
            Form::Small(_, len) => *len,
            Form::Long(bytes) => bytes.len(),
        }
    }

    /// Writes it to a file, where there is room for [`SMALL_WORDS`] words at least.
    #[inline]
    pub(super) fn store(&self, file: &MappedFile, at: u64) {
        match &self.form {
            Form::Small(words, _) => {
                let window = file.window(at, 8 * SMALL_WORDS);
                for (number, word) in words.iter().enumerate() {
                    window.store_u64(8 * number, *word);
                }
            }
            Form::Long(bytes) => file.store(at, bytes),
        }
    }
}

/// Returns at most 8 bytes as a little-endian number.
#[inline]
fn short_word(bytes: &[u8]) -> Option<u64> {
    let (len, last) = (bytes.len(), bytes.len().wrapping_sub(1));
    let byte = |at: usize| bytes.get(at).copied().map_or(0, u64::from);
    // Two reads that overlap, so that each is of a size that the processor has.
    match len {
        8 => bytes.first_chunk().map(|word| u64::from_le_bytes(*word)),
        4..8 => {
            let (first, last) = (bytes.first_chunk()?, bytes.last_chunk()?);
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            Some(u64::from(first) | u64::from(last) << (8 * (len - 4)))
        }
        1..4 => Some(byte(0) | byte(len / 2) << (8 * (len / 2)) | byte(last) << (8 * last)),
        0 => Some(0),
        _ => None,
    }
}

/// FORMAT: what an entry adds to the sum over what waits: its length, and each of its 8-byte words
/// (little-endian, the last one filled with zeros), multiplied and rotated to the left by 5 more for
/// each word before it; all by exclusive or. No word waits for another one.
pub(super) fn sum_of(entry: &[u8]) -> u64 {
    let (words, rest) = entry.as_chunks();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    sum_of_words(words.chain(short_word(rest)), entry.len())
}

#[inline]
fn sum_of_words(words: impl IntoIterator<Item = u64>, len: usize) -> u64 {
    let words = words.into_iter().zip((0..64).step_by(5).cycle());
    words.fold(len as u64, |sum, (word, places)| {
        sum ^ word.wrapping_mul(FACTOR).rotate_left(places)
    })
}

/// FORMAT: 2^64 divided by the golden ratio, odd.
pub(super) const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hikyaku_vfs::SimulatedDisk;

    use super::*;

    #[test]
    fn a_small_entry_is_the_same_whichever_way_it_was_made() {
        let disk = SimulatedDisk::new(1).disk();
        let path = Path::new("/log/entry");
        disk.create_dir_all(Path::new("/log")).unwrap();
        drop(disk.create_new(path).unwrap());
        let file = disk.map_mut(path, 4096).unwrap();
        file.reserve(0, 4096).unwrap();
        let bytes: Vec<u8> = (0xe0..=0xff).collect();
        for (key_len, value_len) in (0..=10).flat_map(|key| (0..=10).map(move |value| (key, value)))
        {
            let effect = Effect::Put {
                key: &bytes[..key_len],
                value: &bytes[16..16 + value_len],
                attributes: Attributes::default(),
            };
            let mut expected = Vec::new();
            put_effect(&mut expected, 0x7f, &effect);
            let made = Prepared::effect(0x7f, &effect);
            let is_small = matches!(made.form, Form::Small(..));
            assert_eq!(is_small, key_len <= 8 && value_len <= 8);
            made.store(&file, 3);
            let mut stored = vec![0; made.len()];
            file.load(3, &mut stored);
            assert_eq!(stored, expected, "{key_len}, {value_len}");
            assert_eq!(made.sum, sum_of(&expected), "{key_len}, {value_len}");
            let stamp = Stamp {
                at_us: 0x0102_0304_0506_0708,
                origin: 9,
            };
            let made = made.stamped(stamp);
            let mut stored = vec![0; made.len()];
            made.store(&file, 3);
            file.load(3, &mut stored);
            let entry = Entry::read(&stored, 0, None).unwrap();
            assert_eq!((entry.stamp, entry.end), (stamp, stored.len()));
            assert_eq!(entry.body.effect(&stored), Some((0x7f, effect)));
        }
    }
}
