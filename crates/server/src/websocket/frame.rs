//! Frame headers (RFC 6455 section 5.2): reading a client's, writing the server's.

use super::ProtocolError;

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpCode {
    /// The next part of a message in fragments.
    Continuation,
    /// A text message, or its first part.
    Text,
    /// A binary message, or its first part.
    Binary,
    /// The end of the connection.
    Close,
    /// A question whether the peer is there.
    Ping,
    /// The answer to it.
    Pong,
}

impl OpCode {
    const fn parse(nibble: u8) -> Option<Self> {
        Some(match nibble {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    const fn nibble(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    pub(super) const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// The header of a frame that the server sends: unmasked, never in fragments.
#[derive(Debug, Clone, Copy)]
pub struct FrameHeader {
    bytes: [u8; 10],
    length: u8,
}

impl FrameHeader {
    /// Makes the header for a payload of this length.
    pub fn new(op: OpCode, payload_length: usize) -> Self {
        let mut bytes = [0; 10];
        bytes[0] = 0x80 | op.nibble();
        let length = match payload_length {
            0..=125 => {
                bytes[1] = payload_length as u8;
                2
            }
            126..=0xffff => {
                bytes[1] = 126;
                bytes[2..4].copy_from_slice(&(payload_length as u16).to_be_bytes());
                4
            }
            _ => {
                bytes[1] = 127;
                bytes[2..].copy_from_slice(&(payload_length as u64).to_be_bytes());
                10
            }
        };
        Self { bytes, length }
    }

    /// Returns the bytes to send before the payload.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes
            .get(..usize::from(self.length))
            .unwrap_or_default()
    }
}

/// The header of a client's frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientHeader {
    /// Whether this is the last part of its message.
    pub(super) last: bool,
    pub(super) op: OpCode,
    mask: [u8; 4],
    /// How long the header itself is.
    pub(super) length: usize,
    pub(super) payload_length: usize,
}

/// What the first bytes of a frame tell.
pub(super) enum Parsed {
    Header(ClientHeader),
    /// It takes at least this many bytes to tell more.
    Needs(usize),
}

impl ClientHeader {
    /// Reads a header as far as it has come; refuses it as early as it can be refused.
    pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, ProtocolError> {
        let [first, second, rest @ ..] = bytes else {
            return Ok(Parsed::Needs(2));
        };
        if first & 0x70 != 0 {
            return Err(ProtocolError::ReservedBit);
        }
        let op = OpCode::parse(first & 0x0f).ok_or(ProtocolError::UnknownOpCode)?;
        let last = first & 0x80 != 0;
        if second & 0x80 == 0 {
            return Err(ProtocolError::Unmasked);
        }
        let short = second & 0x7f;
        if op.is_control() && (!last || short > 125) {
            return Err(ProtocolError::ControlFrame);
        }
        let (payload_length, rest, length) = match short {
            126 => match rest.split_first_chunk() {
                Some((length, rest)) => (u64::from(u16::from_be_bytes(*length)), rest, 8),
                None => return Ok(Parsed::Needs(4)),
            },
            127 => match rest.split_first_chunk() {
                Some((length, rest)) => (u64::from_be_bytes(*length), rest, 14),
                None => return Ok(Parsed::Needs(10)),
            },
            _ => (u64::from(short), rest, 6),
        };
        let shortest = match payload_length {
            0..=125 => 6,
            126..=0xffff => 8,
            _ => 14,
        };
        if length != shortest || payload_length >> 63 != 0 {
            return Err(ProtocolError::Length);
        }
        let Some(mask) = rest.first_chunk() else {
            return Ok(Parsed::Needs(length));
        };
        Ok(Parsed::Header(Self {
            last,
            op,
            mask: *mask,
            length,
            payload_length: usize::try_from(payload_length).map_err(|_| ProtocolError::TooBig)?,
        }))
    }

    /// Takes the mask off a payload.
    pub(super) fn unmask(&self, payload: &mut [u8]) {
        let word = u64::from_ne_bytes(std::array::from_fn(|i| {
            self.mask.get(i % 4).copied().unwrap_or_default()
        }));
        let (words, rest) = payload.as_chunks_mut::<8>();
        for bytes in words {
            *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
        }
        for (byte, mask) in rest.iter_mut().zip(self.mask.iter().cycle()) {
            *byte ^= mask;
        }
    }
}
