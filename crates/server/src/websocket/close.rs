//! Why a connection ends: close codes, and the ways a peer can break the protocol.

/// A close code (RFC 6455 section 7.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseCode(pub u16);

impl CloseCode {
    /// The purpose has been fulfilled.
    pub const NORMAL: Self = Self(1000);
    /// The server is going away.
    pub const GOING_AWAY: Self = Self(1001);
    /// The peer broke the framing rules.
    pub const PROTOCOL: Self = Self(1002);
    /// The peer sent data of a kind that is not accepted here.
    pub const UNSUPPORTED: Self = Self(1003);
    /// Text that is not UTF-8.
    pub const INVALID_TEXT: Self = Self(1007);
    /// The peer broke a rule of ours.
    pub const POLICY: Self = Self(1008);
    /// A message longer than we take.
    pub const TOO_BIG: Self = Self(1009);

    /// Tells whether a peer may put this code into a close frame.
    pub(super) const fn may_be_sent(self) -> bool {
        matches!(self.0, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }

    /// Writes the payload of a close frame. The reason is cut, at a character's boundary, to the
    /// 123 bytes that a control frame has room for.
    pub fn payload(self, reason: &str) -> Vec<u8> {
        let end = reason.floor_char_boundary(123);
        let mut payload = self.0.to_be_bytes().to_vec();
        payload.extend(reason.bytes().take(end));
        payload
    }
}

/// How a peer broke the protocol. The text is the reason in the close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A client must mask its frames (section 5.1).
    #[error("frames from a client must be masked")]
    Unmasked,
    /// A reserved bit is set and no extension was agreed on.
    #[error("a reserved bit is set")]
    ReservedBit,
    /// An operation code that means nothing.
    #[error("unknown operation code")]
    UnknownOpCode,
    /// A control frame in fragments, or longer than 125 bytes.
    #[error("control frames are whole and at most 125 bytes long")]
    ControlFrame,
    /// A continuation of nothing, or a new message before the old one's end.
    #[error("fragments out of order")]
    FragmentOrder,
    /// A length written in more bytes than it needs, or with its highest bit set.
    #[error("malformed length")]
    Length,
    /// A close frame whose payload is one byte long or has a code that may not be sent.
    #[error("malformed close frame")]
    CloseFrame,
    /// Text that is not UTF-8.
    #[error("text must be UTF-8")]
    InvalidText,
    /// Binary data: Nostr speaks text.
    #[error("binary messages are not accepted: send text")]
    Binary,
    /// A message longer than the limit.
    #[error("the message is too long")]
    TooBig,
}

impl ProtocolError {
    /// Returns the code to close with.
    pub const fn close_code(self) -> CloseCode {
        match self {
            Self::InvalidText => CloseCode::INVALID_TEXT,
            Self::Binary => CloseCode::UNSUPPORTED,
            Self::TooBig => CloseCode::TOO_BIG,
            _ => CloseCode::PROTOCOL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_reason_is_cut_between_characters() {
        let payload = CloseCode::POLICY.payload(&"遅".repeat(100));
        assert_eq!(payload.len(), 2 + 123);
        assert!(std::str::from_utf8(&payload[2..]).is_ok());
        assert_eq!(CloseCode::POLICY.payload(&"é".repeat(100)).len(), 2 + 122);
    }
}
