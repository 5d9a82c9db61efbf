//! Kinds and the four classes NIP-01 sorts them into.

/// An event's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u16);

/// What a relay does with events of a kind (NIP-01).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindClass {
    /// Kept, each one.
    Regular,
    /// The newest per author and kind is kept.
    Replaceable,
    /// Sent to subscribers, never stored.
    Ephemeral,
    /// The newest per author, kind and `d` tag is kept.
    Addressable,
}

impl Kind {
    /// A deletion request (NIP-09).
    pub const DELETION: Self = Self(5);
    /// An encrypted direct message of the old form (NIP-04).
    pub const DIRECT_MESSAGE: Self = Self(4);
    /// A request to vanish (NIP-62).
    pub const VANISH: Self = Self(62);
    /// A gift wrap (NIP-59).
    pub const GIFT_WRAP: Self = Self(1059);
    /// An ephemeral gift wrap (NIP-59).
    pub const EPHEMERAL_GIFT_WRAP: Self = Self(21059);
    /// A client's answer to an AUTH challenge (NIP-42).
    pub const CLIENT_AUTH: Self = Self(22242);

    /// Returns the class that NIP-01 gives this kind; every kind it does not name is regular.
    pub const fn class(self) -> KindClass {
        match self.0 {
            0 | 3 | 10000..=19999 => KindClass::Replaceable,
            20000..=29999 => KindClass::Ephemeral,
            30000..=39999 => KindClass::Addressable,
            _ => KindClass::Regular,
        }
    }

    /// Tells whether events of this kind are only for their parties (NIP-42, NIP-17, NIP-59).
    pub const fn is_private(self) -> bool {
        matches!(
            self,
            Self::DIRECT_MESSAGE | Self::GIFT_WRAP | Self::EPHEMERAL_GIFT_WRAP
        )
    }
}
