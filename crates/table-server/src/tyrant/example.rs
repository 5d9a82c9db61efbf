//! A request to be shown to an operator, and what it asks for.

use super::wire::{self, Parsed, Put, Request};
use crate::verb::Verb;

/// Bytes of a key that are shown.
const SHOWN_MAX: usize = 160;

impl Request<'_> {
    /// Returns what it asks for.
    pub(super) fn verb(&self) -> Verb {
        match self {
            Self::Put { how, .. } => match how {
                Put::Over => Verb::Put,
                Put::Keep => Verb::PutKeep,
                Put::Append => Verb::PutCat,
                Put::Rotate(_) => Verb::PutShift,
                Put::Silent => Verb::PutSilent,
            },
            Self::Out(_) => Verb::Out,
            Self::Get(_) => Verb::Get,
            Self::GetMany(_) => Verb::GetMany,
            Self::ValueSize(_) => Verb::ValueSize,
            Self::IteratorInit => Verb::IteratorInit,
            Self::IteratorNext => Verb::IteratorNext,
            Self::Keys { .. } => Verb::Keys,
            Self::AddInteger { .. } => Verb::AddInteger,
            Self::AddDouble { .. } => Verb::AddDouble,
            Self::Extension => Verb::Extension,
            Self::Sync => Verb::Sync,
            Self::Optimise(_) => Verb::Optimise,
            Self::Vanish => Verb::Vanish,
            Self::Copy(_) => Verb::Copy,
            Self::Restore { .. } => Verb::Restore,
            Self::SetMaster { .. } => Verb::SetMaster,
            Self::RecordCount => Verb::RecordCount,
            Self::Size => Verb::Size,
            Self::Stat => Verb::Stat,
            Self::Misc { .. } => Verb::Misc,
            Self::Replicate { .. } | Self::Follow { .. } => Verb::Replicate,
        }
    }

    /// Returns what it names: a key, a prefix, a function.
    fn name(&self) -> &[u8] {
        match self {
            Self::Put { key, .. }
            | Self::Out(key)
            | Self::Get(key)
            | Self::ValueSize(key)
            | Self::AddInteger { key, .. }
            | Self::AddDouble { key, .. } => key,
            Self::Keys { prefix, .. } => prefix,
            Self::Misc { name, .. } => name,
            _ => &[],
        }
    }
}

/// Returns the request that the input begins with: command and key, never a value. Of one that
/// carries a list only the end may be there, which says nothing.
pub(crate) fn example(input: &[u8]) -> Option<String> {
    let Parsed::Whole(request, _) = wire::parse(input, usize::MAX) else {
        return None;
    };
    let name = request.name();
    let name = name.get(..SHOWN_MAX).unwrap_or(name).escape_ascii();
    let shown = format!("{} {name}", request.verb().word());
    Some(shown.trim_ascii_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_and_no_value() {
        let put = [
            &[0xC8, 0x18][..],
            &[0, 0, 0, 2],
            &[0, 0, 0, 6],
            b"\xff1",
            b"secret",
        ]
        .concat();
        assert_eq!(example(&put).as_deref(), Some("putnr \\xff1"));
        assert_eq!(example(&[0xC8, 0x80]).as_deref(), Some("rnum"));
        assert_eq!(example(b"1"), None);
    }
}
