//! From a client's bytes to its messages.
//!
//! Messages that arrive whole are unmasked where they lie and handed out without a copy. Only a
//! frame, or a message in fragments, that has not arrived wholly is kept: a silent connection keeps
//! nothing.

use super::{
    CloseCode, OpCode, ProtocolError,
    frame::{ClientHeader, Parsed},
};

/// What a client has sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// A message.
    Text(&'a str),
    /// To be answered by a pong with the same payload.
    Ping(&'a [u8]),
    /// The answer to a ping, or a sign of life.
    Pong(&'a [u8]),
    /// The client ends the connection, perhaps with a code and a reason.
    Close(Option<(CloseCode, &'a str)>),
}

/// Decodes one connection's frames.
#[derive(Debug)]
pub struct Decoder {
    message_bytes_max: usize,
    /// The beginning of a frame whose end has not arrived, or what was handed out last.
    partial: Vec<u8>,
    /// `partial` has been handed out.
    delivered: bool,
    /// The parts so far of a message in fragments.
    fragments: Option<Vec<u8>>,
}

/// Where a whole frame lies.
enum Place<'a> {
    Partial,
    Input(&'a mut [u8]),
}

impl Decoder {
    /// Creates a decoder that refuses messages longer than this.
    pub const fn new(message_bytes_max: usize) -> Self {
        Self {
            message_bytes_max,
            partial: Vec::new(),
            delivered: false,
            fragments: None,
        }
    }

    /// Returns the next message in `input` (which is cut down to what follows it), or `None` when
    /// all of it has been taken in. After an error the connection is to be closed.
    #[expect(clippy::mut_mut, reason = "the caller's slice is cut down")]
    pub fn next<'r, 'i: 'r>(
        &'r mut self,
        input: &mut &'i mut [u8],
    ) -> Result<Option<Incoming<'r>>, ProtocolError> {
        let (header, place) = loop {
            if self.delivered {
                self.partial = Vec::new();
                self.delivered = false;
            }
            let Some((header, mut place)) = self.next_frame(input)? else {
                return Ok(None);
            };
            let payload = payload(&header, &mut place, &mut self.partial);
            header.unmask(payload);
            if header.op.is_control() {
                break (header, place);
            }
            match &mut self.fragments {
                None if header.last => break (header, place),
                None => self.fragments = Some(payload.to_vec()),
                Some(fragments) => fragments.extend_from_slice(payload),
            }
            self.delivered = matches!(place, Place::Partial);
            if header.last {
                self.partial = self.fragments.take().unwrap_or_default();
                self.delivered = true;
                return text(&self.partial).map(Some);
            }
        };
        self.delivered = matches!(place, Place::Partial);
        let payload: &'r [u8] = match place {
            Place::Partial => self.partial.get(header.length..).unwrap_or_default(),
            Place::Input(frame) => frame.get(header.length..).unwrap_or_default(),
        };
        Ok(Some(match header.op {
            OpCode::Ping => Incoming::Ping(payload),
            OpCode::Pong => Incoming::Pong(payload),
            OpCode::Close => Incoming::Close(close(payload)?),
            OpCode::Text | OpCode::Binary | OpCode::Continuation => text(payload)?,
        }))
    }

    /// Takes one whole frame, or keeps what there is of it.
    #[expect(clippy::mut_mut, reason = "the caller's slice is cut down")]
    fn next_frame<'i>(
        &mut self,
        input: &mut &'i mut [u8],
    ) -> Result<Option<(ClientHeader, Place<'i>)>, ProtocolError> {
        if self.partial.is_empty()
            && let Parsed::Header(header) = ClientHeader::parse(input)?
        {
            self.check(&header)?;
            let length = header.length + header.payload_length;
            if length <= input.len() {
                let (frame, rest) = std::mem::take(input).split_at_mut(length);
                *input = rest;
                return Ok(Some((header, Place::Input(frame))));
            }
        }
        loop {
            let (length, header) = match ClientHeader::parse(&self.partial)? {
                Parsed::Needs(length) => (length, None),
                Parsed::Header(header) => {
                    self.check(&header)?;
                    (header.length + header.payload_length, Some(header))
                }
            };
            let missing = length.saturating_sub(self.partial.len()).min(input.len());
            let (taken, rest) = std::mem::take(input).split_at_mut(missing);
            *input = rest;
            self.partial.extend_from_slice(taken);
            match header {
                Some(header) if self.partial.len() == length => {
                    return Ok(Some((header, Place::Partial)));
                }
                _ if self.partial.len() < length => return Ok(None),
                _ => {}
            }
        }
    }

    /// Checks what a header may say at this point of the stream.
    fn check(&self, header: &ClientHeader) -> Result<(), ProtocolError> {
        match (header.op, &self.fragments) {
            (OpCode::Binary, None) => return Err(ProtocolError::Binary),
            (OpCode::Continuation, None) | (OpCode::Text | OpCode::Binary, Some(_)) => {
                return Err(ProtocolError::FragmentOrder);
            }
            _ => {}
        }
        let before = match &self.fragments {
            Some(fragments) if header.op == OpCode::Continuation => fragments.len(),
            _ => 0,
        };
        if header.payload_length > self.message_bytes_max.saturating_sub(before)
            && !header.op.is_control()
        {
            return Err(ProtocolError::TooBig);
        }
        Ok(())
    }
}

fn payload<'a>(
    header: &ClientHeader,
    place: &'a mut Place<'_>,
    partial: &'a mut [u8],
) -> &'a mut [u8] {
    let frame = match place {
        Place::Partial => partial,
        Place::Input(frame) => frame,
    };
    frame.get_mut(header.length..).unwrap_or_default()
}

fn text(payload: &[u8]) -> Result<Incoming<'_>, ProtocolError> {
    std::str::from_utf8(payload)
        .map(Incoming::Text)
        .map_err(|_| ProtocolError::InvalidText)
}

fn close(payload: &[u8]) -> Result<Option<(CloseCode, &str)>, ProtocolError> {
    let (code, reason) = match payload {
        [] => return Ok(None),
        [a, b, reason @ ..] => (CloseCode(u16::from_be_bytes([*a, *b])), reason),
        _ => return Err(ProtocolError::CloseFrame),
    };
    if !code.may_be_sent() {
        return Err(ProtocolError::CloseFrame);
    }
    let reason = std::str::from_utf8(reason).map_err(|_| ProtocolError::InvalidText)?;
    Ok(Some((code, reason)))
}
