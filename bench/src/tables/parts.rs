//! The parts of a run.

use clap::ValueEnum;

use crate::tables::{
    options::Tables,
    script::{Ask, Packing},
    speech::{Protocol, Speech},
};

/// Bytes of a send, where many requests go together.
const SEND_BYTES: usize = 16 * 1024;

/// A part of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// One set at a time, on one connection
    Set,
    /// One get at a time, on one connection
    Get,
    /// One set at a time on each of many connections
    SetMany,
    /// One get at a time on each of many connections
    GetMany,
    /// Sets without answers (noreply), each in a send of its own
    Noreply,
    /// Sets without answers, 16 KiB in a send
    NoreplyPacked,
    /// Sets without answers, 16 KiB in a send, on many connections
    NoreplyPackedMany,
    /// Tokyo Tyrant's putnr where it is spoken, 16 KiB in a send
    PutnrPacked,
    /// Many sets in a send, then their answers
    SetPipelined,
    /// Many gets in a send, then their answers
    GetPipelined,
    /// Entries appended to lists of eight, pipelined: `ms` with MQ, or LPUSH and LTRIM
    Rotate,
    /// Nine gets for each set on many connections, pipelined
    Mixed,
    /// The same at a rate
    Rate,
}

/// How a part asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By scripts, on so many connections, with so many requests under way on each.
    Script {
        ask: Ask,
        packing: Packing,
        connections: usize,
        window: usize,
    },
    /// Nine gets for each set; each as soon as there is room.
    Mixed,
    AtRate,
}

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Set => "set, one at a time",
            Self::Get => "get, one at a time",
            Self::SetMany => "set, many connections",
            Self::GetMany => "get, many connections",
            Self::Noreply => "set without answer, one in a send",
            Self::NoreplyPacked => "set without answer, 16 KiB in a send",
            Self::NoreplyPackedMany => "set without answer, 16 KiB in a send, many connections",
            Self::PutnrPacked => "putnr, 16 KiB in a send",
            Self::SetPipelined => "set, pipelined",
            Self::GetPipelined => "get, pipelined",
            Self::Rotate => "rotate, pipelined",
            Self::Mixed => MIXED,
            Self::Rate => "nine gets, one set, at a rate",
        }
    }

    /// Returns how the part asks a server, or why it can't.
    pub(crate) fn way(self, options: &Tables, speech: Speech) -> Result<Way, &'static str> {
        let many = usize::from(options.connections);
        let window = usize::from(options.window);
        let packed = Packing::Bytes(SEND_BYTES);
        let (ask, packing, connections, window) = match self {
            Self::Set => (Ask::Set, Packing::Requests(1), 1, 1),
            Self::Get => (Ask::Get, Packing::Requests(1), 1, 1),
            Self::SetMany => (Ask::Set, Packing::Requests(1), many, 1),
            Self::GetMany => (Ask::Get, Packing::Requests(1), many, 1),
            Self::Noreply => (Ask::QuietSet, Packing::Requests(1), 1, 1),
            Self::NoreplyPackedMany => (Ask::QuietSet, packed, many, 1),
            Self::PutnrPacked if speech.has_tyrant => (Ask::Putnr, packed, 1, 1),
            Self::NoreplyPacked | Self::PutnrPacked => (Ask::QuietSet, packed, 1, 1),
            Self::SetPipelined => (Ask::Set, Packing::Requests(window), 1, window),
            Self::GetPipelined => (Ask::Get, Packing::Requests(window), 1, window),
            Self::Rotate => (Ask::Rotate, Packing::Requests(window), 1, window),
            Self::Mixed => return Ok(Way::Mixed),
            Self::Rate => return Ok(Way::AtRate),
        };
        if ask == Ask::QuietSet && speech.protocol == Protocol::Redis {
            return Err("Redis answers everything");
        }
        if ask == Ask::Rotate && !speech.rotates {
            return Err("it does not rotate values under the keys of --lists");
        }
        Ok(Way::Script {
            ask,
            packing,
            connections,
            window,
        })
    }
}

/// What the rate of the open loop is taken from.
pub(crate) const MIXED: &str = "nine gets, one set, pipelined";
