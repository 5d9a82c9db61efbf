//! What waits to be sent to one client, and how it becomes few large writes.
//!
//! The queue shares its bytes with all other receivers. Only for the moment of a write are small
//! frames gathered side by side, in a buffer that all connections of a worker use in turn; large
//! payloads go to the socket from where they lie. What a write leaves over stays in the queue.

use std::{collections::VecDeque, io::IoSlice, ops::Range};

use bytes::Bytes;
use hikyaku_relay::Message;

use crate::websocket::{CloseCode, FrameHeader, OpCode};

/// Bytes handed to one write at most (one frame may pass it): a socket buffer's worth.
const WRITE_BYTES_MAX: usize = 128 * 1024;
/// From this size on a payload is sent from where it lies. Below it a copy costs less than another
/// slice for the system call to walk.
const SHARED_BYTES_MIN: usize = 8 * 1024;
/// Slices handed to one write at most.
const SLICES_MAX: usize = 64;
/// A queue that has grown beyond this is given back when it is empty.
const IDLE_CAPACITY: usize = 8;

/// One frame that waits.
#[derive(Debug)]
enum Frame {
    Message(Message),
    Control(OpCode, Bytes),
}

impl Frame {
    /// Returns the header, and the three parts of the payload.
    fn parts(&self) -> (FrameHeader, &Bytes, Option<&Bytes>, &'static [u8]) {
        let (op, first, second, last): (_, _, _, &'static [u8]) = match self {
            Self::Message(Message::Text(text)) => (OpCode::Text, text, None, b""),
            Self::Message(Message::Event { header, json }) => {
                (OpCode::Text, header, Some(json), b"]")
            }
            Self::Control(op, payload) => (*op, payload, None, b""),
        };
        let length = first.len() + second.map_or(0, Bytes::len) + last.len();
        (FrameHeader::new(op, length), first, second, last)
    }

    fn length(&self) -> usize {
        let (header, first, second, last) = self.parts();
        header.as_bytes().len() + first.len() + second.map_or(0, Bytes::len) + last.len()
    }
}

/// What waits to be sent to one client.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<Frame>,
    /// Bytes of all frames in the queue, less what of the first has been sent.
    bytes: usize,
    /// How much of the first frame has been sent.
    front_sent: usize,
}

impl Outbox {
    pub(super) fn message(&mut self, message: Message) {
        self.push(Frame::Message(message));
    }

    pub(super) fn ping(&mut self) {
        self.push(Frame::Control(OpCode::Ping, Bytes::new()));
    }

    pub(super) fn pong(&mut self, payload: &[u8]) {
        self.push(Frame::Control(
            OpCode::Pong,
            Bytes::copy_from_slice(payload),
        ));
    }

    pub(super) fn close(&mut self, code: CloseCode, reason: &str) {
        self.push(Frame::Control(OpCode::Close, code.payload(reason).into()));
    }

    fn push(&mut self, frame: Frame) {
        self.bytes += frame.length();
        self.queue.push_back(frame);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Drops all frames but one whose sending has begun.
    pub(super) fn drop_unsent(&mut self) {
        self.queue.truncate(usize::from(self.front_sent > 0));
        self.bytes = self.queue.front().map_or(0, Frame::length) - self.front_sent;
    }

    /// Drops everything: the socket is gone.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Gathers the front of the queue for a write.
    pub(super) fn gather(&self, gathered: &mut Gathered) {
        gathered.clear();
        let mut sent = self.front_sent;
        for frame in &self.queue {
            let (header, first, second, last) = frame.parts();
            gathered.copy(header.as_bytes(), &mut sent);
            gathered.take(first, &mut sent);
            if let Some(second) = second {
                gathered.take(second, &mut sent);
            }
            gathered.copy(last, &mut sent);
            // A frame adds at most three slices.
            if gathered.bytes >= WRITE_BYTES_MAX || gathered.segments.len() + 3 > SLICES_MAX {
                break;
            }
        }
    }

    /// Forgets what a write has sent.
    pub(super) fn advance(&mut self, written: usize) {
        self.bytes -= written;
        self.front_sent += written;
        while let Some(frame) = self.queue.front() {
            let length = frame.length();
            if self.front_sent < length {
                return;
            }
            self.front_sent -= length;
            self.queue.pop_front();
        }
        if self.queue.capacity() > IDLE_CAPACITY {
            self.queue = VecDeque::new();
        }
    }
}

#[derive(Debug)]
enum Segment {
    Copied(Range<usize>),
    Shared(Bytes),
}

/// The bytes of one write; its memory is used again for the next.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    copied: Vec<u8>,
    segments: Vec<Segment>,
    bytes: usize,
}

impl Gathered {
    fn clear(&mut self) {
        self.copied.clear();
        self.segments.clear();
        self.bytes = 0;
    }

    /// Takes what comes after the first `skip` bytes, by copy if it is small.
    fn take(&mut self, part: &Bytes, skip: &mut usize) {
        let skipped = part.len().min(*skip);
        if part.len() - skipped < SHARED_BYTES_MIN {
            self.copy(part, skip);
            return;
        }
        *skip -= skipped;
        let rest = part.slice(skipped..);
        self.bytes += rest.len();
        self.segments.push(Segment::Shared(rest));
    }

    fn copy(&mut self, part: &[u8], skip: &mut usize) {
        let skipped = part.len().min(*skip);
        *skip -= skipped;
        let rest = part.get(skipped..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        let start = self.copied.len();
        self.copied.extend_from_slice(rest);
        self.bytes += rest.len();
        let end = self.copied.len();
        match self.segments.last_mut() {
            Some(Segment::Copied(range)) => range.end = end,
            _ => self.segments.push(Segment::Copied(start..end)),
        }
    }

    /// Calls `write` with the slices in order.
    pub(super) fn with_slices<T>(&self, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        for (slice, segment) in slices.iter_mut().zip(&self.segments) {
            *slice = IoSlice::new(match segment {
                Segment::Copied(range) => self.copied.get(range.clone()).unwrap_or_default(),
                Segment::Shared(bytes) => bytes,
            });
            count += 1;
        }
        write(slices.get(..count).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(length: usize, fill: u8) -> Bytes {
        vec![fill; length].into()
    }

    /// Sends the whole outbox in writes of these lengths.
    fn send(outbox: &mut Outbox, mut write_lengths: impl Iterator<Item = usize>) -> Vec<u8> {
        let mut sent = Vec::new();
        let mut gathered = Gathered::default();
        while !outbox.is_empty() {
            outbox.gather(&mut gathered);
            let all = gathered.with_slices(|slices| {
                assert!(slices.iter().all(|slice| !slice.is_empty()));
                slices
                    .iter()
                    .flat_map(|slice| slice.to_vec())
                    .collect::<Vec<_>>()
            });
            let length = write_lengths
                .next()
                .unwrap_or(usize::MAX)
                .clamp(1, all.len());
            sent.extend_from_slice(&all[..length]);
            outbox.advance(length);
        }
        assert_eq!(outbox.bytes(), 0);
        sent
    }

    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut frame = FrameHeader::new(OpCode::Text, payload.len())
            .as_bytes()
            .to_vec();
        frame.extend_from_slice(payload);
        frame
    }

    proptest! {
        #[test]
        fn partial_writes_lose_and_repeat_nothing(
            messages in prop::collection::vec((0..40_usize, prop_oneof![0..300_usize, 8000..90_000_usize]), 1..40),
            writes in prop::collection::vec(1..60_000_usize, 0..50),
        ) {
            let mut outbox = Outbox::default();
            let mut expected = Vec::new();
            for (index, (header, json)) in messages.into_iter().enumerate() {
                let header = bytes(header, b'h');
                let json = bytes(json, index as u8);
                expected.extend(frame(&[&header[..], &json[..], b"]"].concat()));
                outbox.message(Message::Event { header, json });
            }
            prop_assert_eq!(outbox.bytes(), expected.len());
            prop_assert!(send(&mut outbox, writes.into_iter()) == expected);
        }
    }

    #[test]
    fn a_frame_that_has_begun_is_finished() {
        let mut outbox = Outbox::default();
        for fill in [b'a', b'b'] {
            outbox.message(Message::Text(bytes(10, fill)));
        }
        outbox.advance(3);
        outbox.drop_unsent();
        assert_eq!(outbox.bytes(), 9);
        outbox.message(Message::Text(bytes(2, b'c')));
        let rest = send(&mut outbox, std::iter::empty());
        assert_eq!(rest, [&frame(b"aaaaaaaaaa")[3..], &frame(b"cc")].concat());
    }

    #[test]
    fn large_payloads_are_not_copied() {
        let mut outbox = Outbox::default();
        outbox.message(Message::Event {
            header: bytes(20, b'h'),
            json: bytes(100_000, b'j'),
        });
        let mut gathered = Gathered::default();
        outbox.gather(&mut gathered);
        assert!(gathered.copied.len() < 100);
    }
}
