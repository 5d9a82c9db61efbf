//! What goes over the wire between two servers.
//!
//! FORMAT: numbers are big-endian, as in the rest of the binary protocol. The follower says `C8 A1`,
//! a version (4 bytes) and its server's number (4). The source answers `00` and its own number (4).
//! The follower says where it is: a position in the source's log (8, all ones for none), and a time
//! from which on it wants updates if it has no position (8, microseconds since 1970). The source
//! answers `00`, and then sends frames: a kind (1), the length of what follows (4), that.
//! Instead of a `00` there may be a `01`, a length (4) and a text that says why not.

use hikyaku_tables::{Attributes, Effect, LogPosition, Logged, Stamp};

/// The version of what is spoken here.
pub(super) const VERSION: u32 = 1;
/// Bytes of a frame at most: values have a limit of their own far below.
const FRAME_BYTES_MAX: usize = 1 << 30;
const HEAD: usize = 5;

const UPDATE: u8 = 0xc9;
const AT: u8 = 0xca;
const END: u8 = 0xcb;

const PUT: u8 = 0;
const REMOVE: u8 = 1;
const VANISH: u8 = 2;

/// What a source sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// An update.
    Update {
        /// The update.
        logged: Logged<'a>,
        /// The position behind it.
        position: LogPosition,
    },
    /// Everything before a position was sent: a sign of life.
    At(LogPosition),
    /// Nothing more will come, for this reason.
    End(&'a str),
}

/// What bytes begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// A frame of so many bytes.
    Whole(Frame<'a>, usize),
    /// A frame of so many bytes, of which some are missing.
    Part(usize),
    /// No frame.
    Broken,
}

/// Reads a frame.
pub(super) fn parse(bytes: &[u8]) -> Parsed<'_> {
    let Some(([kind, length @ ..], rest)) = bytes.split_first_chunk::<HEAD>() else {
        return Parsed::Part(HEAD);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length > FRAME_BYTES_MAX {
        return Parsed::Broken;
    }
    let Some(body) = rest.get(..length) else {
        return Parsed::Part(HEAD + length);
    };
    let mut body = Body(body);
    let frame = match *kind {
        UPDATE => body.update(),
        AT => body.u64().map(|position| Frame::At(LogPosition(position))),
        END => std::str::from_utf8(body.0).ok().map(Frame::End),
        _ => None,
    };
    frame.map_or(Parsed::Broken, |frame| Parsed::Whole(frame, HEAD + length))
}

/// Sets the position of an update that was written at a place.
pub(super) fn set_position(output: &mut [u8], start: usize, position: LogPosition) {
    if let Some(bytes) = output.get_mut(start + HEAD..start + HEAD + 8) {
        bytes.copy_from_slice(&position.0.to_be_bytes());
    }
}

/// Writes a frame.
pub(super) fn write(output: &mut Vec<u8>, frame: &Frame<'_>) {
    let start = output.len();
    let kind = match frame {
        Frame::Update { .. } => UPDATE,
        Frame::At(_) => AT,
        Frame::End(_) => END,
    };
    output.extend_from_slice(&[kind, 0, 0, 0, 0]);
    match frame {
        Frame::Update { logged, position } => write_update(output, logged, *position),
        Frame::At(position) => output.extend_from_slice(&position.0.to_be_bytes()),
        Frame::End(why) => output.extend_from_slice(why.as_bytes()),
    }
    let length = (output.len() - start - HEAD) as u32;
    if let Some(bytes) = output.get_mut(start + 1..start + HEAD) {
        bytes.copy_from_slice(&length.to_be_bytes());
    }
}

/// FORMAT: the position behind the update (8), its time (8) and first server (4), what it did (1),
/// the length of its table's name (1), flags (4), expiry (8), the length of the key (4), then name,
/// key and value.
fn write_update(output: &mut Vec<u8>, logged: &Logged<'_>, position: LogPosition) {
    let (effect, key, value, attributes) = match logged.effect {
        Effect::Put {
            key,
            value,
            attributes,
        } => (PUT, key, value, attributes),
        Effect::Remove { key } => (REMOVE, key, &[][..], Attributes::default()),
        Effect::Vanish => (VANISH, &[][..], &[][..], Attributes::default()),
    };
    let name = logged.table.as_bytes();
    output.extend_from_slice(&position.0.to_be_bytes());
    output.extend_from_slice(&logged.stamp.at_us.to_be_bytes());
    output.extend_from_slice(&logged.stamp.origin.to_be_bytes());
    // A name has 64 bytes at most.
    output.extend_from_slice(&[effect, name.len() as u8]);
    output.extend_from_slice(&attributes.flags.to_be_bytes());
    output.extend_from_slice(&attributes.expires_at.to_be_bytes());
    output.extend_from_slice(&(key.len() as u32).to_be_bytes());
    for bytes in [name, key, value] {
        output.extend_from_slice(bytes);
    }
}

/// What is left of a frame.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn update(&mut self) -> Option<Frame<'a>> {
        let position = LogPosition(self.u64()?);
        let stamp = Stamp {
            at_us: self.u64()?,
            origin: self.u32()?,
        };
        let [effect, name] = *self.take(2)? else {
            return None;
        };
        let attributes = Attributes {
            flags: self.u32()?,
            expires_at: self.u64()?,
        };
        let key = self.u32()? as usize;
        let table = std::str::from_utf8(self.take(name.into())?).ok()?;
        let key = self.take(key)?;
        let effect = match effect {
            PUT => Effect::Put {
                key,
                value: self.0,
                attributes,
            },
            REMOVE => Effect::Remove { key },
            VANISH => Effect::Vanish,
            _ => return None,
        };
        let logged = Logged {
            table,
            effect,
            stamp,
        };
        Some(Frame::Update { logged, position })
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing {
    //! The body of the fuzz target, which also runs as a property test.

    use super::{Parsed, parse, write};

    /// Reads bytes as frames: nothing panics, what is missing is asked for, and what was read is
    /// written as it was read.
    pub fn fuzz_replication_frames(mut bytes: &[u8]) {
        loop {
            match parse(bytes) {
                Parsed::Broken => return,
                Parsed::Part(needed) => {
                    assert!(needed > bytes.len());
                    return;
                }
                Parsed::Whole(frame, len) => {
                    let mut again = Vec::new();
                    write(&mut again, &frame);
                    let Parsed::Whole(frame_again, len_again) = parse(&again) else {
                        panic!("{frame:?} is not read as it was written");
                    };
                    assert_eq!((frame_again, len_again), (frame, again.len()));
                    bytes = bytes.get(len..).unwrap_or_default();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn any_frame() -> impl Strategy<Value = Vec<u8>> {
        let bytes = vec(any::<u8>(), 0..40);
        let effect = (0_u8..3, bytes.clone(), bytes, any::<(u32, u64)>());
        let stamp = any::<(u64, u32, u64)>();
        let update = ("[a-z]{1,64}", stamp, effect).prop_map(
            |(table, (at_us, origin, position), (kind, key, value, (flags, expires_at)))| {
                let effect = match kind {
                    0 => Effect::Put {
                        key: &key,
                        value: &value,
                        attributes: Attributes { flags, expires_at },
                    },
                    1 => Effect::Remove { key: &key },
                    _ => Effect::Vanish,
                };
                let logged = Logged {
                    table: &table,
                    effect,
                    stamp: Stamp { at_us, origin },
                };
                let position = LogPosition(position);
                let frame = Frame::Update { logged, position };
                let mut written = Vec::new();
                write(&mut written, &frame);
                assert_eq!(parse(&written), Parsed::Whole(frame, written.len()));
                written
            },
        );
        let at = any::<u64>().prop_map(|position| {
            let mut written = Vec::new();
            write(&mut written, &Frame::At(LogPosition(position)));
            written
        });
        prop_oneof![update, at]
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
            testing::fuzz_replication_frames(&bytes);
        }

        #[test]
        fn what_is_written_is_read(frames in vec(any_frame(), 0..5), cut in 0_usize..400) {
            let bytes = frames.concat();
            testing::fuzz_replication_frames(&bytes);
            testing::fuzz_replication_frames(bytes.get(..cut).unwrap_or(&bytes));
        }
    }
}
