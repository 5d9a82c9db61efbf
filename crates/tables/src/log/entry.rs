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
pub(super) const ENTRY_OVERHEAD_MAX: usize = 1 + STAMP_LEN + 5 + 5 + 12 + 5;
const STAMP_LEN: usize = 12;

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

/// An entry, made before the queue is locked. Under the lock it becomes one with a stamp where it needs
/// one, without an allocation: all that takes long has been done.
pub(super) enum Prepared {
    Small(Small<SMALL_WORDS>),
    Long(Long),
}

/// The bytes as little-endian words, of which the first so many count and the others are zeros: it is
/// made and kept without going through memory.
#[derive(Clone, Copy)]
pub(super) struct Small<const WORDS: usize> {
    words: [u64; WORDS],
    len: usize,
    sum: u64,
}

/// Any bytes.
pub(super) struct Long {
    bytes: Vec<u8>,
    sum: u64,
    /// What stands in the place of the first byte where there is a stamp, and the sum then.
    stamped: [u8; 1 + STAMP_LEN],
    stamped_sum: u64,
}

/// A long entry with its stamp.
pub(super) struct LongStamped<'a>(&'a Long);

/// An entry as it is kept.
pub(super) trait Kept {
    /// Returns how many bytes it has.
    fn len(&self) -> usize;
    /// Returns its part of the sum over what waits.
    fn sum(&self) -> u64;
    /// Writes it to a file, where there is room for [`ENTRY_OVERHEAD_MAX`] bytes at least.
    fn store(&self, file: &MappedFile, at: u64);
}

/// An entry as it is kept behind one of the same stamp.
pub(super) trait Unstamped: Kept {
    /// Returns the same entry with its stamp.
    fn with_stamp(&self, stamp: Stamp) -> impl Kept;
}

/// Room for an entry of a key of 8 bytes and a value of 8 bytes, and for one with a stamp.
const SMALL_WORDS: usize = 3;
const STAMPED_WORDS: usize = 5;
const _: () = assert!(8 * STAMPED_WORDS <= ENTRY_OVERHEAD_MAX);

impl Prepared {
    /// Makes the entry of an effect.
    #[inline]
    pub(super) fn effect(table: u32, effect: &Effect<'_>, stamp: Stamp) -> Self {
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
            return Self::Small(Small::new(words, 4 + key.len() + value.len()));
        }
        let mut bytes = Vec::with_capacity(ENTRY_OVERHEAD_MAX + effect.bytes());
        put_effect(&mut bytes, table, effect);
        Self::long(bytes, stamp)
    }

    /// Makes the entry of how far another server's updates were applied.
    pub(super) fn applied(applied: &Applied, stamp: Stamp) -> Self {
        let mut bytes = Vec::new();
        put_applied(&mut bytes, applied);
        Self::long(bytes, stamp)
    }

    fn long(bytes: Vec<u8>, stamp: Stamp) -> Self {
        let tag = bytes.first().copied().unwrap_or_default() | FLAG_STAMP;
        let low = u128::from(tag) | u128::from(stamp.at_us) << 8 | u128::from(stamp.origin) << 72;
        let [stamped @ .., _, _, _] = low.to_le_bytes();
        Self::Long(Long {
            sum: sum_of(&bytes),
            stamped_sum: sum_stamped(&stamped, bytes.get(1..).unwrap_or_default()),
            bytes,
            stamped,
        })
    }
}

impl Long {
    pub(super) fn stamped(&self) -> LongStamped<'_> {
        LongStamped(self)
    }
}

impl<const WORDS: usize> Small<WORDS> {
    #[inline]
    fn new(words: [u64; WORDS], len: usize) -> Self {
        let sum = sum_of_words(words.into_iter().take(len.div_ceil(8)), len);
        Self { words, len, sum }
    }
}

impl Small<SMALL_WORDS> {
    /// Returns the same entry with a stamp, which stands behind its first byte.
    #[inline]
    pub(super) fn stamped(&self, stamp: Stamp) -> Small<STAMPED_WORDS> {
        let [low, middle, high] = self.words;
        let tag = low & 0xff | u64::from(FLAG_STAMP);
        // What follows the tag, from the first byte on; it begins 13 bytes behind the tag then.
        let behind = [low >> 8 | middle << 56, middle >> 8 | high << 56, high >> 8];
        let words = [
            tag | stamp.at_us << 8,
            stamp.at_us >> 56 | u64::from(stamp.origin) << 8 | behind[0] << 40,
            behind[0] >> 24 | behind[1] << 40,
            behind[1] >> 24 | behind[2] << 40,
            behind[2] >> 24,
        ];
        Small::new(words, self.len + STAMP_LEN)
    }
}

impl Unstamped for Small<SMALL_WORDS> {
    #[inline]
    fn with_stamp(&self, stamp: Stamp) -> impl Kept {
        self.stamped(stamp)
    }
}

impl Unstamped for Long {
    fn with_stamp(&self, _: Stamp) -> impl Kept {
        self.stamped()
    }
}

impl<const WORDS: usize> Kept for Small<WORDS> {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn sum(&self) -> u64 {
        self.sum
    }

    #[inline]
    fn store(&self, file: &MappedFile, at: u64) {
        let window = file.window(at, 8 * WORDS);
        for (number, word) in self.words.iter().enumerate() {
            window.store_u64(8 * number, *word);
        }
    }
}

impl Kept for Long {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn sum(&self) -> u64 {
        self.sum
    }

    fn store(&self, file: &MappedFile, at: u64) {
        file.store(at, &self.bytes);
    }
}

impl Kept for LongStamped<'_> {
    fn len(&self) -> usize {
        self.0.bytes.len() + STAMP_LEN
    }

    fn sum(&self) -> u64 {
        let Long { stamped_sum, .. } = self.0;
        *stamped_sum
    }

    fn store(&self, file: &MappedFile, at: u64) {
        let Long { bytes, stamped, .. } = self.0;
        file.store(at, stamped);
        let rest = bytes.get(1..).unwrap_or_default();
        file.store(at + stamped.len() as u64, rest);
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
/// (little-endian, the last one filled with zeros), plus [`STEP`] times its number from 1, multiplied
/// and rotated to the left by 5 more for each word before it; all by exclusive or. No word waits for
/// another one, and equal words do not undo each other.
pub(super) fn sum_of(entry: &[u8]) -> u64 {
    let (words, rest) = entry.as_chunks();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let last = short_word(rest).filter(|_| !rest.is_empty());
    sum_of_words(words.chain(last), entry.len())
}

/// Returns the same of an entry in two parts, without putting them together.
fn sum_stamped(front: &[u8; 1 + STAMP_LEN], rest: &[u8]) -> u64 {
    let Some((first, rest)) = rest.split_first_chunk::<3>() else {
        return sum_of(&[front, rest].concat());
    };
    let mut words = [0; 16];
    let (head, tail) = words.split_at_mut(front.len());
    head.copy_from_slice(front);
    tail.copy_from_slice(first);
    let (front, _) = words.as_chunks();
    let (behind, last) = rest.as_chunks();
    let all = front
        .iter()
        .chain(behind)
        .map(|word| u64::from_le_bytes(*word));
    let last = short_word(last).filter(|_| !last.is_empty());
    sum_of_words(all.chain(last), words.len() + rest.len())
}

#[inline]
fn sum_of_words(words: impl IntoIterator<Item = u64>, len: usize) -> u64 {
    let words = words.into_iter().zip((0..64).step_by(5).cycle());
    let mut place = 0_u64;
    words.fold(len as u64, |sum, (word, places)| {
        place = place.wrapping_add(STEP);
        sum ^ word
            .wrapping_add(place)
            .wrapping_mul(FACTOR)
            .rotate_left(places)
    })
}

/// FORMAT: an odd number: the first digits of pi behind the point, in binary.
const STEP: u64 = 0x243f_6a88_85a3_08d3;

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
            let stamp = Stamp {
                at_us: 0xf102_0304_0506_0708,
                origin: 0xe000_0009,
            };
            let stored = |entry: &dyn Kept| {
                entry.store(&file, 3);
                let mut stored = vec![0; entry.len()];
                file.load(3, &mut stored);
                assert_eq!(entry.sum(), sum_of(&stored), "{key_len}, {value_len}");
                stored
            };
            let mut bare = Vec::new();
            put_effect(&mut bare, 0x7f, &effect);
            let is_small = key_len <= 8 && value_len <= 8;
            let stored = match Prepared::effect(0x7f, &effect, stamp) {
                Prepared::Small(small) => {
                    assert!(is_small);
                    assert_eq!(stored(&small), bare, "{key_len}, {value_len}");
                    stored(&small.stamped(stamp))
                }
                Prepared::Long(long) => {
                    assert!(!is_small);
                    assert_eq!(stored(&long), bare, "{key_len}, {value_len}");
                    stored(&long.stamped())
                }
            };
            let mut expected = vec![bare[0] | FLAG_STAMP];
            expected.extend_from_slice(&stamp.at_us.to_le_bytes());
            expected.extend_from_slice(&stamp.origin.to_le_bytes());
            expected.extend_from_slice(&bare[1..]);
            assert_eq!(stored, expected, "{key_len}, {value_len}");
            let entry = Entry::read(&stored, 0, None).unwrap();
            assert_eq!((entry.stamp, entry.end), (stamp, stored.len()));
            assert_eq!(entry.body.effect(&stored), Some((0x7f, effect)));
        }
    }

    #[test]
    fn a_short_entry_that_is_not_small_has_its_stamp_too() {
        let stamp = Stamp {
            at_us: u64::MAX,
            origin: 3,
        };
        for (table, bytes) in [(0, 2), (300, 3), (1 << 20, 4)] {
            let Prepared::Long(long) = Prepared::effect(table, &Effect::Vanish, stamp) else {
                panic!("it has no key");
            };
            assert_eq!(long.len(), bytes);
            let whole = [&long.stamped[..], &long.bytes[1..]].concat();
            assert_eq!(long.stamped().sum(), sum_of(&whole));
            assert_eq!(Entry::read(&whole, 0, None).unwrap().stamp, stamp);
        }
    }

    #[test]
    fn equal_words_do_not_undo_each_other_in_the_sum() {
        for words in [1, 2, 512, 13 * 512] {
            let ones = vec![0x11; 8 * words];
            let zeros = vec![0; 8 * words];
            assert_ne!(sum_of(&ones), sum_of(&zeros), "{words} words");
        }
        // As pages that were not written would be.
        let value = vec![0x11; 40 * 4096];
        let mut torn = value.clone();
        torn[4096..4096 + 13 * 4096].fill(0);
        assert_ne!(sum_of(&value), sum_of(&torn));
    }
}
