//! Framing without sockets: our decoder against every split of the stream, and against another
//! implementation.

use hikyaku_server::{
    testing::fuzz_websocket,
    websocket::{CloseCode, Decoder, FrameHeader, Incoming, OpCode, ProtocolError},
};
use proptest::prelude::*;
use tokio_tungstenite::tungstenite::{
    Message,
    protocol::{
        CloseFrame, Role, WebSocket, WebSocketConfig, frame::coding::CloseCode as TheirCode,
    },
};

use crate::wire::{OPS, frame};

const MESSAGE_BYTES_MAX: usize = 5_000;

/// What a decoder made of a stream.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Text(String),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<(u16, String)>),
    Error(ProtocolError),
}

/// Decodes a stream that comes in pieces, up to its first error.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Seen> {
    let mut decoder = Decoder::new(MESSAGE_BYTES_MAX);
    let mut seen = Vec::new();
    for piece in pieces {
        let mut piece = piece.to_vec();
        let mut input = piece.as_mut_slice();
        loop {
            seen.push(match decoder.next(&mut input) {
                Ok(None) => break,
                Ok(Some(Incoming::Text(text))) => Seen::Text(text.to_owned()),
                Ok(Some(Incoming::Ping(payload))) => Seen::Ping(payload.to_vec()),
                Ok(Some(Incoming::Pong(payload))) => Seen::Pong(payload.to_vec()),
                Ok(Some(Incoming::Close(close))) => {
                    Seen::Close(close.map(|(code, reason)| (code.0, reason.to_owned())))
                }
                Err(error) => {
                    seen.push(Seen::Error(error));
                    return seen;
                }
            });
        }
    }
    seen
}

fn split<'a>(mut stream: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for length in lengths {
        let (piece, rest) = stream.split_at((*length).min(stream.len()));
        pieces.push(piece);
        stream = rest;
    }
    pieces.push(stream);
    pieces
}

/// Makes what a lawful client may send: messages whole or in fragments, control frames between.
fn lawful_stream() -> impl Strategy<Value = Vec<u8>> {
    let control = (4..=5_usize, prop::collection::vec(any::<u8>(), 0..=125))
        .prop_map(|(op, payload)| frame(OPS[op], &payload));
    let text = prop_oneof![".{0,100}", "[a-zé]{0,1200}"];
    let message = (
        text,
        prop::collection::vec((1..400_usize, prop::option::of(control.clone())), 0..4),
    )
        .prop_map(|(text, cuts)| {
            let mut rest = text.as_bytes();
            let mut stream = Vec::new();
            let mut op = 0x01;
            for (cut, between) in cuts {
                let (part, after) = rest.split_at(cut.min(rest.len()));
                stream.extend(frame(op, part));
                stream.extend(between.unwrap_or_default());
                rest = after;
                op = 0x00;
            }
            stream.extend(frame(0x80 | op, rest));
            stream
        });
    prop::collection::vec(prop_oneof![3 => message, 1 => control], 0..8)
        .prop_map(|parts| parts.concat())
}

/// Decodes with tungstenite.
fn decode_theirs(stream: &[u8]) -> Vec<Seen> {
    let config = WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES_MAX));
    let io = Stream(std::io::Cursor::new(stream.to_vec()));
    let mut socket = WebSocket::from_raw_socket(io, Role::Server, Some(config));
    let mut seen = Vec::new();
    while let Ok(message) = socket.read() {
        seen.push(match message {
            Message::Text(text) => Seen::Text(text.to_string()),
            Message::Ping(payload) => Seen::Ping(payload.to_vec()),
            Message::Pong(payload) => Seen::Pong(payload.to_vec()),
            other => panic!("{other:?}"),
        });
    }
    seen
}

/// Reads from memory, writes to nowhere.
struct Stream(std::io::Cursor<Vec<u8>>);

impl std::io::Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl std::io::Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        Ok(buffer.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

proptest! {
    #[test]
    fn another_implementation_sees_the_same_messages(stream in lawful_stream()) {
        prop_assert_eq!(decode([stream.as_slice()]), decode_theirs(&stream));
    }

    #[test]
    fn any_split_of_the_stream_gives_the_same_messages(
        stream in lawful_stream(),
        lengths in prop::collection::vec(0..700_usize, 0..30),
    ) {
        let whole = decode([stream.as_slice()]);
        prop_assert!(!whole.iter().any(|seen| matches!(seen, Seen::Error(_))));
        prop_assert_eq!(&decode(split(&stream, &lengths)), &whole);
        prop_assert_eq!(&decode(stream.chunks(1)), &whole);
    }

    #[test]
    fn nonsense_is_the_same_nonsense_in_any_pieces(
        mut stream in prop_oneof![prop::collection::vec(any::<u8>(), 0..300), lawful_stream()],
        // A lawful stream but for one byte goes deeper than noise.
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        length in any::<u8>(),
    ) {
        if !stream.is_empty() {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        stream.insert(0, length);
        fuzz_websocket(&stream);
    }

    #[test]
    fn what_we_send_another_implementation_reads(
        texts in prop::collection::vec(prop_oneof![".{0,200}".boxed(), (0..70_000_usize).prop_map(|length| "x".repeat(length)).boxed()], 0..5),
        reason in ".{0,60}",
    ) {
        let mut stream = Vec::new();
        for text in &texts {
            stream.extend(FrameHeader::new(OpCode::Text, text.len()).as_bytes());
            stream.extend(text.as_bytes());
        }
        let close = CloseCode::GOING_AWAY.payload(&reason);
        stream.extend(FrameHeader::new(OpCode::Close, close.len()).as_bytes());
        stream.extend(close);
        let io = Stream(std::io::Cursor::new(stream));
        let mut socket = WebSocket::from_raw_socket(io, Role::Client, None);
        for text in texts {
            prop_assert_eq!(socket.read().unwrap(), Message::text(text));
        }
        let Message::Close(Some(CloseFrame { code, reason: theirs })) = socket.read().unwrap() else {
            panic!("a close frame");
        };
        prop_assert_eq!(code, TheirCode::Away);
        prop_assert!(reason.starts_with(theirs.as_str()));
    }
}

#[test]
fn each_broken_rule_has_its_error() {
    let long = frame(OPS[1], &[b'x'; MESSAGE_BYTES_MAX + 1]);
    for (stream, error) in [
        (b"\x81\x00".to_vec(), ProtocolError::Unmasked),
        (frame(0x91, b""), ProtocolError::ReservedBit),
        (frame(0x8b, b""), ProtocolError::UnknownOpCode),
        (frame(0x08, b""), ProtocolError::ControlFrame),
        (frame(OPS[4], &[0; 126]), ProtocolError::ControlFrame),
        (frame(OPS[0], b""), ProtocolError::FragmentOrder),
        (
            [frame(0x01, b"a"), frame(OPS[1], b"b")].concat(),
            ProtocolError::FragmentOrder,
        ),
        (
            [frame(0x01, b"a"), frame(OPS[2], b"b")].concat(),
            ProtocolError::FragmentOrder,
        ),
        (b"\x81\xfe\x00\x7d\0\0\0\0".to_vec(), ProtocolError::Length),
        (
            b"\x81\xff\x00\0\0\0\0\0\xff\xff\0\0\0\0".to_vec(),
            ProtocolError::Length,
        ),
        (
            b"\x81\xff\x80\0\0\0\0\0\0\0".to_vec(),
            ProtocolError::Length,
        ),
        (frame(OPS[3], b"\x03"), ProtocolError::CloseFrame),
        (
            frame(OPS[3], &999_u16.to_be_bytes()),
            ProtocolError::CloseFrame,
        ),
        (
            frame(OPS[3], &1005_u16.to_be_bytes()),
            ProtocolError::CloseFrame,
        ),
        (
            frame(OPS[3], &5000_u16.to_be_bytes()),
            ProtocolError::CloseFrame,
        ),
        (frame(OPS[3], b"\x03\xe8\xff"), ProtocolError::InvalidText),
        (frame(OPS[1], b"\xc3"), ProtocolError::InvalidText),
        (
            [frame(0x01, b"\xc3"), frame(OPS[0], b"\x28")].concat(),
            ProtocolError::InvalidText,
        ),
        (frame(OPS[2], b""), ProtocolError::Binary),
        (long, ProtocolError::TooBig),
    ] {
        assert_eq!(decode([stream.as_slice()]), [Seen::Error(error)]);
        assert_eq!(decode(stream.chunks(1)), [Seen::Error(error)], "in pieces");
    }
}

#[test]
fn a_character_may_be_split_between_fragments() {
    let stream = [frame(0x01, b"\xc3"), frame(OPS[0], b"\xa9")].concat();
    assert_eq!(decode([stream.as_slice()]), [Seen::Text("é".into())]);
}

#[test]
fn a_message_of_just_the_limit_is_taken() {
    let text = "x".repeat(MESSAGE_BYTES_MAX);
    let whole = frame(OPS[1], text.as_bytes());
    let (head, tail) = text.as_bytes().split_at(17);
    let parts = [frame(0x01, head), frame(OPS[0], tail)].concat();
    for stream in [whole, parts] {
        assert_eq!(decode([stream.as_slice()]), [Seen::Text(text.clone())]);
    }
}

#[test]
fn a_close_frame_tells_code_and_reason() {
    let mut payload = 4321_u16.to_be_bytes().to_vec();
    payload.extend("またね".as_bytes());
    let stream = [frame(OPS[3], &payload), frame(OPS[3], b"")].concat();
    assert_eq!(
        decode([stream.as_slice()]),
        [
            Seen::Close(Some((4321, "またね".into()))),
            Seen::Close(None)
        ]
    );
}
