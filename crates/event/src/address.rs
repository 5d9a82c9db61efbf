//! Addresses: what names all versions of a replaceable or addressable event.

use crate::{Kind, KindClass, PublicKey};

/// The address of a replaceable or addressable event: kind, author, and `d` (empty where the kind
/// has none).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// The kind.
    pub kind: Kind,
    /// The author.
    pub pubkey: PublicKey,
    /// The value of the `d` tag; empty if missing, and for replaceable kinds.
    pub d: String,
}

impl Address {
    /// Parses `kind:pubkey:d` as an `a` tag has it. `None` for anything else, and for kinds that
    /// are neither replaceable nor addressable; for a replaceable kind `d` must be empty (a trailing
    /// colon may be missing).
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let (digits, hex, d) = (parts.next()?, parts.next()?, parts.next());
        let kind: u16 = digits.parse().ok()?;
        if kind.to_string() != digits {
            return None;
        }
        let kind = Kind(kind);
        let d = match (kind.class(), d) {
            (KindClass::Addressable, Some(d)) => d,
            (KindClass::Replaceable, None | Some("")) => "",
            _ => return None,
        };
        Some(Self {
            kind,
            pubkey: PublicKey::from_hex(hex.as_bytes()).ok()?,
            d: d.to_owned(),
        })
    }
}
